// Hints on persistent requests: Lanyard_Request_set_info, Lanyard_Request_get_info.
#include <mpi.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/collective.h"
#include "api/context.h"
#include "api/match_call.h"
#include "transport/core/exchange.h"
#include "transport/core/transfer.h"

namespace lanyard::api {

namespace {

constexpr const char* kExchange = "lanyard_exchange";
constexpr const char* kSet = "lanyard_exchange_set";
constexpr const char* kRoute = "lanyard_route";
constexpr const char* kNone = "none";
constexpr const char* kUnknown = "not a persistent point-to-point request, nor a collective that can be matched";

// Why a given exchange hint is not in force; nothing if it is.
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

bool has_two_sets(const RequestRecord& record) {
  return record.core->exchange != nullptr && record.core->exchange->other != nullptr;
}

// Why the request uses clear-to-sends although it has a set hint; nothing if it does not. Requires
// that why_no_exchange() is nothing.
std::optional<std::string> why_not_implied(const RequestRecord& record) {
  if (!record.set_obstacle.empty())
    return record.set_obstacle;
  if (std::string why = core::why_not_implied(*record.core); !why.empty())
    return why;
  if (!has_two_sets(record))
    return "every pair of the exchange needs its clear-to-sends";
  return std::nullopt;
}

// The facts of Lanyard_Request_get_info; for a collective those of its members.
InfoItems facts_of(Context& context, const RequestRecord& record) LANYARD_REQUIRES(context_locked) {
  const bool single = record.collective == nullptr;
  const RequestRecord& first = single ? record : *record.collective->members.front();
  const bool matched = record.matched();
  const bool by_lane = matched && first.core->lane != nullptr;
  InfoItems facts = {{kRoute, by_lane ? "lane" : matched ? "card" : "mpi"}};
  if (context.nic_status().ok() && !(single && by_lane))
    facts.emplace_back("lanyard_strategy", core::strategy_name(context.endpoint().options().strategy));
  // For a receive, only the match tells.
  if (single && (matched || record.transfer.direction == core::Direction::kSend))
    facts.emplace_back("lanyard_ready", (matched ? record.core->ready : record.transfer.ready) ? "yes" : "no");
  if (matched) {
    uint64_t entries = single ? record.core->plan.size() : 0;
    for (const auto& member : single ? Collective::Members() : record.collective->members_of(0))
      entries += member->core->plan.size();
    facts.emplace_back("lanyard_entries", std::to_string(entries));
  }
  std::optional<std::string> why;
  if (!first.exchange.empty())
    why = why_no_exchange(first);
  const bool merged = !first.exchange.empty() && !why;
  facts.emplace_back(kExchange, merged ? first.core->exchange->name : kNone);
  if (why)
    facts.emplace_back("lanyard_exchange_why", *why);
  if (!single || record.exchange_set.empty())
    return facts;
  facts.emplace_back(kSet, merged && has_two_sets(record) ? record.exchange_set : kNone);
  if (merged)
    why = why_not_implied(record);
  else if (record.exchange.empty())
    why = std::string("the request has no ") + kExchange;
  if (why)
    facts.emplace_back("lanyard_exchange_set_why", *why);
  return facts;
}

// The hints of an info object; "" stands for none.
struct Hints {
  std::optional<std::string> name, set, route;
};

// Sets hints before the match. For a collective the name "none" makes single requests of one set.
void set_hints(RequestRecord& record, const Hints& hints) {
  if (hints.route)
    for_each_part(record, [&](RequestRecord& part) {
      part.transfer.by_card = !hints.route->empty();
      if (part.core != nullptr)
        part.core->transfer.by_card = part.transfer.by_card;
    });
  if (record.collective == nullptr) {
    record.exchange = hints.name.value_or(record.exchange);
    record.exchange_set = hints.set.value_or(record.exchange_set);
  } else if (hints.name && hints.name->empty()) {
    record.collective->members.resize(record.collective->members_of(0).size());
    record.collective->two_sets = false;
    for_each_part(record, [](RequestRecord& part) {
      part.exchange.clear();
      part.exchange_set.clear();
      part.transfer.in_turn = false;
    });
  }
}

// Why hints cannot be set any more.
Refusal why_too_late(const RequestRecord& record) LANYARD_REQUIRES(context_locked) {
  const auto refuse = [&](const std::string& request, const char* why) LANYARD_REQUIRES(context_locked) {
    return Refusal{MPI_ERR_REQUEST, "the request (" + request + ") " + why, record.communicator};
  };
  if (record.matched())
    return refuse(describe(record), "is matched already: set hints before the match");
  if (record.in_imatch || record.matching())
    return refuse(describe(record), "is being matched: set hints before the match");
  if (record.collective != nullptr && record.collective->members.front()->core != nullptr)
    return refuse(describe(record), "was given to a matching function: set hints before that");
  if (record.core != nullptr && record.core->exchange != nullptr)
    return refuse(record.core->describe(), "is a member of an exchange until it is freed");
  return {};
}

// Reads a hint; sets nothing if the info lacks it.
int value_of(MPI_Info info, const char* key, std::optional<std::string>& value) {
  std::vector<char> text(MPI_MAX_INFO_VAL + 1);
  int found = 0;
  const int code = PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, text.data(), &found);
  if (code == MPI_SUCCESS && found != 0)
    value = std::string(text.data()) == kNone ? "" : text.data();
  return code;
}

}  // namespace

}  // namespace lanyard::api

using namespace lanyard::api;

extern "C" {

int Lanyard_Request_set_info(MPI_Request request, MPI_Info info) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised("MPIX_Request_set_info");
  if (info == MPI_INFO_NULL)
    return raise("MPIX_Request_set_info", MPI_COMM_WORLD, MPI_ERR_INFO, "MPI_INFO_NULL");
  Hints hints;
  for (const auto& [key, value] : {std::pair{kExchange, &hints.name}, {kSet, &hints.set}, {kRoute, &hints.route}})
    if (const int code = value_of(info, key, *value); code != MPI_SUCCESS)
      return code;
  if (hints.set && !hints.set->empty() && *hints.set != "0" && *hints.set != "1")
    return raise("MPIX_Request_set_info", MPI_COMM_WORLD, MPI_ERR_INFO_VALUE,
                 std::string(kSet) + " must be 0, 1 or none, not " + *hints.set);
  if (hints.route && !hints.route->empty() && *hints.route != "card")
    return raise("MPIX_Request_set_info", MPI_COMM_WORLD, MPI_ERR_INFO_VALUE,
                 std::string(kRoute) + " must be card or none, not " + *hints.route);
  Refusal refusal{MPI_ERR_REQUEST, kUnknown};
  {
    const ContextLock lock(*context);
    MatchCall::advance_all(*context);
    if (RequestRecord* record = context->requests().find(request)) {
      refusal = why_too_late(*record);
      if (refusal.error_class == MPI_SUCCESS)
        set_hints(*record, hints);
    }
  }
  return raise("MPIX_Request_set_info", refusal);
}

int Lanyard_Request_get_info(MPI_Request request, MPI_Info* info) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised("MPIX_Request_get_info");
  if (info == nullptr)
    return raise("MPIX_Request_get_info", MPI_COMM_WORLD, MPI_ERR_ARG, "null pointer");
  std::optional<InfoItems> facts;
  {
    const ContextLock lock(*context);
    MatchCall::advance_all(*context);
    if (const RequestRecord* record = context->requests().find(request))
      facts = facts_of(*context, *record);
  }
  if (!facts)
    return raise("MPIX_Request_get_info", MPI_COMM_WORLD, MPI_ERR_REQUEST, kUnknown);
  return make_info(*facts, info);
}

}  // extern "C"
