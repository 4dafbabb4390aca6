// Hints on persistent requests, and what is in force: MPIX_Request_set_info, MPIX_Request_get_info.
#include <mpi.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/context.h"
#include "api/match_call.h"
#include "api/request_info.h"
#include "transport/core/exchange.h"
#include "transport/core/strategy.h"

namespace lanyard::api {

namespace {

constexpr const char* kExchange = "lanyard_exchange";
constexpr const char* kNone = "none";

// Why the hint that a request was given is not in force; nothing where it is.
std::optional<std::string> why_no_exchange(const RequestRecord& record) {
  const core::Exchange* exchange = record.core != nullptr ? record.core->exchange : nullptr;
  if (exchange == nullptr)
    return record.exchange_obstacle.empty() ? "the request has not been given to a matching function"
                                            : record.exchange_obstacle;
  if (exchange->ended)
    return "a member of the exchange was freed";
  if (!exchange->bound)
    return "a member of the exchange is not matched";
  return std::nullopt;
}

using Facts = std::vector<std::pair<const char*, std::string>>;

Facts facts_of(Context& context, const RequestRecord& record) LANYARD_REQUIRES(context_locked) {
  const bool matched = record.matched();
  Facts facts = {{"lanyard_route", matched ? "card" : "mpi"}};
  if (context.nic_status().ok())
    facts.emplace_back("lanyard_strategy", core::strategy_name(context.endpoint().options().strategy));
  // Of a receive the match tells.
  if (matched || record.transfer.direction == core::Direction::kSend)
    facts.emplace_back("lanyard_ready", (matched ? record.core->ready : record.transfer.ready) ? "yes" : "no");
  if (matched)
    facts.emplace_back("lanyard_entries", std::to_string(record.core->entries));
  std::optional<std::string> why;
  if (!record.exchange.empty())
    why = why_no_exchange(record);
  facts.emplace_back(kExchange, record.exchange.empty() || why ? kNone : record.core->exchange->name);
  if (why)
    facts.emplace_back("lanyard_exchange_why", *why);
  return facts;
}

// Why the hints of a request cannot be set, or "".
std::string why_too_late(const RequestRecord& record) {
  if (record.matched())
    return "the request (" + record.core->describe() + ") is matched already: hints come before the match";
  if (record.in_imatch || record.matching())
    return "the request (" + record.core->describe() + ") is being matched: hints come before the match";
  if (record.core != nullptr && record.core->exchange != nullptr)
    return "the request (" + record.core->describe() + ") is a member of an exchange, until it is freed";
  return "";
}

}  // namespace

void make_exchanges(Context& context, const std::vector<RequestRecord*>& records) {
  std::map<std::string, std::vector<RequestRecord*>> named;
  for (RequestRecord* record : records)
    if (!record->exchange.empty() && record->core->exchange == nullptr &&
        record->core->state == core::Request::State::kFresh)
      named[record->exchange].push_back(record);
  for (const auto& [name, members] : named) {
    std::optional<std::string> obstacle =
        core::obstacle_to_exchanges(context.endpoint().options().strategy, context.nic().caps());
    if (!obstacle) {
      std::vector<core::Request*> requests;
      for (const RequestRecord* member : members)
        requests.push_back(member->core);
      if (const Status status = context.endpoint().make_exchange(name, requests); !status.ok())
        obstacle = status.message();
    }
    for (RequestRecord* member : members)
      member->exchange_obstacle = obstacle.value_or("");
  }
}

}  // namespace lanyard::api

using namespace lanyard::api;

extern "C" {

int MPIX_Request_set_info(MPI_Request request, MPI_Info info) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised();
  if (info == MPI_INFO_NULL)
    return raise(MPI_COMM_WORLD, MPI_ERR_INFO, "MPIX_Request_set_info: MPI_INFO_NULL");
  std::vector<char> value(MPI_MAX_INFO_VAL + 1);
  int found = 0;
  if (const int code = PMPI_Info_get(info, kExchange, MPI_MAX_INFO_VAL, value.data(), &found); code != MPI_SUCCESS)
    return code;
  MPI_Comm communicator = MPI_COMM_WORLD;
  std::string obstacle = "not a persistent point-to-point request";
  {
    const ContextLock lock(*context);
    MatchCall::advance_all(*context);
    RequestRecord* record = request == MPI_REQUEST_NULL ? nullptr : context->requests().find(request);
    if (record != nullptr) {
      communicator = record->communicator;
      obstacle = why_too_late(*record);
      if (obstacle.empty() && found != 0)
        record->exchange = std::string(value.data()) == kNone ? "" : value.data();
    }
  }
  return obstacle.empty() ? MPI_SUCCESS : raise(communicator, MPI_ERR_REQUEST, "MPIX_Request_set_info: " + obstacle);
}

int MPIX_Request_get_info(MPI_Request request, MPI_Info* info) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised();
  if (info == nullptr)
    return raise(MPI_COMM_WORLD, MPI_ERR_ARG, "MPIX_Request_get_info: null pointer");
  std::optional<Facts> facts;
  {
    const ContextLock lock(*context);
    MatchCall::advance_all(*context);
    if (const RequestRecord* record = request == MPI_REQUEST_NULL ? nullptr : context->requests().find(request))
      facts = facts_of(*context, *record);
  }
  if (!facts)
    return raise(MPI_COMM_WORLD, MPI_ERR_REQUEST, "MPIX_Request_get_info: not a persistent point-to-point request");
  if (const int code = PMPI_Info_create(info); code != MPI_SUCCESS)
    return code;
  for (const auto& [key, value] : *facts)
    PMPI_Info_set(*info, key, value.c_str());
  return MPI_SUCCESS;
}

}  // extern "C"
