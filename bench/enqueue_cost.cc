// Measures how long enqueuing takes the host: starts and waits, one by one and many at once, and
// beside other matched requests. A gate holds the stream, so nothing else is measured. Also
// measures a step when two queues are far ahead of the card. See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/program.h"
#include "bench/queue.h"
#include "bench/report.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

constexpr int kSingles = 16;  // requests started one by one between two looks at the clock
constexpr int kRunUp = 4;     // pairs
constexpr int kFirstTag = 0;
constexpr int kLiveTag = 4096;  // of requests that only exist

// A kernel that keeps a stream from going on until the host opens it.
class StreamGate {
 public:
  explicit StreamGate(HostStream& stream) : stream_(stream) {}
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;

  // Requires an open gate. Returns once the stream waits at the gate. The same thread must open it
  // soon, and before it waits for the stream.
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

struct Setting {
  explicit Setting(const MpiProcess& p)
      : process(p), peer(p.ranks() == 2 ? 1 - p.rank() : p.rank()), queue(stream), gate(stream) {}

  const MpiProcess& process;
  const int peer;  // the other of two ranks, or this process
  HostStream stream;
  StreamQueue queue;
  StreamGate gate;
};

using Clock = std::chrono::steady_clock;

double between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}
// What reading the clock adds to a measurement.
double clock_cost() {
  constexpr int kReadings = 1000;
  const auto begin = Clock::now();
  for (int i = 0; i < kReadings; ++i)
    (void)Clock::now();
  return between(begin, Clock::now()) / kReadings;
}
template <class F>
double timed(F&& f) {
  static const double kClockCost = clock_cost();
  const auto begin = Clock::now();
  f();
  return std::max(between(begin, Clock::now()) - kClockCost, 0.0);
}

// `count` sends of 8 bytes to the peer and as many receives from it, matched in pairs. Collective.
class Pairs {
 public:
  enum Step { kStartReceive, kStartSend, kWaitSend, kWaitReceive, kSteps };
  static constexpr const char* kNames[kSteps] = {"start receive", "start send", "wait send", "wait receive"};
  using Seconds = std::array<double, kSteps>;

  Pairs(Setting& setting, bool is_ready, int count, int first_tag)
      : setting_(setting), count_(count), buffers_(2 * static_cast<size_t>(count)) {
    for (int i = 0; i < count; ++i)
      requests_.add_receive(&buffers_[index(i)], sizeof(uint64_t), setting.peer, first_tag + i);
    for (int i = 0; i < count; ++i)
      requests_.add_send(is_ready, &buffers_[index(count + i)], sizeof(uint64_t), setting.peer, first_tag + i);
    if (count == 0)
      return;
    error_ = requests_.try_match();
    if (!setting.process.all(error_.empty()) && error_.empty())
      error_ = "the peer failed to match";
  }

  // Why they could not be matched; empty when they are.
  const std::string& error() const { return error_; }

  // Enqueues while the gate holds the stream: a start and a wait for each request, or with `is_all`
  // one of each for all receives and for all sends. Returns the total seconds of each kind of call.
  Seconds steps(bool is_all) {
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
    // Waiting for the gate empties this thread's caches. The run-up keeps that cost
    // out of the first step.
    for (int i = 0; i < kRunUp; ++i)
      pair();
    seconds[kStartReceive] = timed([&] { start(receives); });
    seconds[kStartSend] = timed([&] { start(sends); });
    seconds[kWaitSend] = timed([&] { wait(sends); });
    seconds[kWaitReceive] = timed([&] { wait(receives); });
    setting_.gate.open();
    queue.drain();
    return seconds;
  }

 private:
  void pair() {
    StreamQueue& queue = setting_.queue;
    MPI_Request& receive = requests_[0];
    MPI_Request& send = requests_[index(count_)];
    queue.start(receive);
    queue.start(send);
    queue.wait(send);
    queue.wait(receive);
  }
  static size_t index(int i) { return static_cast<size_t>(i); }

  Setting& setting_;
  const int count_;
  std::vector<uint64_t> buffers_;
  RequestSet requests_;  // the receives, then the sends
  std::string error_;
};

struct Options {
  int max_live = 2048;
  int iterations = 300;
  int ahead = 4000;
  std::string format = "text";
};

long long overflowed(const StreamQueue& queue) { return queue.info().value("entries_overflowed", 0LL); }

void add_row(Report& report, const std::string& call, bool is_ready, int requests, int live,
             const std::vector<double>& ns, long long overflowed) {
  const Estimate cost = estimate(ns);
  report.add({{"call", call},
              {"mode", is_ready ? "rsend" : "send"},
              {"requests", requests},
              {"live", live},
              {"ns_mean", cost.mean},
              {"ns_ci95", or_null(cost.ci95)},
              {"ns_min", cost.min},
              {"overflowed", overflowed}});
}

// False where the pairs could not be matched, and stderr says why.
bool is_matched(const Pairs& pairs) {
  if (!pairs.error().empty())
    fmt::print(stderr, "enqueue_cost: MPIX_Matchall: {}\n", pairs.error());
  return pairs.error().empty();
}

// Reports nanoseconds a call. With `is_all` one call starts `count` requests and one waits for
// them; otherwise each request has calls of its own. `live` other requests are matched meanwhile.
void measure(Report& report, Setting& setting, int iterations, bool is_ready, int count, bool is_all, int live) {
  // Tags of their own, so that what a failed match leaves behind meets nobody.
  static int next_tag = kLiveTag;
  Pairs others(setting, is_ready, live / 2, next_tag);
  next_tag += live / 2;
  if (!is_matched(others))
    return;
  Pairs pairs(setting, is_ready, count, kFirstTag);
  if (!is_matched(pairs))
    return;
  pairs.steps(is_all);
  const long long before = overflowed(setting.queue);
  std::array<std::vector<double>, Pairs::kSteps> ns;
  for (int i = 0; i < iterations; ++i) {
    const Pairs::Seconds seconds = pairs.steps(is_all);
    for (size_t step = 0; step < ns.size(); ++step)
      ns[step].push_back(seconds[step] * 1e9 / (is_all ? 1 : count));
  }
  for (size_t step = 0; step < ns.size(); ++step)
    add_row(report, std::string(Pairs::kNames[step]) + (is_all ? " all" : ""), is_ready, is_all ? count : 1, live,
            ns[step], overflowed(setting.queue) - before);
}

// Reports nanoseconds a step (send and receive) of two queues. Each rank enqueues all steps of one,
// then all of the other. With `is_opposite` the ranks begin with different queues: then steps whose
// peer steps are in the other card's overflow take each card's entries.
void measure_ahead(Report& report, const MpiProcess& process, int steps, bool is_opposite) {
  constexpr int kTrials = 5;
  struct Side {
    HostStream stream;
    StreamQueue queue{stream};
    uint64_t buffers[2] = {};
    RequestSet requests;
  } sides[2];
  for (int i = 0; i < 2; ++i) {
    Side& side = sides[i];
    side.requests.add_receive(&side.buffers[0], sizeof(uint64_t), 1 - process.rank(), kFirstTag + i);
    side.requests.add_send(false, &side.buffers[1], sizeof(uint64_t), 1 - process.rank(), kFirstTag + i);
    side.requests.match();
  }
  const long long before = overflowed(sides[0].queue);
  const int first = is_opposite ? process.rank() : 0;
  std::vector<double> ns;
  for (int trial = 0; trial < kTrials; ++trial) {
    process.barrier();
    const double seconds = timed([&] {
      for (Side* side : {&sides[first], &sides[1 - first]})
        for (int step = 0; step < steps; ++step) {
          side->queue.start_all(side->requests);
          side->queue.wait_all(side->requests);
        }
      for (Side& side : sides)
        side.queue.drain();
    });
    ns.push_back(process.largest(seconds) * 1e9 / (2 * steps));
  }
  add_row(report, std::string("step ahead, ") + (is_opposite ? "opposite orders" : "same order"), false, 2, 0, ns,
          overflowed(sides[0].queue) - before);
}

int run(int argc, char** argv, const MpiProcess& process) {
  Options options;
  CLI::App app{"What MPIX_Enqueue_* cost the calling thread."};
  app.add_option("--max-live", options.max_live,
                 "most other matched requests (default: 2048; the simulated card has counters for about 2700)")
      ->check(CLI::Range(0, 4096));
  app.add_option("--iterations", options.iterations, "measurements of each cost (default: 300)")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--ahead", options.ahead,
                 "of 2 ranks: steps that each of two queues is ahead of the card (default: 4000; 0: not measured)")
      ->check(CLI::Range(0, 100000));
  add_format(app, options.format);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  if (process.ranks() > 2)
    return usage_error(process, "enqueue_cost", fmt::format("needs 1 or 2 ranks, not {}", process.ranks()));
  Setting setting(process);
  Report report("enqueue_cost");
  report.fact("mpi", mpi_library());
  report.fact("ranks", process.ranks());
  for (const bool is_ready : {false, true}) {
    // Between two ranks nothing makes sure that the peer's receive is started before a ready send.
    if (is_ready && process.ranks() != 1)
      continue;
    for (int count = 1; count <= 256; count *= 4)
      measure(report, setting, options.iterations, is_ready, count, true, 0);
    for (const int live : {0, 2, 16, 128, 1024, 2048, 4096})
      if (live <= options.max_live)
        measure(report, setting, options.iterations, is_ready, kSingles, false, live);
  }
  for (const bool is_opposite : {false, true})
    if (process.ranks() == 2 && options.ahead > 0)
      measure_ahead(report, process, options.ahead, is_opposite);
  add_nic(report, setting.queue.info());
  if (process.is_first())
    report.print(options.format);
  return 0;
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
