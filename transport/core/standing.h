// Standing requests: a device alone makes their starts, by a graph that is replayed or by a kernel. No host thread is
// there to hand their deferred work to the NIC, so it is handed over some iterations ahead, and again as they complete.
//
// A standing request has one bell, rung once a start (nobody's request has none): its own trigger counter, or else a
// counter of its own. Thresholds count on by themselves. So do, in the stream's memory, the sum that a ring stores
// (gpu::StreamOp::Kind::kWriteNext64) and the value that a wait is for (kWaitNext64).
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

// What a standing request has besides.
struct Standing {
  gpu::Stream* stream = nullptr;  // whose kernels start it; outlives its standing
  nic::CounterId trigger;         // of its own, where the request has no trigger counter; may be none
  bool has_bell = false;
  nic::Doorbell bell;         // a word
  uint64_t base = 0;          // iterations from before
  uint64_t posted = 0;        // iterations handed to the NIC, those before included
  uint64_t* rings = nullptr;  // the sum of the bell's rings, which is stored; null where rings are added
  uint64_t* count = nullptr;  // of kWaitNext64; null where there is nobody to wait for
  uint64_t* moves = nullptr;  // how often the stream has packed or unpacked, as `moved` tells; null where it does not
  uint64_t capture = 0;       // the capture with a start of it whose wait is still to come; 0: none
  bool in_kernels = false;    // started by kernels (DeviceRequests), not by graphs

  void give_counts() {
    for (uint64_t** each : {&rings, &count, &moves}) {
      if (*each != nullptr)
        stream->give_count(std::exchange(*each, nullptr));
    }
  }
};

// Threads: keep_up() and posted(): any. The others: as Endpoint.
class StandingOrders {
 public:
  // Closes a trigger of that request's own, at once or when nothing can ring it any more.
  using CloseTrigger = std::function<void(const Request& request, nic::CounterId trigger)>;
  // `overflow` is null where what does not fit waits until it does. Without a thread of its own only callers keep up.
  StandingOrders(nic::Nic& nic, Overflow* overflow, bool own_thread, CloseTrigger close_trigger)
      : nic_(nic), overflow_(overflow), own_thread_(own_thread), close_trigger_(std::move(close_trigger)) {}
  ~StandingOrders() { stop(); }
  StandingOrders(const StandingOrders&) = delete;
  StandingOrders& operator=(const StandingOrders&) = delete;

  // Makes a matched request stand that is complete and was waited for. kUnsupported: the NIC cannot take work back, or
  // has no doorbell that is a word, or the stream keeps no counts; kExhausted: no counter, or the stream has no count
  // left.
  Status begin(Request& request, gpu::Stream& stream);
  // Iterations that were started. Reads counters.
  uint64_t started(const Request& request) const;
  // Whether end() would succeed. Reads counters.
  Status can_end(const Request& request) const;
  // Makes it an ordinary request again that has been started so often. kInvalidState: a start has not completed.
  Status end(Request& request);
  // Undoes begin(), where nothing that was enqueued or captured starts the request.
  void take_back(Request& request) { finish(request, request.starts); }
  // Whether every start of it that its stream has reached has been transferred. Reads counters.
  bool has_transferred(const Request& request) const;
  // Whether it is complete: what was transferred has been unpacked, too. Reads counters.
  bool is_complete(const Request& request) const;
  // Of a request that has failed: hands over nothing more. It stands until end().
  void abandon(Request& request);
  // Hands over what is due; returns how many operations that was. Never blocks.
  size_t keep_up();
  // Ends the thread. May be repeated; nothing may begin afterwards.
  void stop();

  // Entries of the NIC that the standing requests keep for themselves.
  uint64_t held() const { return held_.load(std::memory_order_relaxed); }
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
  std::mutex mutex_;  // guards the following, and `posted` of the requests
  std::vector<Request*> requests_;
  uint64_t entries_ = 0;  // of one iteration of all
  uint64_t lead_ = 1;     // iterations
  std::vector<nic::Posting> postings_;
  std::vector<nic::DeferredOp> overflowing_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> posted_{0};
  std::atomic<uint64_t> held_{0};
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_STANDING_H_
