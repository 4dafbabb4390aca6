// Lowering: what a matched request hands to the NIC at every start, worked out once at matching. api/doc/protocol.md
// has the thresholds of both strategies and why they are exact (P1 to P4), and the entries that a start takes.
#ifndef LANYARD_TRANSPORT_CORE_PLAN_H_
#define LANYARD_TRANSPORT_CORE_PLAN_H_

#include <vector>

#include "transport/core/request.h"
#include "transport/core/transfer.h"

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

// What a trigger counts before the first iteration (P4).
uint64_t trigger_base(const nic::Caps& caps);

// Writes that a message takes where the longest has so many bytes.
uint64_t pieces_of(uint64_t bytes, uint64_t longest);

// So many starts a request can have before a threshold would pass 48 bits. The same for both sides of a pair.
uint64_t most_starts(Strategy strategy, bool ready, uint64_t pieces, uint64_t trigger_base);

// What the request's completion counter counts in one iteration. Requires its matched_* fields.
uint64_t completions_of(const Request& request, const PlanContext& context);

// The local atomic that tells the stream, once `completion` has counted so many more.
Post tell_stream(const Request& request, const PlanContext& context, uint64_t completions);

// Requires the request's resources and matched_* fields. A member of an exchange has only what hangs on the exchange's
// trigger, with thresholds that are still to be set (exchange.h).
std::vector<Post> make_plan(const Request& request, const PeerKeys& keys, const PlanContext& context);

// Hands the NIC what it has not been given of the plan, which must not change any more. Errors as nic::Nic::prepare();
// may then be repeated.
Status prepare_plan(nic::Nic& nic, Request& request);

// Appends what this start posts. What has no trigger waits for `queue_trigger` to reach `ring`. Requires
// prepare_plan().
void append_postings(const Request& request, uint64_t start, nic::CounterId queue_trigger, uint64_t ring,
                     std::vector<nic::Posting>& postings);

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_PLAN_H_
