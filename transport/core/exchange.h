// Exchange: matched requests that are always started by one call and waited for by one call, and so need two counters,
// one done word, one ring and one wait together. It is a matter of this process alone: the other sides of its pairs are
// ordinary requests, or members of exchanges of their own. api/doc/protocol.md has the thresholds and why they are
// exact (P5 to P9).
//
// An exchange with two sets, for double-buffered codes, is started set by set in turn. Each set has requests and
// buffers of its own; a message of the other set that has come says what a clear-to-send would (P10 to P13). A failure
// in either set releases both; a member that is freed ends both.
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
  std::string name;               // the user's
  uint64_t number = 0;            // the endpoint's, never used again; odd of the second of two sets alone
  Exchange* other = nullptr;      // its other set, where it has two
  std::vector<Request*> members;  // that have not been freed
  Resources shared;               // trigger: T of the page; completion: C; and the done word
  nic::RemoteKey counted_done;    // of the done word, where the other set's trigger counts it
  // It rings and waits for all: its plan has the done word's increment. Null before the match, or where nothing moves.
  Request* lead = nullptr;
  bool bound = false;       // all have been matched
  bool ended = false;       // one was freed since, or before: the others cannot be started any more
  uint64_t sends = 0;       // regular ones with clear-to-sends: n
  uint64_t messages = 0;    // N: what C counts in one iteration
  bool rings = false;       // something waits for T
  std::string failure;      // the member whose failure released it incomplete; empty: none
  bool released = false;    // it was released, and a member has been freed since
  uint64_t last_queue = 0;  // of the last start, once a member has been freed
  uint64_t last_start = 0;  // likewise: how many there were

  size_t in_call = 0;  // scratch: members in the call being checked

  // The first member that `is` says yes to; null: none.
  template <typename Is>
  Request* first(Is is) const {
    const auto found = std::ranges::find_if(members, [&](const Request* each) { return is(*each); });
    return found == members.end() ? nullptr : *found;
  }
  // A member that is not matched; null: all are.
  const Request* unmatched() const {
    return first([](const Request& member) { return !member.matched(); });
  }
  // What T counts in one iteration besides a ring.
  uint64_t others() const { return sends + (other != nullptr ? 1 : 0); }
  // What one ring adds to T.
  uint64_t ring_value() const { return others() + 1; }
  // What T counts in one iteration.
  uint64_t trigger_step() const { return ring_value() + others(); }
  // What T has counted once so many starts, and of the other set so many, are complete.
  uint64_t trigger_value(uint64_t starts, uint64_t of_other) const {
    return ((rings ? ring_value() : 0) + sends) * starts + (other != nullptr ? of_other : 0);
  }
  // "exchange "halo" (8 sends, 8 receives)", "exchange "halo", set 1 (8 sends, 8 receives)"
  std::string describe() const;
};

// By its Exchange::number, of an exchange with two sets: which of them, and the number of the other.
constexpr uint64_t set_of(uint64_t number) { return number & 1; }
constexpr uint64_t other_set(uint64_t number) { return number ^ 1; }

// Whether the request is a member whose write waits for clear-to-sends of its own.
bool needs_clearance(const Request& member);

// Why requests of this process cannot be merged, or nothing.
std::optional<std::string> obstacle_to_exchanges(const nic::Caps& caps);

// Sets the thresholds, once all members have been matched and have their plans.
void bind_exchange(Exchange& exchange, const PlanContext& context);

// Decides for each member of both sets, which have all been matched, whether its clear-to-sends are implied, and sets
// the thresholds. Where none is the sets are parted.
void bind_sets(Exchange& first, Exchange& second, const PlanContext& context);

// Whether the members of exchanges among the requests are all there, and may be started.
Status check_exchanges(std::span<Request* const> requests);

// Whether the sets among the requests may be started on that queue. Requires check_exchanges(). kInvalidState: it is
// the other set's turn; or its last start was not waited for, or is on another queue and has not completed; kFailed: an
// operation of the other set has failed.
Status check_turns(std::span<Request* const> requests, uint64_t queue);

// Why the clear-to-sends of a member are not implied, in words; "" where they are, or it was not to be.
std::string why_not_implied(const Request& request);

// Clear-to-sends of an iteration that have not come, in the order of the members.
std::vector<const Request*> missing_clearances(const Exchange& exchange, uint64_t iteration);

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_EXCHANGE_H_
