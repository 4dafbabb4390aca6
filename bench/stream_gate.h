// A kernel that keeps a stream from going on until the host opens it: what is enqueued meanwhile is
// enqueued and nothing else, so its cost can be measured alone.
#ifndef LANYARD_BENCH_STREAM_GATE_H_
#define LANYARD_BENCH_STREAM_GATE_H_

#include <atomic>

#include "bench/host_stream.h"

namespace lanyard::bench {

class StreamGate {
 public:
  explicit StreamGate(HostStream& stream) : stream_(stream) {}
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;

  // Requires that it is open, and returns once the stream stands at the gate. It must be opened
  // soon, by the thread that closed it and before that thread waits for the stream.
  void close() {
    state_.store(kClosed, std::memory_order_relaxed);
    stream_.launch(kernel, this);
    state_.wait(kClosed, std::memory_order_acquire);
  }
  void open() {
    state_.store(kOpen, std::memory_order_release);
    state_.notify_all();
  }

 private:
  enum State : int { kOpen, kClosed, kReached };

  // Sleeps rather than spins: no instruction of it runs beside the measured ones.
  static void kernel(void* argument) {
    std::atomic<int>& state = static_cast<StreamGate*>(argument)->state_;
    state.store(kReached, std::memory_order_release);
    state.notify_all();
    state.wait(kReached, std::memory_order_acquire);
  }

  HostStream& stream_;
  std::atomic<int> state_ = kOpen;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAM_GATE_H_
