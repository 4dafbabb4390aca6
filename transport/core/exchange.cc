#include "transport/core/exchange.h"

#include <algorithm>
#include <utility>

namespace lanyard::core {

namespace {

bool moves(const Request& request) { return request.matched_peer != kNobody; }
// Counts of one iteration that the member's operations do not wait for (P5, P10).
uint64_t not_waited_for(const Exchange& exchange, const Request& member) {
  if (!needs_clearance(member) && member.clearance != Clearance::kImplied)
    return exchange.others();
  return exchange.other != nullptr && set_of(exchange.number) == 0 ? 1 : 0;  // no start precedes the first
}

// With strategy B, a send that leads could say how it went only after all messages of the exchange
// (P8). So prefer a receive, which nobody asks, else a send whose write goes last.
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

// Returns the error for a call with members of an exchange that check_exchanges() refuses.
Status check_whole(const Exchange& exchange, std::span<Request* const> requests) {
  if (exchange.ended)
    return misuse(exchange, "has lost a member, which was freed: free the others and match new ones");
  if (!exchange.bound) {
    const Request* member = exchange.unmatched();
    const bool own = member != nullptr;
    if (!own)
      member = exchange.other->unmatched();
    return misuse(exchange, std::string("has a member ") + (own ? "" : "of its other set ") + "that is not matched (" +
                                member->describe() + ")");
  }
  const Request* missing =
      exchange.first([&](const Request& each) { return std::ranges::find(requests, &each) == requests.end(); });
  return misuse(exchange, "is started and waited for by one call: " + std::to_string(exchange.in_call) + " of its " +
                              std::to_string(exchange.members.size()) + " requests stand in this one, not (" +
                              missing->describe() + ")");
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
    for (Post& post : member->plan) {
      if (post.trigger != exchange.shared.trigger)
        continue;  // a flag
      post.step = exchange.trigger_step();
      post.base = exchange.shared.trigger_base - not_waited_for(exchange, *member);
      exchange.rings = true;
    }
    if (moves(*member))
      most = std::min(most, member->most_starts);
  }
  for (Request* member : exchange.members) {
    member->leads = member == exchange.lead;
    member->bell.value = member->leads && exchange.rings ? exchange.ring_value() : 0;
    member->most_starts = most;
    member->completions = exchange.messages;
  }
  Request& lead = *exchange.lead;
  PlanContext of_lead = context;
  of_lead.context = lead.number;
  lead.plan.push_back(tell_stream(lead, of_lead, exchange.messages));
  if (exchange.other != nullptr)
    lead.plan.back().op.remote = {context.self, exchange.counted_done, 0};
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

// ---- Two sets

namespace {

// True if a message of the other set goes the other way, between the same two exchanges.
bool has_answer(const Request& member) {
  return member.exchange->other->first([&](const Request& each) {
    return each.transfer.direction != member.transfer.direction && each.matched_nic == member.matched_nic &&
           each.matched_set == other_set(member.matched_set);
  }) != nullptr;
}

Clearance clearance_of(const Request& member) {
  if (member.matched_peer == kNobody)
    return Clearance::kMessage;
  if (member.matched_set == 0)
    return Clearance::kOneSided;
  if (set_of(member.matched_set) != set_of(member.exchange->number))
    return Clearance::kCrossed;
  return has_answer(member) ? Clearance::kImplied : Clearance::kOneWay;
}

void apply(Request& member) {
  const bool send = member.transfer.direction == Direction::kSend;
  const bool implied = member.clearance == Clearance::kImplied;
  member.finds_out = send == (member.ready || implied);
  if (send || !implied)
    return;
  member.plan.clear();
}

Status check_turn(const Exchange& set, uint64_t queue) {
  const Exchange& other = *set.other;
  const Request& last = *other.lead;
  if (const Request* member = other.first([](const Request& each) { return each.failures > 0; }))
    return {Code::kFailed, "an operation of the other set of the " + set.describe() +
                               " failed before: free all of both and match new ones (" + member->describe() + ")"};
  if ((set_of(set.number) == 0) != (set.lead->starts == last.starts))
    return misuse(set, "cannot be started: it is the other set's turn");
  if (last.needs_wait())
    return misuse(set, "cannot be started: the wait for the other set's last start was not enqueued");
  const bool elsewhere = last.queue_number != queue && last.starts > 0;
  if (elsewhere && other.first([](const Request& member) { return !member.complete(); }) != nullptr)
    return misuse(set, "cannot be started: the other set's last start is on another queue and has not completed");
  return {};
}

}  // namespace

void bind_sets(Exchange& first, Exchange& second, const PlanContext& context) {
  bool implied = false;
  for (Exchange* set : {&first, &second})
    for (Request* member : set->members) {
      member->clearance = clearance_of(*member);
      implied = implied || member->clearance == Clearance::kImplied;
    }
  if (!implied)
    first.other = second.other = nullptr;
  for (Exchange* set : {&first, &second}) {
    for (Request* member : set->members)
      apply(*member);
    bind_exchange(*set, context);
  }
}

Status check_turns(std::span<Request* const> requests, uint64_t queue) {
  for (const Request* request : requests)
    if (const Exchange* exchange = request->exchange;
        exchange != nullptr && exchange->other != nullptr && exchange->lead == request)
      LANYARD_RETURN_IF_ERROR(check_turn(*exchange, queue));
  return {};
}

std::string why_not_implied(const Request& request) {
  const std::string peer = "rank " + std::to_string(request.matched_nic);
  switch (request.clearance) {
    case Clearance::kMessage:
    case Clearance::kImplied: return "";
    case Clearance::kOneSided: return peer + " has no exchange with two sets there";
    case Clearance::kCrossed: return peer + " has its request in the other set";
    case Clearance::kOneWay:
      return std::string("in the other set nothing ") +
             (request.transfer.direction == Direction::kSend ? "comes from " : "goes to ") + peer +
             ", or not between the same exchanges";
  }
  return "";
}

}  // namespace lanyard::core
