#include "transport/core/exchange_sets.h"

#include <algorithm>
#include <utility>

namespace lanyard::core {

namespace {

// Whether a message of the other set goes the other way, between the same two exchanges.
bool has_answer(const Request& member) {
  const std::vector<Request*>& others = member.exchange->other->members;
  return std::any_of(others.begin(), others.end(), [&](const Request* each) {
    return each->lane == nullptr && each->transfer.direction != member.transfer.direction &&
           each->matched_nic == member.matched_nic && each->matched_set == other_set(member.matched_set);
  });
}

Clearance clearance_of(const Request& member) {
  if (!member.goes_by_card())
    return member.clearance;
  if (member.matched_set == 0)
    return Clearance::kOneSided;
  if (set_of(member.matched_set) != set_of(member.exchange->number))
    return Clearance::kCrossed;
  return has_answer(member) ? Clearance::kImplied : Clearance::kOneWay;
}

void apply(Request& member) {
  if (!member.goes_by_card())
    return;
  const bool send = member.transfer.direction == Direction::kSend;
  const bool implied = member.clearance == Clearance::kImplied;
  member.finds_out = send == (member.ready || implied);
  if (send || !implied)
    return;
  member.plan.clear();
  member.entries = 0;
}

Status check_turn(const Exchange& set, uint64_t queue) {
  const Exchange& other = *set.other;
  const Request& last = *other.lead;
  const auto misuse = [&](const std::string& what) {
    return Status(Code::kInvalidState, "the " + set.describe() + " cannot be started: " + what);
  };
  for (const Request* member : other.members)
    if (member->failures > 0)
      return {Code::kFailed, "an operation of the other set of the " + set.describe() +
                                 " failed before: free all of both and match new ones (" + member->describe() + ")"};
  if ((set_of(set.number) == 0) != (set.lead->starts == last.starts))
    return misuse("it is the other set's turn");
  if (last.needs_wait())
    return misuse("the wait for the other set's last start was not enqueued");
  const bool elsewhere = last.queue_number != queue && last.starts > 0;
  if (elsewhere && !std::all_of(other.members.begin(), other.members.end(),
                                [](const Request* member) { return member->complete(); }))
    return misuse("the other set's last start is on another queue and has not completed");
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
    case Clearance::kLane: return "its lane to " + peer + " tells of starts by itself";
    case Clearance::kOneSided: return peer + " has no exchange with two sets there";
    case Clearance::kCrossed: return peer + " has its request in the other set";
    case Clearance::kOneWay:
      return std::string("in the other set nothing ") +
             (request.transfer.direction == Direction::kSend ? "comes from " : "goes to ") + peer +
             ", or not by the card between the same exchanges";
  }
  return "";
}

}  // namespace lanyard::core
