// The plan: the operations of every start of a request, computed once at the match. For thresholds,
// why they are exact (P1 to P4), and the entries of a start see api/doc/protocol.md.
#ifndef LANYARD_TRANSPORT_CORE_PLAN_H_
#define LANYARD_TRANSPORT_CORE_PLAN_H_

#include <vector>

#include "transport/core/request.h"
#include "transport/core/transfer.h"

namespace lanyard::core {

// What the peer's match card has said.
struct PeerKeys {
  nic::RemoteKey buffer = {};         // for a send: where it writes
  nic::RemoteKey clear_to_send = {};  // for a receive: the word of its clear-to-sends
  nic::RemoteKey flag = {};           // for a send of strategy B: the word that its flag raises
  bool ready = false;                 // the pair has a ready send
  uint64_t request = 0;               // the peer's number for its request
  uint64_t longest = UINT64_MAX;      // Caps::max_message_bytes of the peer's NIC
  uint64_t set = 0;                   // Exchange::number of the peer's set of two; 0: none
};

struct PlanContext {
  uint32_t self = 0;               // this process's NIC
  uint64_t max_message_bytes = 0;  // the smaller limit of the two NICs
  Strategy strategy = Strategy::kTargetCounter;
  uint64_t trigger_base = 0;  // of this process's NIC
  WordPool::Word one;         // holds 1: the operand of every increment
  uint64_t context = 0;       // Op::context of all operations
};

// The value of a trigger before the first start (P4).
uint64_t trigger_base(const nic::Caps& caps);

// The number of writes of a message, if the NIC's longest message has `longest` bytes.
uint64_t pieces_of(uint64_t bytes, uint64_t longest);

// The number of starts until a threshold would need more than 48 bits. The same on both sides.
uint64_t most_starts(Strategy strategy, bool ready, uint64_t pieces, uint64_t trigger_base);

// The amount that one start adds to the completion counter. Requires the matched_* fields.
uint64_t completions_of(const Request& request, const PlanContext& context);

// The increment of the done word, each time request.completion has grown by `completions`.
Post tell_stream(const Request& request, const PlanContext& context, uint64_t completions);

// Requires the request's resources and matched_* fields. For the members of an exchange,
// bind_exchange() or bind_sets() sets thresholds and adds the increment of their done word.
std::vector<Post> make_plan(const Request& request, const PeerKeys& keys, const PlanContext& context);

// Prepares what is not prepared of the plan. The plan must not change any more. Errors as
// nic::Nic::prepare(); then it may be repeated.
Status prepare_plan(nic::Nic& nic, Request& request);

// Appends the postings of one start. Operations without a trigger wait until `queue_trigger`
// reaches `ring`. Requires prepare_plan().
void append_postings(const Request& request, uint64_t start, nic::CounterId queue_trigger, uint64_t ring,
                     std::vector<nic::Posting>& postings);

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_PLAN_H_
