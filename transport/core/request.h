// A request: one side of a matched pair, with the NIC resources that carry it.
//
// Life: fresh -> matching -> matched -> freed; a failed match makes it fresh again. Once matched, `starts` and `waits`
// count what was enqueued: waits <= starts <= waits + 1 (MPI forbids a second start before the wait).
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
  kMessage,  // by a clear-to-send; of a ready send its user knows
  kImplied,  // by a message of the other set (P11)
  // By a clear-to-send, though its exchange has two sets:
  kOneSided,  // that of the other side has not
  kCrossed,   // the other side's request is of the other set
  kOneWay,    // in the other set nothing goes the other way
};

// How a queue's stream rings `trigger`.
struct Bell {
  uint64_t value = 0;  // what the ring of one start adds; 0: nothing is rung
  nic::Doorbell doorbell;
  uint64_t queue = 0;  // whose stream rings it; 0: none has yet
  uint64_t base = 0;   // what its word would hold before the first start
};

// What it transfers stands in `transfer`; what it holds of the NIC, from the start of matching until it is freed, in
// its Resources; how far it is, below.
struct Request : Resources {
  enum class State : uint8_t { kFresh, kMatching, kMatched };

  uint64_t number = 0;  // the endpoint's name for it, never used again
  Transfer transfer;
  State state = State::kFresh;
  Status match_error;   // why the last match failed, if it did
  uint64_t posted = 0;  // of a receive that is posted, for its PostedQueue

  // The matched pair. For a receive: the message's actual source, tag and length.
  int matched_peer = 0;
  uint32_t matched_nic = 0;
  int matched_tag = 0;
  uint64_t matched_bytes = 0;
  uint64_t matched_number = 0;  // the peer's number for its request
  bool ready = false;           // the pair is a ready send's
  uint64_t matched_set = 0;     // the peer's Exchange::number, where it was to have two sets; 0: it was not
  Clearance clearance = Clearance::kMessage;

  // The other side's end: it takes no part in starts beyond these, because it has failed, or was freed and this side
  // would not find out.
  uint64_t peer_starts = UINT64_MAX;
  bool peer_failed = false;
  // Each start sends the other side something, and so fails by itself once that side was freed.
  bool finds_out = false;

  // Where senders raise their receives' flags, in starts: of a receive, what its sender was asked about, and what it
  // has said to have gone well; of a send, what it was asked about, and what it has answered.
  uint64_t asked = 0;
  uint64_t assured = 0;
  uint64_t lost_before = 0;  // FailureBook::lost() when it was matched

  // The message goes by it, and not by the card: the request has no plan and no counters then.
  std::shared_ptr<gpu::Lane> lane;
  uint32_t lane_number = 0;  // the endpoint's name for this side of it, never used again
  uint32_t peer_lane = 0;    // the other's for its side; 0: it has not told, and so not connected
  bool peer_parted = false;  // the other side of the lane writes to this one no more
  uint64_t followed = 0;     // the last start that the queue waits for by itself (Queue::follow_lanes())

  // Worked out at the match.
  Exchange* exchange = nullptr;  // that it is a member of, from before its match until it is freed
  bool leads = true;             // it rings and waits for its whole exchange, or is in none
  uint64_t completions = 1;      // that `completion` counts in one iteration
  Bell bell;
  bool shares_trigger = false;         // part of the plan hangs on the queue's trigger
  uint64_t most_starts = UINT64_MAX;   // more would pass 48 bits on one of the two sides
  std::shared_ptr<Standing> standing;  // of a standing request

  // Enqueued so far.
  uint64_t starts = 0;
  uint64_t waits = 0;
  uint64_t failures = 0;          // operations of this request that the NIC reported as failed
  Code failure_code = Code::kOk;  // of the latest
  bool released = false;          // given up: nothing of it is waited for any more
  bool ran_ahead = false;         // entries posted ahead may have fired without a start
  bool failed_along = false;      // no operation of it has failed, but its exchange was given up
  uint64_t queue_number = 0;      // the queue of the last start; 0: none yet
  Queue* listed = nullptr;        // the queue in whose list of requests that may be under way it stands
  // Which ring of that queue's shared trigger a start waits for: the last kRings of them, by start modulo kRings.
  static constexpr uint64_t kRings = 64;
  std::vector<uint64_t> rings;  // empty where the plan shares no trigger
  bool in_call = false;         // scratch: seen in the call being checked

  bool matched() const { return state == State::kMatched; }
  bool needs_wait() const { return starts != waits; }
  // Whether the NIC knows every operation of the plan.
  bool is_prepared() const { return plan.empty() || plan.back().id.valid(); }
  // What its trigger counts in one iteration, where that is no exchange's: its start, and of a send a clear-to-send.
  uint64_t trigger_step() const { return transfer.direction == Direction::kSend ? 2 : 1; }
  // How many clear-to-sends have come; to a receive none do.
  uint64_t clearances() const { return clear_to_send_word.valid() ? clear_to_send_word.count() : 0; }
  // Nobody's requests have no counter: what is started is done. A lane that was released tells nothing any more.
  uint64_t iterations_done() const { return done.valid() && !(lane != nullptr && released) ? done.count() : starts; }
  // What the completion counter has counted once so many have.
  uint64_t completion_value(uint64_t iterations) const { return completions * iterations; }
  // Whether every packing or unpacking that was enqueued has been made: the user's memory is not touched any more.
  bool has_moved() const { return has_moved(transfer.direction == Direction::kSend ? starts : waits); }
  // The same for the first so many.
  bool has_moved(uint64_t iterations) const { return !moved.valid() || moved.count() >= iterations; }
  // Whether everything started has been transferred.
  bool transferred() const { return iterations_done() >= starts; }
  // Whether everything started has completed on this side.
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
