// Exchange: matched requests that one call starts and one call waits for. Together they need two
// counters, one done word, one ring and one wait. An exchange is local: the other sides of its
// pairs are ordinary requests, or members of their own exchanges. api/doc/protocol.md has the
// thresholds and why they are exact (P5 to P9).
//
// An exchange with two sets, for double-buffered codes, starts its sets in turn. Each set has its
// own requests and buffers. A message of the other set can replace a clear-to-send (P10 to P13). A
// failure in either set releases both. Freeing a member ends both.
#ifndef LANYARD_TRANSPORT_CORE_EXCHANGE_H_
#define LANYARD_TRANSPORT_CORE_EXCHANGE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/core/plan.h"
#include "transport/core/request.h"
#include "transport/core/transfer.h"

namespace lanyard::core {

struct Exchange {
  std::string name;               // from the user
  uint64_t number = 0;            // from the endpoint, never reused; odd only for the second of two sets
  Exchange* other = nullptr;      // the other set; null: none
  std::vector<Request*> members;  // not freed yet
  Resources shared;               // trigger T, completion counter C and the done word (P5)
  nic::RemoteKey counted_done;    // the done word's key with which the other set's T counts it
  // Rings and waits for all; its plan raises the done word. Null: not matched, no peers, or freed.
  Request* lead = nullptr;
  bool bound = false;       // all members were matched
  bool ended = false;       // a member of either set was freed: the others cannot be started
  uint64_t sends = 0;       // n: regular sends with clear-to-sends
  uint64_t messages = 0;    // N: counts of C in one iteration
  bool rings = false;       // something waits for T
  std::string failure;      // the member whose failure released it incomplete; empty: none
  bool released = false;    // it was released, and then a member was freed
  uint64_t last_queue = 0;  // the queue of the last start, once a member was freed
  uint64_t last_start = 0;  // the number of starts, once a member was freed

  size_t in_call = 0;  // scratch: members in the call being checked

  // Returns the first member for which `is` returns true; null if there is none.
  template <typename Is>
  Request* first(Is is) const {
    const auto found = std::ranges::find_if(members, [&](const Request* each) { return is(*each); });
    return found == members.end() ? nullptr : *found;
  }
  // Returns a member that is not matched; null if all are.
  const Request* unmatched() const {
    return first([](const Request& member) { return !member.matched(); });
  }
  // Counts of T in one iteration, without the ring.
  uint64_t others() const { return sends + (other != nullptr ? 1 : 0); }
  // What one ring adds to T.
  uint64_t ring_value() const { return others() + 1; }
  // Counts of T in one iteration.
  uint64_t trigger_step() const { return ring_value() + others(); }
  // Counts of T once so many starts of this set and of the other one are complete.
  uint64_t trigger_value(uint64_t starts, uint64_t of_other) const {
    return ((rings ? ring_value() : 0) + sends) * starts + (other != nullptr ? of_other : 0);
  }
  // "exchange "halo" (8 sends, 8 receives)", "exchange "halo", set 1 (8 sends, 8 receives)"
  std::string describe() const;
};

// For the Exchange::number of one of two sets: its index, and the number of the other set.
constexpr uint64_t set_of(uint64_t number) { return number & 1; }
constexpr uint64_t other_set(uint64_t number) { return number ^ 1; }

// True if the member's write waits for clear-to-sends of its own.
bool needs_clearance(const Request& member);

// Returns why this NIC cannot serve exchanges, or nothing.
std::optional<std::string> obstacle_to_exchanges(const nic::Caps& caps);

// Sets the thresholds. Requires that all members are matched and have their plans.
void bind_exchange(Exchange& exchange, const PlanContext& context);

// Decides which clear-to-sends are implied (P11) and sets the thresholds. Without any, the sets
// become two exchanges. Requires that all members of both sets are matched.
void bind_sets(Exchange& first, Exchange& second, const PlanContext& context);

// kInvalidState unless all members of each exchange in the call are there, matched and not freed.
Status check_exchanges(std::span<Request* const> requests);

// Checks that the sets in the call may start on that queue. Requires check_exchanges().
// kInvalidState: it is the other set's turn, or the last start of that set was not waited for or is
// incomplete on another queue. kFailed: an operation of the other set has failed.
Status check_turns(std::span<Request* const> requests, uint64_t queue);

// Returns why clear-to-sends are not implied; "" if they are, or without a second set or a peer.
std::string why_not_implied(const Request& request);

// Returns the members whose clear-to-send of this iteration has not come, in their order.
std::vector<const Request*> missing_clearances(const Exchange& exchange, uint64_t iteration);

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_EXCHANGE_H_
