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

#include "transport/base/status.h"
#include "gpu/lane.h"
#include "transport/core/linked_table.h"
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
  kImplied,  // by a message of the other set (exchange_sets.h)
  // By a clear-to-send, though its exchange has two sets:
  kOneSided,  // that of the other side has not
  kCrossed,   // the other side's request is of the other set
  kOneWay,    // in the other set nothing goes the other way
};

// One deferred operation of a request's every start. Its threshold is step * iteration - before, iterations from 1; or,
// where `shared`, trigger and threshold are those of the queue's shared trigger counter.
struct PlannedOp {
  nic::DeferredOp op;
  uint64_t step = 0;
  uint64_t before = 0;
  bool shared = false;
};

// What it transfers stands in `transfer`; what it holds of the NIC, from the start of matching until it is freed, in
// its Resources; how far it is, below.
struct Request : Resources {
  enum class State : uint8_t { kFresh, kMatching, kMatched };

  // From now on it holds these.
  void hold(Resources held) { Resources::operator=(std::move(held)); }

  uint64_t number = 0;  // the endpoint's name for it, never used again
  Transfer transfer;
  State state = State::kFresh;
  Status match_error;  // why the last match failed, if it did
  // Of a receive that is posted, for its PostedQueue.
  uint64_t posted = 0;
  Links<Request> posted_links;

  // The matched pair. For a receive: the message's actual source, tag and length.
  int matched_peer = 0;
  uint32_t matched_nic = 0;
  int matched_tag = 0;
  uint64_t matched_bytes = 0;
  uint64_t matched_number = 0;  // the peer's number for its request
  bool ready = false;           // the pair is a ready send's
  uint64_t matched_set = 0;     // the peer's Exchange::number, where it was to have two sets; 0: it was not
  Clearance clearance = Clearance::kMessage;

  // What the other side has said of its end: that it takes no part in starts beyond these, because it has failed, or
  // was freed and this side would not find out.
  uint64_t peer_starts = UINT64_MAX;
  bool peer_failed = false;
  // Each start sends the other side something whatever that does, and so fails by itself once that was freed: of ready
  // sends, and of receives of others.
  bool finds_out = false;

  // Where senders raise their receives' flags, in starts: of a receive, what its sender was asked about, and what that
  // has said to have gone well; of a send, what it was asked about, and what it has answered.
  uint64_t asked = 0;
  uint64_t assured = 0;
  // FailureBook::lost() when it was matched, or was last known to have gone well.
  uint64_t lost_before = 0;

  // The message goes by it, and not by the card: no part of the plan, and of the counters, is there then.
  std::shared_ptr<gpu::Lane> lane;
  uint32_t lane_number = 0;  // the endpoint's name for this side of it, never used again
  uint32_t peer_lane = 0;    // the other's for its side; 0: it has not told, and so not connected
  bool peer_parted = false;  // the other side of the lane writes to this one no more
  uint64_t followed = 0;     // the last start that the queue waits for by itself (Queue::follow_lanes())

  Exchange* exchange = nullptr;  // that it is a member of, from before its match until it is freed

  uint64_t completions = 1;  // that `completion` counts in one iteration
  nic::Doorbell doorbell;    // of `trigger`, as the stream of doorbell_queue rings it
  uint64_t doorbell_queue = 0;
  uint64_t doorbell_base = 0;  // what its word would hold before the first start
  std::vector<PlannedOp> plan;
  uint64_t entries = 0;         // of the NIC that the plan takes
  bool shares_trigger = false;  // the plan has shared operations

  // With more a threshold would pass 48 bits. The same on both sides of a pair: neither may start what the other
  // cannot.
  uint64_t most_starts = UINT64_MAX;

  // Enqueued so far.
  uint64_t starts = 0;
  uint64_t waits = 0;
  uint64_t failures = 0;          // operations of this request that the NIC reported as failed
  Code failure_code = Code::kOk;  // of the latest
  bool released = false;          // given up: nothing of it is waited for any more
  bool ran_ahead = false;         // what it was handed over for starts that nobody made may have fired
  bool failed_along = false;      // no operation of it has failed, but its exchange was given up
  uint64_t queue_number = 0;      // the queue of the last start; 0: none yet
  Queue* listed = nullptr;        // the queue in whose list of requests that may be under way it stands
  // Which ring of that queue's shared trigger a start waits for: the last kRings of them, by start modulo kRings.
  static constexpr uint64_t kRings = 64;
  std::vector<uint64_t> rings;         // empty where the plan shares no trigger
  std::shared_ptr<Standing> standing;  // of a standing request
  bool in_call = false;                // scratch: seen in the call being checked

  bool matched() const { return state == State::kMatched; }
  bool needs_wait() const { return starts != waits; }
  // Iterations that have completed on this side when the done word holds `value`. Requires a done word.
  uint64_t iterations_at(uint64_t value) const { return value - done_base; }
  // What its trigger counts in one iteration, where that is no exchange's: its start, and of a send a clear-to-send.
  uint64_t trigger_step() const { return transfer.direction == Direction::kSend ? 2 : 1; }
  // How many clear-to-sends have come; to a receive none do.
  uint64_t clearances() const {
    return clear_to_send_word.valid() ? clear_to_send_word.read() - clear_to_send_base : 0;
  }
  // Nobody's requests have no counter: what is started is done. A lane that was let go of tells nothing any more.
  uint64_t iterations_done() const {
    return done.valid() && !(lane != nullptr && released) ? iterations_at(done.read()) : starts;
  }
  // What the completion counter has counted once so many have.
  uint64_t completion_value(uint64_t iterations) const { return completions * iterations; }
  // Whether every packing or unpacking that was enqueued has been made: the user's memory is not touched any more.
  bool has_moved() const { return has_moved(transfer.direction == Direction::kSend ? starts : waits); }
  // The same for the first so many.
  bool has_moved(uint64_t iterations) const { return !moved.valid() || moved.read() - moved_base >= iterations; }
  // Whether everything started has been transferred.
  bool transferred() const { return iterations_done() >= starts; }
  // Whether everything started has completed on this side.
  bool complete() const { return transferred() && has_moved(); }
  // "recv, peer 2, tag 7, 16384 B"
  std::string describe() const;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_REQUEST_H_
