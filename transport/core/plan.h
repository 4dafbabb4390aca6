// Lowering: what a matched request hands to the NIC at every start, worked out once at matching.
//
// Strategy A, "target counter" (Bridges et al., section V). Iteration i = 1, 2, ... of a pair:
//
//   sender's stream --1--> trigger >= 2i --> write(s) --> completion >= i --> sender's done word += 1
//                            ^                  |
//   receiver's clear-to-send +1                 v +1 a message (remote-write counter)
//   receiver's stream --> shared trigger     landed >= i --> receiver's done word += 1
//
// A regular send's trigger counter counts both its own starts and the receiver's clear-to-sends (atomics that land on
// an 8-byte region bound to it). Neither side can be two ahead of the other, because a restart needs the wait; so the
// value 2i means {i starts, i clear-to-sends} and nothing else. A ready send has its start promised safe: its write
// hangs on the queue's shared trigger counter and its receive sends no clear-to-send. (A receive whose sender merges it
// with others has a trigger of its own: exchange.h.)
//
// Strategy B, "sender's flag", for NICs whose remote-write counters say nothing on visibility: a receive has no
// counter. The writes complete on delivery, and then
//
//   completion >= 2i-1 --> receiver's done word += 1 --> completion >= 2i --> sender's done word += 1
//
// (for a message of one piece). The sender's word comes last, so that nothing of a send is under way once it has
// completed, and it is the sender that is told where the flag fails. A write that fails raises the flag too (N1), and
// the receiver's card cannot know: its sender's process is told, and tells the receiver's, whose stream may have passed
// its wait by then. So the receiver's asks whether there was any before its queue is settled (matcher.h). With A the
// receive of a failed write stays incomplete until it is told.
//
// Strategy C, "write-back", is B without the sender's done word: once the flag is delivered, and with it everything,
// the NIC copies the completion counter to memory (N10), and there the sender's stream waits for what has succeeded:
// the wait of a send that failed passes once that was told (Endpoint::release), not before. A counter goes on from
// where the last user of its word came to, so that these words, too, only grow.
//
// Strategy D, "loopback flush", is A for the same NICs as B: what has landed is counted, and before the stream is told
// the receiver's NIC fetches a word from itself, which is to push what came before it to memory:
//
//   landed >= i --> fetch of a word of one's own --> flushed >= i --> receiver's done word += 1
//
// (landed: by messages, as with A.) The fetch runs once everything of iteration i has been counted, and completes when
// its answer is there, which went the way that the messages went. No NIC promises that this is enough (nic.h, N4), nor
// is it known of GPU memory, which such a fetch need not touch: so D is never chosen, only asked for. A message that
// has failed is not counted, as with A, and there is no flag to tell of it. A fetch that fails tells the stream all the
// same (N1): an operation of the receive has failed then, as the program is told.
//
// Entries a start: A: send 2, ready send 2, receive 2 or (from a ready send) 1. B: send 3, ready send 3, receive 1 or
// 0. C: send 2 and what the copy costs (nic::Caps::write_back_entries), else as B. D: receive 3 or 2, else as A. And
// one more for every further piece of a message longer than the NIC's longest.
#ifndef LANYARD_TRANSPORT_CORE_PLAN_H_
#define LANYARD_TRANSPORT_CORE_PLAN_H_

#include <vector>

#include "transport/core/request.h"
#include "transport/core/strategy.h"

namespace lanyard::core {

// What the other side said when matching.
struct PeerKeys {
  nic::RemoteKey buffer = {};         // a send's target
  nic::RemoteKey clear_to_send = {};  // a receive's target; unused from a ready send
  nic::RemoteKey flag = {};           // strategies B and C, a send's: the receive's done word
  bool ready = false;                 // the pair is a ready send
  uint64_t request = 0;               // the peer's number for its request
  uint64_t longest = UINT64_MAX;      // the longest message of its NIC
  uint64_t set = 0;                   // Exchange::number of the peer's exchange with two sets; 0: of none
};

struct PlanContext {
  uint32_t self = 0;  // this process's NIC
  uint64_t max_message_bytes = 0;
  Strategy strategy = Strategy::kTargetCounter;
  uint64_t trigger_base = 0;  // the NIC's
  WordPool::Word one;         // holds 1: the operand of every increment
  WordPool::Word fetched;     // strategy D: what is fetched, and where to
  WordPool::Word fetched_to;
  uint64_t context = 0;  // given back in failure records
};

// A request's counter begins with what its word has counted for others before, which is less.
inline constexpr uint64_t kMostCountedBefore = uint64_t{1} << 40;

// What a trigger counts before the first iteration. Where the NIC cannot take deferred work back what waits for a
// trigger can be made to wait for ever by a reset alone: then nothing that a stream has been given to ring gets that
// far again.
uint64_t trigger_base(const nic::Caps& caps);

// Writes that a message takes where the longest has so many bytes.
uint64_t pieces_of(uint64_t bytes, uint64_t longest);

// So many starts a request can have before a threshold would pass 48 bits. The same for both sides of a pair.
uint64_t most_starts(Strategy strategy, bool ready, uint64_t pieces, uint64_t trigger_base);

// What the request's completion counter counts in one iteration. Requires its matched_* fields.
uint64_t completions_of(const Request& request, const PlanContext& context);

// Of an operation that hangs on a counter of the request's own. Iterations begin with 1.
uint64_t threshold_of(const Request& request, const PlannedOp& planned, uint64_t iteration);

// Appends the local atomic that tells the stream: once `completion` has counted so many more. Where they have landed,
// or some of them, a flush goes before it with strategy D.
void tell_stream(const Request& request, const PlanContext& context, uint64_t completions, bool landed,
                 std::vector<PlannedOp>& plan);

// Requires the request's resources and matched_* fields. A member of an exchange has only what hangs on the exchange's
// trigger, with thresholds that are still to be set (exchange.h).
std::vector<PlannedOp> make_plan(const Request& request, const PeerKeys& keys, const PlanContext& context);

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_PLAN_H_
