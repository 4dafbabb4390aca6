// Measures how long enqueuing takes the host: starts and waits, one by one and many at once, and
// beside other matched requests. A gate holds the stream, so nothing else is measured. Also
// measures a step when two queues are far ahead of the card. See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <semaphore>
#include <span>
#include <string>
#include <vector>

#include "bench/payload.h"
#include "bench/program.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

constexpr int kSingles = 16;  // requests started one by one between two looks at the clock
constexpr int kRunUp = 4;     // pairs
constexpr int kFirstTag = 0;
constexpr int kLiveTag = 4096;  // of requests that only exist

// A kernel that keeps a stream from going on until the host opens it. It sleeps rather than spins:
// no instruction of it runs beside the measured ones.
class StreamGate {
 public:
  explicit StreamGate(HostStream& stream) : stream_(stream) {}

  // Requires an open gate. Returns once the stream waits at the gate. The same thread must open it
  // soon, and before it waits for the stream.
  void close() {
    const auto kernel = [](void* argument) {
      StreamGate& gate = *static_cast<StreamGate*>(argument);
      gate.reached_.release();
      gate.opened_.acquire();
    };
    stream_.launch(kernel, this);
    reached_.acquire();
  }
  void open() { opened_.release(); }

 private:
  HostStream& stream_;
  std::binary_semaphore reached_{0}, opened_{0};
};

// Seconds, clock included.
template <class F>
double timed_with_clock(const F& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
template <class F>
double timed(const F& f) {
  constexpr int kReadings = 1000;
  static const double kClockCost = timed_with_clock([] {
                                     for (int i = 0; i < kReadings; ++i)
                                       (void)std::chrono::steady_clock::now();
                                   }) /
                                   kReadings;
  return std::max(timed_with_clock(f) - kClockCost, 0.0);
}

// `count` sends of 8 bytes to the peer and as many receives from it, matched in pairs. Collective.
// The peer is the other of two ranks, or this process.
class Pairs {
 public:
  Pairs(const MpiProcess& process, bool is_ready, int count, int first_tag)
      : rank_(process.rank()),
        peer_(process.ranks() == 2 ? 1 - process.rank() : process.rank()),
        sent_(static_cast<size_t>(count)),
        received_(sent_.size()) {
    for (int i = 0; i < count; ++i)
      requests_.add_receive(&received_[static_cast<size_t>(i)], sizeof(uint64_t), peer_, first_tag + i);
    for (int i = 0; i < count; ++i)
      requests_.add_send(is_ready, &sent_[static_cast<size_t>(i)], sizeof(uint64_t), peer_, first_tag + i);
    if (count > 0)
      requests_.match();
  }

  // The receives, then the sends.
  RequestSet& requests() { return requests_; }
  int count() const { return requests_.count() / 2; }

  // Around starts of all pairs: sets what is sent, and tells whether it has come.
  void fill() {
    ++round_;
    Payload({rank_, peer_, round_}).fill(std::as_writable_bytes(std::span(sent_)));
    Payload({peer_, rank_, round_}).poison(std::as_writable_bytes(std::span(received_)));
  }
  bool is_right() const { return !Payload({peer_, rank_, round_}).verify(std::as_bytes(std::span(received_))); }

 private:
  const int rank_, peer_;
  uint64_t round_ = 0;
  std::vector<uint64_t> sent_, received_;
  RequestSet requests_;
};

struct Options {
  int max_live = 2048;
  int iterations = 300;
  int ahead = 4000;
  std::string format = "text";
};

// What is measured, and the stream and the queue on which the costs of calls are.
class EnqueueCost {
 public:
  EnqueueCost(const Options& options, const MpiProcess& process) : options_(options), process_(process) {}

  // The exit status.
  int run() {
    report_.fact("mpi", mpi_library());
    report_.fact("ranks", process_.ranks());
    for (const bool is_ready : {false, true}) {
      // Between two ranks nothing makes sure that the peer's receive starts before a ready send.
      if (is_ready && process_.ranks() != 1)
        continue;
      for (int count = 1; count <= 256; count *= 4)
        measure(is_ready, count, true, 0);
      for (const int live : {0, 2, 16, 128, 1024, 2048, 4096})
        if (live <= options_.max_live)
          measure(is_ready, kSingles, false, live);
    }
    for (const bool is_opposite : {false, true})
      if (process_.ranks() == 2 && options_.ahead > 0)
        measure_ahead(is_opposite);
    add_nic(report_, queue_.info());
    return finish(report_, options_.format, process_);
  }

 private:
  enum Step { kStartReceive, kStartSend, kWaitSend, kWaitReceive, kSteps };
  static constexpr const char* kNames[kSteps] = {"start receive", "start send", "wait send", "wait receive"};

  // Enqueues while the gate holds the stream: a start and a wait for each request, or with `is_all`
  // one of each for all receives and for all sends. Returns the total seconds of each kind of call.
  std::array<double, kSteps> enqueue(Pairs& pairs, bool is_all) {
    const int count = pairs.count();
    MPI_Request* const receives = pairs.requests().data();
    MPI_Request* const sends = receives + count;
    const auto start = [&](MPI_Request* first) {
      if (is_all)
        return queue_.start_all(count, first);
      for (int i = 0; i < count; ++i)
        queue_.start(first[i]);
    };
    const auto wait = [&](MPI_Request* first) {
      if (is_all)
        return queue_.wait_all(count, first);
      for (int i = 0; i < count; ++i)
        queue_.wait(first[i]);
    };
    std::array<double, kSteps> seconds;
    gate_.close();
    // Waiting for the gate empties this thread's caches. The run-up keeps that cost
    // out of the first step.
    for (int i = 0; i < kRunUp; ++i) {
      queue_.start(*receives);
      queue_.start(*sends);
      queue_.wait(*sends);
      queue_.wait(*receives);
    }
    seconds[kStartReceive] = timed([&] { start(receives); });
    seconds[kStartSend] = timed([&] { start(sends); });
    seconds[kWaitSend] = timed([&] { wait(sends); });
    seconds[kWaitReceive] = timed([&] { wait(receives); });
    gate_.open();
    queue_.drain();
    return seconds;
  }

  // Reports nanoseconds a call. With `is_all` one call starts `count` requests and one waits for
  // them; otherwise each request has calls of its own. `live` other requests are matched meanwhile.
  void measure(bool is_ready, int count, bool is_all, int live) {
    const Pairs others(process_, is_ready, live / 2, kLiveTag);
    Pairs pairs(process_, is_ready, count, kFirstTag);
    enqueue(pairs, is_all);
    const long long before = overflowed(queue_);
    std::array<std::vector<double>, kSteps> ns;
    bool is_right = true;
    for (int i = 0; i < options_.iterations; ++i) {
      pairs.fill();
      const std::array<double, kSteps> seconds = enqueue(pairs, is_all);
      is_right = pairs.is_right() && is_right;
      for (size_t step = 0; step < kSteps; ++step)
        ns[step].push_back(seconds[step] * 1e9 / (is_all ? 1 : count));
    }
    for (size_t step = 0; step < kSteps; ++step)
      add_row(std::string(kNames[step]) + (is_all ? " all" : ""), is_ready, is_all ? count : 1, live, ns[step],
              overflowed(queue_) - before, is_right);
  }

  // Reports nanoseconds a step (send and receive) of two queues. Each rank enqueues all steps of
  // one, then all of the other. With `is_opposite` the ranks begin with different queues: then
  // steps whose peer steps are in the other card's overflow take each card's entries.
  void measure_ahead(bool is_opposite) {
    constexpr int kTrials = 5;
    struct Side {
      Side(const MpiProcess& process, int tag) : pairs(process, false, 1, tag) {}
      HostStream stream;
      StreamQueue queue{stream};
      Pairs pairs;
    } sides[2] = {{process_, kFirstTag}, {process_, kFirstTag + 1}};
    const long long before = overflowed(sides[0].queue);
    const int first = is_opposite ? process_.rank() : 0;
    std::vector<double> ns;
    bool is_right = true;
    for (int trial = 0; trial < kTrials; ++trial) {
      for (Side& side : sides)
        side.pairs.fill();
      const double seconds = process_.timed([&] {
        for (Side* side : {&sides[first], &sides[1 - first]})
          for (int step = 0; step < options_.ahead; ++step) {
            side->queue.start_all(side->pairs.requests());
            side->queue.wait_all(side->pairs.requests());
          }
        for (Side& side : sides)
          side.queue.drain();
      });
      ns.push_back(seconds * 1e9 / (2 * options_.ahead));
      for (const Side& side : sides)
        is_right = side.pairs.is_right() && is_right;
    }
    add_row(std::string("step ahead, ") + (is_opposite ? "opposite orders" : "same order"), false, 2, 0, ns,
            overflowed(sides[0].queue) - before, is_right);
  }

  static long long overflowed(const StreamQueue& queue) { return queue.info().value("entries_overflowed", 0LL); }

  // Collective.
  void add_row(const std::string& call, bool is_ready, int requests, int live, const std::vector<double>& ns,
               long long overflowed, bool is_right) {
    const Estimate cost = estimate(ns);
    report_.add({{"call", call},
                 {"mode", is_ready ? "rsend" : "send"},
                 {"requests", requests},
                 {"live", live},
                 {"ns_mean", cost.mean},
                 {"ns_ci95", cost.ci95},
                 {"ns_min", cost.min},
                 {"overflowed", overflowed},
                 {"verified", process_.all(is_right)}});
  }

  const Options& options_;
  const MpiProcess& process_;
  Report report_{"enqueue_cost"};
  HostStream stream_;
  StreamQueue queue_{stream_};
  StreamGate gate_{stream_};
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--max-live", o.max_live,
                 "most other matched requests (default: 2048; the simulated card has counters for about 2700)")
      ->check(CLI::Range(0, 4096));
  app.add_option("--iterations", o.iterations, "measurements of each cost (default: 300)")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--ahead", o.ahead,
                 "of 2 ranks: steps that each of two queues is ahead of the card (default: 4000; 0: not measured)")
      ->check(CLI::Range(0, 100000));
  add_format(app, o.format);
}

int run(const Options& options, const MpiProcess& process) {
  if (process.ranks() > 2)
    return usage_error(process, "enqueue_cost", fmt::format("needs 1 or 2 ranks, not {}", process.ranks()));
  return EnqueueCost(options, process).run();
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  using namespace lanyard::bench;
  return run_program(argc, argv, "What MPIX_Enqueue_* cost the calling thread.", declare, run);
}
