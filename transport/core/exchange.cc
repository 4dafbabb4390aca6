#include "transport/core/exchange.h"

#include <algorithm>

namespace lanyard::core {

namespace {

bool moves(const Request& request) { return request.matched_peer != kNobody; }
// Of its writes' threshold: what of an iteration's counts they do not wait for.
uint64_t not_waited_for(const Exchange& exchange, const Request& member) {
  if (!needs_clearance(member) && member.clearance != Clearance::kImplied)
    return exchange.others();
  return exchange.other != nullptr && set_of(exchange.number) == 0 ? 1 : 0;  // no start was before the first
}

// Where senders are asked how their sends went, one that is asked of an operation that waits for others' messages could
// not answer before these come: so it is a receive, which nobody asks, or else a send whose write goes last.
Request* choose_lead(const Exchange& exchange, Strategy strategy) {
  Request* first = nullptr;
  const auto rank = [&](const Request& member) {
    if (!raises_flags(strategy))
      return 0;
    if (member.transfer.direction == Direction::kReceive)
      return 2;
    return needs_clearance(member) || member.clearance == Clearance::kImplied ? 1 : 0;
  };
  for (Request* member : exchange.members)
    if (moves(*member) && (first == nullptr || rank(*member) > rank(*first)))
      first = member;
  return first;
}

Status misuse(const Exchange& exchange, const std::string& what) {
  return {Code::kInvalidState, "the " + exchange.describe() + " " + what};
}

// A member that is not matched; null: all are.
const Request* find_unmatched(const Exchange& exchange) {
  const auto found = std::find_if(exchange.members.begin(), exchange.members.end(),
                                  [](const Request* each) { return !each->matched(); });
  return found == exchange.members.end() ? nullptr : *found;
}

// Why a call that has a member of it cannot be made.
Status check_whole(const Exchange& exchange, std::span<Request* const> requests) {
  if (exchange.ended)
    return misuse(exchange, "has lost a member, which was freed: free the others and match new ones");
  if (!exchange.bound) {
    const Request* member = find_unmatched(exchange);
    const bool own = member != nullptr;
    if (!own)
      member = find_unmatched(*exchange.other);
    return misuse(exchange, std::string("has a member ") + (own ? "" : "of its other set ") + "that is not matched (" +
                                member->describe() + ")");
  }
  const auto missing = std::find_if(exchange.members.begin(), exchange.members.end(), [&](const Request* each) {
    return std::find(requests.begin(), requests.end(), each) == requests.end();
  });
  return misuse(exchange, "is started and waited for by one call: " + std::to_string(exchange.in_call) + " of its " +
                              std::to_string(exchange.members.size()) + " requests stand in this one, not (" +
                              (*missing)->describe() + ")");
}

}  // namespace

bool needs_clearance(const Request& member) {
  return moves(member) && member.transfer.direction == Direction::kSend && !member.ready &&
         member.clearance != Clearance::kImplied;
}

std::string Exchange::describe() const {
  const auto sent = std::count_if(members.begin(), members.end(),
                                  [](const Request* each) { return each->transfer.direction == Direction::kSend; });
  const std::string which = other != nullptr ? ", set " + std::to_string(set_of(number)) : "";
  return "exchange \"" + name + "\"" + which + " (" + std::to_string(sent) + " sends, " +
         std::to_string(static_cast<ptrdiff_t>(members.size()) - sent) + " receives)";
}

std::optional<std::string> obstacle_to_exchanges(const nic::Caps& caps) {
  if (!caps.counters_count_both)
    return "the NIC " + caps.name + " does not promise that one counter counts own operations and what arrives";
  return std::nullopt;
}

void bind_exchange(Exchange& exchange, const PlanContext& context) {
  for (Request* member : exchange.members) {
    if (!moves(*member))
      continue;
    exchange.sends += needs_clearance(*member) ? 1 : 0;
    exchange.messages += member->completions;
  }
  exchange.bound = true;
  exchange.lead = choose_lead(exchange, context.strategy);
  if (exchange.lead == nullptr)
    return;
  uint64_t most = (nic::kMaxSuccess - context.trigger_base) / std::max(exchange.messages, exchange.trigger_step());
  for (Request* member : exchange.members) {
    for (PlannedOp& planned : member->plan) {
      if (planned.op.trigger != exchange.shared.trigger)
        continue;  // a flag
      planned.step = exchange.trigger_step();
      planned.before = not_waited_for(exchange, *member);
      exchange.rings = true;
    }
    if (moves(*member))
      most = std::min(most, member->most_starts);
  }
  for (Request* member : exchange.members) {
    member->most_starts = most;
    member->completions = exchange.messages;
  }
  Request& lead = *exchange.lead;
  PlanContext of_lead = context;
  of_lead.context = lead.number;
  lead.plan.push_back(tell_stream(lead, of_lead, exchange.messages));
  if (exchange.other != nullptr)
    lead.plan.back().op.op.remote = {context.self, exchange.counted_done, 0};
  ++lead.entries;
}

Status check_exchanges(std::span<Request* const> requests) {
  Status status;
  for (const Request* request : requests)
    if (request->exchange != nullptr)
      ++request->exchange->in_call;
  for (const Request* request : requests) {
    const Exchange* exchange = request->exchange;
    if (exchange != nullptr && status.ok() &&
        (!exchange->bound || exchange->ended || exchange->in_call != exchange->members.size()))
      status = check_whole(*exchange, requests);
  }
  for (const Request* request : requests)
    if (request->exchange != nullptr)
      request->exchange->in_call = 0;
  return status;
}

std::vector<const Request*> missing_clearances(const Exchange& exchange, uint64_t iteration) {
  std::vector<const Request*> missing;
  for (const Request* member : exchange.members)
    if (needs_clearance(*member) && member->clearances() < iteration)
      missing.push_back(member);
  return missing;
}

}  // namespace lanyard::core
