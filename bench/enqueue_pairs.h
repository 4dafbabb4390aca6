// Matched pairs of requests with one peer, which may be this process, and what enqueuing them costs
// behind a gate.
#ifndef LANYARD_BENCH_ENQUEUE_PAIRS_H_
#define LANYARD_BENCH_ENQUEUE_PAIRS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/host_stream.h"
#include "bench/mpi_process.h"
#include "bench/request_set.h"
#include "bench/stream_gate.h"
#include "bench/stream_queue.h"

namespace lanyard::bench {

// A stream, its queue, a gate on the stream, and who the peer is: the other of two ranks, or this
// process.
struct EnqueueSetting {
  explicit EnqueueSetting(const MpiProcess& p)
      : process(p), peer(p.ranks() == 2 ? 1 - p.rank() : p.rank()), queue(stream), gate(stream) {}

  const MpiProcess& process;
  const int peer;
  HostStream stream;
  StreamQueue queue;
  StreamGate gate;
};

// `count` sends of 8 bytes to the peer and as many receives from it, matched one to one. Collective.
class EnqueuePairs {
 public:
  enum Step { kStartReceive, kStartSend, kWaitSend, kWaitReceive, kSteps };
  using Seconds = std::array<double, kSteps>;

  EnqueuePairs(EnqueueSetting& setting, SendKind kind, int count, int first_tag)
      : setting_(setting), count_(count), buffers_(2 * static_cast<size_t>(count)) {
    for (int i = 0; i < count; ++i)
      requests_.add_receive(&buffers_[index(i)], sizeof(uint64_t), setting.peer, first_tag + i);
    for (int i = 0; i < count; ++i)
      requests_.add_send(kind, &buffers_[index(count + i)], sizeof(uint64_t), setting.peer, first_tag + i);
    if (count == 0)
      return;
    const std::string why = requests_.try_match();
    if (!setting.process.all(why.empty()))
      error_ = why.empty() ? "the peer failed to match" : why;
  }

  // Why they could not be matched; empty when they are.
  const std::string& error() const { return error_; }

  // An epoch, enqueued while the stream stands still: each request started and waited for by a call
  // of its own, or by one call for all receives and one for all sends. The seconds that each kind
  // of call took together.
  Seconds epoch(bool is_all) {
    StreamQueue& queue = setting_.queue;
    MPI_Request* const receives = requests_.data();
    MPI_Request* const sends = receives + count_;
    const auto start = [&](MPI_Request* first) {
      if (is_all)
        return queue.start_all(count_, first);
      for (int i = 0; i < count_; ++i)
        queue.start(first[i]);
    };
    const auto wait = [&](MPI_Request* first) {
      if (is_all)
        return queue.wait_all(count_, first);
      for (int i = 0; i < count_; ++i)
        queue.wait(first[i]);
    };
    Seconds seconds;
    setting_.gate.close();
    // Waiting for the gate has cost this thread its caches: without a run-up the first step would
    // be charged for them.
    for (int i = 0; i < kRunUp; ++i)
      exchange();
    seconds[kStartReceive] = timed([&] { start(receives); });
    seconds[kStartSend] = timed([&] { start(sends); });
    seconds[kWaitSend] = timed([&] { wait(sends); });
    seconds[kWaitReceive] = timed([&] { wait(receives); });
    setting_.gate.open();
    queue.drain();
    return seconds;
  }

  // `exchanges` times in a row, while the stream stands still: start and wait for the first receive and send. The
  // seconds for all.
  double exchanges(int exchanges) {
    setting_.gate.close();
    const double seconds = timed([&] {
      for (int i = 0; i < exchanges; ++i)
        exchange();
    });
    setting_.gate.open();
    setting_.queue.drain();
    return seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kRunUp = 4;

  void exchange() {
    StreamQueue& queue = setting_.queue;
    MPI_Request& receive = requests_[0];
    MPI_Request& send = requests_[index(count_)];
    queue.start(receive);
    queue.start(send);
    queue.wait(send);
    queue.wait(receive);
  }

  static size_t index(int i) { return static_cast<size_t>(i); }
  static double between(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
  }
  // What reading the clock adds to a measurement.
  static double clock_cost() {
    constexpr int kReadings = 1000;
    const auto begin = Clock::now();
    for (int i = 0; i < kReadings; ++i)
      (void)Clock::now();
    return between(begin, Clock::now()) / kReadings;
  }
  template <class F>
  static double timed(F&& f) {
    static const double kClockCost = clock_cost();
    const auto begin = Clock::now();
    f();
    const double seconds = between(begin, Clock::now()) - kClockCost;
    return seconds > 0 ? seconds : 0;
  }

  EnqueueSetting& setting_;
  const int count_;
  std::vector<uint64_t> buffers_;
  RequestSet requests_;  // the receives, then the sends
  std::string error_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_ENQUEUE_PAIRS_H_
