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
// Entries a start: A: send 2, ready send 2, receive 2 or (from a ready send) 1. B: send 3, ready send 3, receive 1 or
// 0. One more for each further piece of a message longer than the NIC's longest.
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
  nic::RemoteKey flag = {};           // strategy B, a send's: the receive's done word
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
  uint64_t context = 0;       // given back in failure records
};

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

// The local atomic that tells the stream, once `completion` has counted so many more.
PlannedOp tell_stream(const Request& request, const PlanContext& context, uint64_t completions);

// Requires the request's resources and matched_* fields. A member of an exchange has only what hangs on the exchange's
// trigger, with thresholds that are still to be set (exchange.h).
std::vector<PlannedOp> make_plan(const Request& request, const PeerKeys& keys, const PlanContext& context);

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_PLAN_H_
