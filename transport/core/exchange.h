// Exchange: matched requests that are always started by one call and waited for by one call, and so need two counters,
// one done word, one ring and one wait together. With strategy A a halo step of 8 sends and 8 receives takes 17 entries
// in place of 32, with ready sends 9 in place of 24.
//
// It is a matter of this process alone, but for one counter (see below): the other sides of its pairs are ordinary
// requests, or members of exchanges of their own. Strategy A (plan.h), iteration i = 1, 2, ...; n regular sends, N
// writes in all, sent and received:
//
//   stream --(n+1)--> T >= (2n+1)(i-1) + n+1 --> clear-to-sends of the receives, writes of the ready sends
//   clear-to-sends of the others --1 each--> T >= (2n+1)i --> writes of the regular sends
//   own writes' completions --1 each--> C <--1 each-- writes that land in the receives' buffers
//   C >= N i --> done word += 1 <-- stream waits for i
//
// T, the trigger, counts rings, n+1 each, and the clear-to-sends for the members' sends, 1 each. One ring is worth more
// than all clear-to-sends of an iteration: that they alone never look like it is what makes one doorbell do for both.
//
// Why the thresholds are exact: a start follows the wait for the last on one stream, or finds it complete.
//  - C >= N i means all N of each of the first i iterations. Own writes i+1 need ring i+1, which is after wait i, which
//    C >= N i has let pass. A write i+1 of another's regular send needs our clear-to-send i+1, which needs ring i+1; of
//    a ready send its user has promised that wait i is over (more is not needed: with two exchanges in turn a message
//    may come before its receive is started, and the message before is proof enough that it may). So nothing of
//    iteration i+1 is counted before all of i is.
//  - T >= (2n+1)i means i rings, and i clear-to-sends for each send. Clear-to-send i+1 for a send needs the peer's
//    start i+1, which needs its wait i, which needs our write i, which needed T >= (2n+1)i. So before T has got there
//    nobody's count for i+1 stands in for what is missing of i.
//  - T >= (2n+1)(i-1) + n+1 means i rings: after i-1 of them at most n clear-to-sends i are there, and none of i+1.
//    (With n the others' clear-to-sends would suffice without our start, and ours would come too early.)
// Strategy B (plan.h), where what has landed need not be visible: it is the flags that are counted, for only
// their senders know when their writes are visible. W, one for each send, counts that send's writes, p a start:
//
//   writes of a send --1 each--> W >= p i --> flag: an atomic on the receive's word at the other side
//   own flags' completions --1 each--> C <--1 each-- flags that land in the receives' words
//   C >= N i --> done word += 1 <-- stream waits for i
//
// with T as above, and N the messages sent and received, however many pieces they have. The exactness is the same:
//  - W >= p i means all p of each of the first i iterations, as write i+1 needs ring i+1, after wait i, which needed
//    C >= N i, and so this flag i, which needed W >= p i. A counter for all writes together would raise each flag as
//    late as the last (and tell a failure of one of them to all).
//  - C >= N i means N flags of each of the first i iterations: own flag i+1 needs an own write i+1; another's needs its
//    write i+1; and these come after wait i as above.
//  - T >= (2n+1)i as above: clear-to-send i+1 for a send needs our flag i, which needs our write i.
// What fails counts, too (N1, N5), and so a write that failed raises its flag, and the wait passes for it on both
// sides, as with single requests: the receiver's card cannot tell, and no threshold can. The receiver's process asks
// the sender's before its queue is settled (matcher.h). That one answers for what it sends by W, of which it takes
// successes alone, and not by the done word: the exchange may be waiting for what the receiver does once it has been
// answered. For that the done word's increment is no operation of such a send, where there is a receive. A flag that
// fails counts at its sender alone: the receiver's wait does not pass, until it is told (Endpoint::end_peer()).
//
// A receive whose clear-to-send i has landed but was taken for failed is let go of, and its stream goes on:
// clear-to-send i+1 must not come any more, for at T it would stand in for that of another receiver, whose buffer would
// be written before it has been released, or for the own ring. (With single requests it touches only the pair that
// failed.) So it waits for a counter from which it can be taken back: of a member of an exchange that is T of its own
// side; any other receive, whose sender's offer says that it merges, gets a trigger of its own, and its starts a ring
// of their own.
//
// An exchange can count fewer starts than the ordinary requests of its peers: some 2^48 by the larger of N and 2n+1.
// Whose start is refused then frees it, and so they are told. The price: the slowest receiver holds up the regular
// sends to all, so no receiver may wait for another message of the same exchange before it starts to receive. And what
// fails, fails together: see Endpoint::release(). Two sets in turn need no clear-to-sends: exchange_sets.h.
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
#include "transport/core/strategy.h"

namespace lanyard::core {

struct Exchange {
  std::string name;               // the user's
  uint64_t number = 0;            // the endpoint's, never used again; odd of the second of two sets alone
  Exchange* other = nullptr;      // its other set, where it has two (exchange_sets.h)
  std::vector<Request*> members;  // that have not been freed
  Resources shared;               // trigger: T; completion: C; and the done word
  nic::RemoteKey counted_done;    // of the done word, where the other set's trigger counts it
  Request* lead = nullptr;  // whose plan has the done word's increment; null where nothing moves, or before bind()
  bool bound = false;       // all have been matched
  bool ended = false;       // one was freed since, or before: the others cannot be started any more
  uint64_t sends = 0;       // regular ones with clear-to-sends: n
  uint64_t messages = 0;    // N: what C counts in one iteration
  bool rings = false;       // something waits for T
  std::string failure;      // of which member it was let go of incomplete; empty: of none
  bool released = false;    // it was let go of, and a member has been freed since
  uint64_t last_queue = 0;  // of the last start, once a member has been freed
  uint64_t last_start = 0;  // likewise: how many there were

  nic::Doorbell doorbell;  // of T, as the stream of doorbell_queue rings it
  uint64_t doorbell_queue = 0;
  uint64_t doorbell_base = 0;  // what its word would hold before the first start
  size_t in_call = 0;          // scratch: members in the call being checked

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

// Whether the members of exchanges among the requests are all there, and may be started.
Status check_exchanges(std::span<Request* const> requests);

// Clear-to-sends of an iteration that have not come, in the order of the members.
std::vector<const Request*> missing_clearances(const Exchange& exchange, uint64_t iteration);

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_EXCHANGE_H_
