// A request: one side of a matched pair, with its NIC resources.
//
// Life: fresh -> matching -> matched -> freed. A failed match makes it fresh again. Once matched,
// `starts` and `waits` count what was enqueued: waits <= starts <= waits + 1, because MPI forbids a
// second start before the wait.
#ifndef LANYARD_TRANSPORT_CORE_REQUEST_H_
#define LANYARD_TRANSPORT_CORE_REQUEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/lane.h"
#include "transport/base/status.h"
#include "transport/core/resources.h"
#include "transport/core/transfer.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

struct Exchange;  // exchange.h
class Queue;      // queue.h
struct Standing;  // standing.h

// How the sender of a pair learns that it may write.
enum class Clearance : uint8_t {
  kMessage,  // by a clear-to-send; for a ready send the user promises it
  kImplied,  // by a message of the other set (P11)
  // By a clear-to-send although the exchange has two sets:
  kOneSided,  // the peer's request is in no exchange with two sets
  kCrossed,   // the peer's request is in the other set
  kOneWay,    // the other set has no message in the other direction
};

// How a queue's stream rings the request's `trigger`.
struct Bell {
  uint64_t value = 0;  // added by the ring of one start; 0: no ring
  nic::Doorbell doorbell;
  uint64_t queue = 0;  // the queue whose stream rings; 0: none yet
  uint64_t base = 0;   // the doorbell word's total before the first start
};

// Its Resources are open from the start of matching until it is freed.
struct Request : Resources {
  enum class State : uint8_t { kFresh, kMatching, kMatched };

  uint64_t number = 0;  // given by the endpoint, never reused
  Transfer transfer;
  State state = State::kFresh;
  Status match_error;   // the reason if the last match failed
  uint64_t posted = 0;  // of a posted receive: its place in the order of PostedQueue

  // The matched pair. For a receive: the message's actual source, tag and length.
  int matched_peer = 0;
  uint32_t matched_nic = 0;
  int matched_tag = 0;
  uint64_t matched_bytes = 0;
  uint64_t matched_number = 0;  // the peer's number for its request
  bool ready = false;           // true if the send is a ready send
  uint64_t matched_set = 0;     // Exchange::number of the peer's exchange with two sets; 0: none
  Clearance clearance = Clearance::kMessage;

  // The peer takes no part in later starts: it failed, or was freed and this side cannot notice.
  uint64_t peer_starts = UINT64_MAX;
  bool peer_failed = false;
  // True if each start sends something to the peer, so it fails by itself once the peer was freed.
  bool finds_out = false;

  // Strategy B, in starts. A receive: the last question to its sender, and the starts that the
  // sender said went well. A send: the last question from its receiver, and the last answer.
  uint64_t asked = 0;
  uint64_t assured = 0;
  uint64_t lost_before = 0;  // FailureBook::lost() at the match

  // Carries the messages instead of the card; the request then has no plan and no counters.
  std::shared_ptr<gpu::Lane> lane;
  uint32_t lane_number = 0;  // this side's number, given by the endpoint, never reused
  uint32_t peer_lane = 0;    // the peer's number for its side; 0: not connected
  bool peer_parted = false;  // true once the peer has detached: it does not write to this side
  uint64_t followed = 0;     // the last start that the queue itself waits for (Queue::follow_lanes())

  // Set at the match, unless noted.
  Exchange* exchange = nullptr;  // from before the match until the request is freed; null: none
  bool leads = true;             // true if it rings and waits for its whole exchange, or is in none
  uint64_t completions = 1;      // what `completion` counts in one iteration
  Bell bell;
  bool shares_trigger = false;         // true if part of the plan waits for the queue's trigger
  uint64_t most_starts = UINT64_MAX;   // after more, a threshold of either side would pass 48 bits
  std::shared_ptr<Standing> standing;  // null unless the request stands

  // Enqueued so far.
  uint64_t starts = 0;
  uint64_t waits = 0;
  uint64_t failures = 0;          // counted by FailureBook
  Code failure_code = Code::kOk;  // of the latest failure
  bool released = false;          // failed: nothing waits for it any more, it can only be freed (P14)
  bool ran_ahead = false;         // entries posted ahead may have fired without a start (P16)
  bool failed_along = false;      // its exchange was released, but none of its own operations failed
  uint64_t queue_number = 0;      // the queue of the last start; 0: none yet
  Queue* listed = nullptr;        // the queue that lists it as under way or standing; null: none
  // For each of the last kRings starts, the ring of the queue's shared trigger that it waits for.
  // The index is the start modulo kRings.
  static constexpr uint64_t kRings = 64;
  std::vector<uint64_t> rings;  // empty if the plan shares no trigger
  bool in_call = false;         // scratch: seen in the call being checked

  bool matched() const { return state == State::kMatched; }
  bool needs_wait() const { return starts != waits; }
  // True if the plan is prepared at the NIC (N14).
  bool is_prepared() const { return plan.empty() || plan.back().id.valid(); }
  // What a trigger of its own counts in one iteration: the start, and for a send the clear-to-send.
  uint64_t trigger_step() const { return transfer.direction == Direction::kSend ? 2 : 1; }
  // The number of clear-to-sends that have landed; always 0 for a receive.
  uint64_t clearances() const { return clear_to_send_word.valid() ? clear_to_send_word.count() : 0; }
  // All starts if nothing counts: without a peer (MPI_PROC_NULL), and on a lane after release.
  uint64_t iterations_done() const { return done.valid() && !(lane != nullptr && released) ? done.count() : starts; }
  // The value of `completion` after so many iterations.
  uint64_t completion_value(uint64_t iterations) const { return completions * iterations; }
  // True if all enqueued packing or unpacking is done: no stream touches the user's memory.
  bool has_moved() const { return has_moved(transfer.direction == Direction::kSend ? starts : waits); }
  // The same for the first `iterations`.
  bool has_moved(uint64_t iterations) const { return !moved.valid() || moved.count() >= iterations; }
  // True if every start has been transferred.
  bool transferred() const { return iterations_done() >= starts; }
  // True if every start has completed on this side.
  bool complete() const { return transferred() && has_moved(); }
  // "recv, peer 2, tag 7, 16384 B"
  std::string describe() const {
    Transfer actual = transfer;
    if (matched()) {
      actual.peer = matched_peer;
      actual.tag = matched_tag;
      actual.bytes = matched_bytes;
    }
    return actual.describe();
  }
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_REQUEST_H_
