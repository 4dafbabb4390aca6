// Trace: what threaded NICs did, one event a step of their models, so that another engine can judge it
// (nicsim/deterministic/refinement.h).
//
// Who drives a NIC drives it alone, so the order in which a NIC writes its events is the order of its steps. Between
// NICs of one process a shared number orders them: whatever made a step of another NIC possible has a lower one.
//
// Threads: a log belongs to whoever drives its NIC; it is read once the NIC is gone.
#ifndef LANYARD_NICSIM_THREADED_TRACE_H_
#define LANYARD_NICSIM_THREADED_TRACE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

struct TraceEvent {
  enum class Kind : uint8_t {
    kOpened,         // counter
    kClosed,         // counter
    kRead,           // counter, value, failures: what the program was told
    kAdded,          // counter, value
    kAddedFailures,  // counter, failures
    kReset,          // counter
    kRang,           // counter, value: a doorbell landed
    kRegistered,     // value: the region's key; counter of its remote writes, may be none
    kDeregistered,   // value: the region's key
    kPosted,         // counter: the triggering one; value: the threshold; op
    kFired,          // the same; token
    kFlushed,
    kIssued,     // op, to be started when there is room
    kStarted,    // token: the oldest issued operation has started
    kArrived,    // peer and token: of the operation; counter: that counts it, may be none
    kCompleted,  // peer and token: of the operation; code
    kPeerLost,   // peer
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  Kind kind = Kind::kFlushed;
  Code code = Code::kOk;
  uint32_t nic = 0;  // whose step it is: its rank
  uint64_t order = 0;
  nic::CounterId counter = {};
  uint64_t value = 0;
  uint32_t failures = 0;
  uint32_t peer = kNone;
  uint32_t token = kNone;  // of what goes over the wire
  nic::Op op = {};
};

struct Trace {
  std::vector<TraceEvent> events = {};
  uint32_t nics = 0;
  bool quiesced = false;  // nothing was left to do at its end
};

// Of one NIC.
class TraceLog {
 public:
  // `order` is shared by the NICs of the process and outlives it.
  TraceLog(uint32_t nic, std::atomic<uint64_t>& order) : nic_(nic), order_(order) {}

  void write(TraceEvent event) {
    event.nic = nic_;
    // Relaxed: what happened before another thread's step already precedes it in the order of one atomic.
    event.order = order_.fetch_add(1, std::memory_order_relaxed);
    events_.push_back(event);
  }
  // The step written last gave its operation this token. Requires that nobody can have seen that operation yet.
  void set_token(uint32_t token) { events_.back().token = token; }
  const std::vector<TraceEvent>& events() const { return events_; }

 private:
  const uint32_t nic_;
  std::atomic<uint64_t>& order_;
  std::vector<TraceEvent> events_;
};

// The logs of all NICs of a job that lives in this process.
class TraceLogs {
 public:
  // A log for the next rank. Valid as long as this is.
  TraceLog& add() { return logs_.emplace_back(static_cast<uint32_t>(logs_.size()), order_); }
  // Requires that the NICs are gone.
  Trace merged(bool quiesced) const {
    Trace trace{.nics = static_cast<uint32_t>(logs_.size()), .quiesced = quiesced};
    for (const TraceLog& log : logs_)
      trace.events.insert(trace.events.end(), log.events().begin(), log.events().end());
    std::sort(trace.events.begin(), trace.events.end(),
              [](const TraceEvent& a, const TraceEvent& b) { return a.order < b.order; });
    return trace;
  }

 private:
  std::atomic<uint64_t> order_{0};
  std::deque<TraceLog> logs_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_TRACE_H_
