// Standing requests: graphs or kernels start them, without a host thread. So their deferred work is
// posted some iterations ahead, and more of it as iterations complete (protocol.md, P16).
//
// A standing request has one bell, rung once per start: its trigger counter, or else a counter
// opened for it. A lane has none, nor has a request without a peer. Two values in the stream's
// memory count by themselves: the sum that a ring stores (gpu::StreamOp::Kind::kWriteNext64) and
// the value that a wait waits for (kWaitNext64).
#ifndef LANYARD_TRANSPORT_CORE_STANDING_H_
#define LANYARD_TRANSPORT_CORE_STANDING_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/stream.h"
#include "transport/core/overflow.h"
#include "transport/core/request.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

// The state that only standing requests have.
struct Standing {
  gpu::Stream* stream = nullptr;  // its graphs or kernels start the request; outlives this
  nic::CounterId trigger;         // the bell's counter, if begin() opened one
  bool has_bell = false;
  nic::Doorbell bell;         // a word
  uint64_t base = 0;          // starts before begin()
  uint64_t posted = 0;        // iterations posted, including `base`
  uint64_t* rings = nullptr;  // the sum that rings store; null if they add
  uint64_t* count = nullptr;  // the value that kWaitNext64 waits for; null without a bell
  uint64_t* moves = nullptr;  // packings or unpackings, stored to `moved`; null without a packing
  uint64_t capture = 0;       // the capture that has a start and not yet its wait; 0: none
  bool in_kernels = false;    // started by kernels (DeviceRequests), not by graphs

  void give_counts() {
    for (uint64_t** each : {&rings, &count, &moves}) {
      if (*each != nullptr)
        stream->give_count(std::exchange(*each, nullptr));
    }
  }
};

// Threads: keep_up() and posted(): any. Others: as Endpoint.
class StandingOrders {
 public:
  // Closes a trigger that begin() opened: at once, or later when nothing can ring it.
  using CloseTrigger = std::function<void(const Request& request, nic::CounterId trigger)>;
  // If `overflow` is null, operations without a free entry are posted later. If `own_thread` is
  // false, only callers of keep_up() post.
  StandingOrders(nic::Nic& nic, Overflow* overflow, bool own_thread, CloseTrigger close_trigger)
      : nic_(nic), overflow_(overflow), own_thread_(own_thread), close_trigger_(std::move(close_trigger)) {}
  ~StandingOrders() { stop(); }
  StandingOrders(const StandingOrders&) = delete;
  StandingOrders& operator=(const StandingOrders&) = delete;

  // Makes a matched request stand. It must be complete and waited for. kUnsupported: the NIC cannot
  // cancel or has no doorbell that is a word, or the stream keeps no counts. kExhausted: no counter
  // or count is left, or without overflow the NIC has too few entries.
  Status begin(Request& request, gpu::Stream& stream);
  // The number of starts so far. Reads counters.
  uint64_t started(const Request& request) const;
  // Checks whether end() would succeed. Reads counters.
  Status can_end(const Request& request) const;
  // Makes it an ordinary request with the same starts. kInvalidState: a start has not completed, or
  // is in a capture in progress without its wait.
  Status end(Request& request);
  // Undoes begin(). Requires that nothing enqueued or captured starts the request.
  void take_back(Request& request) { finish(request, request.starts); }
  // True if every start that its stream has reached has been transferred. Reads counters.
  bool has_transferred(const Request& request) const;
  // True if it has also packed or unpacked everything. Reads counters.
  bool is_complete(const Request& request) const;
  // Stops posting for a request that has failed. It stands until end().
  void abandon(Request& request);
  // Posts the iterations that are due and returns their number, over all requests. Never blocks.
  size_t keep_up();
  // Ends the thread. May be repeated. Call no begin() afterwards.
  void stop();

  // NIC entries that are reserved for standing requests.
  uint64_t held() const { return held_.load(std::memory_order_relaxed); }
  // Operations posted so far.
  uint64_t posted() const { return posted_.load(std::memory_order_relaxed); }

 private:
  Status open(Standing& standing, Request& request);
  Status enlist(Request& request);
  void finish(Request& request, uint64_t starts);
  bool hand_over(Request& request);
  void set_lead();
  void run();

  nic::Nic& nic_;
  Overflow* const overflow_;
  const bool own_thread_;
  const CloseTrigger close_trigger_;
  std::mutex mutex_;  // guards the following and Standing::posted
  std::vector<Request*> requests_;
  uint64_t entries_ = 0;  // for one iteration of all requests
  uint64_t lead_ = 1;     // iterations posted ahead
  std::vector<nic::Posting> postings_;
  std::vector<nic::DeferredOp> overflowing_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> posted_{0};
  std::atomic<uint64_t> held_{0};
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_STANDING_H_
