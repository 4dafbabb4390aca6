// HostStream: the stream contract, and rules H1 to H4 of host_stream.h.
#include "gpu/host/host_stream.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>

#include "gpu/host/spin.h"
#include "tests/support/allocation_counter.h"
#include "tests/gpu/stream_contract.h"
#include "tests/support/syscall_counter.h"

namespace lanyard::stream_contract {
namespace {

using gpu::Attendance;
using gpu::Helper;
using gpu::HostStream;
using namespace std::chrono_literals;

// ---- The contract

struct HostLab final : StreamLab {
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<HostStream>(); }
  Status launch(Stream& stream, std::function<void()> body) override {
    auto owned = std::make_unique<std::function<void()>>(std::move(body));
    const auto run = [](void* argument) {
      std::unique_ptr<std::function<void()>>(static_cast<std::function<void()>*>(argument))->operator()();
    };
    Status status = static_cast<HostStream&>(stream).launch(run, owned.get());
    if (status.ok())
      owned.release();
    return status;
  }
};

INSTANTIATE_TEST_SUITE_P(Host, StreamContract,
                         ::testing::Values(StreamMaker{"Host", [] { return std::make_unique<HostLab>(); }, 10'000}),
                         maker_name);

// ---- Helpers

Status enqueue(HostStream& stream, std::initializer_list<StreamOp> ops) {
  return stream.enqueue({ops.begin(), ops.size()});
}

// Records the threads that ran kernels.
struct Runners {
  static void note(void* self) { static_cast<Runners*>(self)->ids.insert(std::this_thread::get_id()); }
  std::set<std::thread::id> ids;
};

void nothing(void*) {}

// Adds 1 to a word per call, `times` times; after that it has nothing to do.
struct WordHelper final : Helper {
  WordHelper(uint64_t* word, uint64_t times) : word(word), left(times) {}
  bool help() override {
    helps.fetch_add(1);
    uint64_t before = left.load();
    while (before > 0 && !left.compare_exchange_weak(before, before - 1)) {
    }
    if (before > 0)
      std::atomic_ref(*word).fetch_add(1);
    return before > 0;
  }
  uint64_t activity() override { return 0; }
  void sleep_since(uint64_t, std::chrono::nanoseconds timeout) override {
    EXPECT_LE(timeout, 1ms);
    sleeps.fetch_add(1);
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(timeout, 50us));
  }
  uint64_t* const word;
  std::atomic<uint64_t> left;
  std::atomic<uint64_t> helps{0};
  std::atomic<uint64_t> sleeps{0};
};

// Adds 1 to a word every fifth call. Counts how often the thread that made it would sleep.
struct SlowHelper final : Helper {
  explicit SlowHelper(uint64_t* word) : word(word) {}
  bool help() override {
    const auto until = std::chrono::steady_clock::now() + 10us;
    while (std::chrono::steady_clock::now() < until) {
    }
    if (helps.fetch_add(1) % 5 != 0)
      return false;
    steps.fetch_add(1);
    std::atomic_ref(*word).fetch_add(1);
    return true;
  }
  uint64_t activity() override { return steps.load(); }
  void sleep_since(uint64_t seen, std::chrono::nanoseconds) override {
    if (seen == steps.load() && std::this_thread::get_id() == maker)
      ++sleeps;
  }
  uint64_t* const word;
  const std::thread::id maker = std::this_thread::get_id();
  std::atomic<uint64_t> helps{0}, steps{0};
  uint64_t sleeps = 0;
};

double cpu_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

// ---- Threads that run the stream

TEST(HostStreamTest, RunsByItselfWhenNobodyPolls) {
  HostStream stream;
  Runners runners;
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(works(stream.launch(Runners::note, &runners)));
    ASSERT_TRUE(eventually([&] { return stream.executed() == stream.enqueued(); }));
  }
  EXPECT_EQ(runners.ids.size(), 1u);
  EXPECT_FALSE(runners.ids.contains(std::this_thread::get_id()));
}

TEST(HostStreamTest, H3RunsInlineOnTheThreadThatAttends) {
  HostStream stream;
  Runners runners;
  ASSERT_TRUE(works(stream.launch(nothing, nullptr)));  // starts the stream's own thread
  for (int round = 0; round < 200; ++round) {
    const Attendance attendance(stream);
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE(works(stream.launch(Runners::note, &runners)));
    ASSERT_TRUE(works(stream.synchronize()));
  }
  EXPECT_EQ(runners.ids, std::set{std::this_thread::get_id()});
}

TEST(HostStreamTest, H3TheStreamsOwnThreadStopsWhenAThreadAttends) {
  struct Gate {
    std::atomic<bool> reached{false}, open{false};
    static void pass(void* self) {
      Gate& gate = *static_cast<Gate*>(self);
      gate.reached.store(true);
      while (!gate.open.load())
        std::this_thread::yield();
    }
  };
  HostStream stream;
  Runners runners;
  for (int round = 0; round < 20; ++round) {
    Gate gate;
    ASSERT_TRUE(works(stream.launch(Gate::pass, &gate)));
    ASSERT_TRUE(eventually([&] { return gate.reached.load(); }));
    // The stream's thread is inside this kernel and would run the next ones.
    const Attendance attendance(stream);
    for (int i = 0; i < 10; ++i)
      ASSERT_TRUE(works(stream.launch(Runners::note, &runners)));
    gate.open.store(true);
    ASSERT_TRUE(works(stream.synchronize()));
  }
  EXPECT_EQ(runners.ids, std::set{std::this_thread::get_id()});
}

TEST(HostStreamTest, WorkLeftBehindIsRunByTheStreamsOwnThread) {
  HostStream stream;
  uint64_t word = 0;
  {
    const Attendance attendance(stream);
    ASSERT_TRUE(works(enqueue(stream, {write64(&word, 1)})));
    // Attended and quiet for long: the stream's thread sleeps although there is work.
    ASSERT_TRUE(eventually([&] { return stream.asleep(); }));
    EXPECT_EQ(load(&word), 0u);
  }
  EXPECT_TRUE(eventually([&] { return load(&word) == 1; }));
}

TEST(HostStreamTest, PollCallsTheHelperAndRunsInline) {
  uint64_t word = 0;
  WordHelper helper(&word, 5);
  HostStream stream;
  stream.set_helper(&helper);
  const Attendance attendance(stream);
  Runners runners;
  ASSERT_TRUE(works(enqueue(stream, {wait64(&word, 5)})));
  ASSERT_TRUE(works(stream.launch(Runners::note, &runners)));
  EXPECT_TRUE(stream.poll());
  EXPECT_EQ(runners.ids, std::set{std::this_thread::get_id()});
  EXPECT_EQ(helper.sleeps.load(), 0u);
}

TEST(HostStreamTest, TheStreamsOwnThreadCallsTheHelper) {
  uint64_t word = 0;
  WordHelper helper(&word, 100);
  HostStream stream;
  stream.set_helper(&helper);
  ASSERT_TRUE(works(enqueue(stream, {wait64(&word, 100)})));
  ASSERT_TRUE(eventually([&] { return stream.executed() == 1; }));
  ASSERT_TRUE(works(enqueue(stream, {wait64(&word, 101)})));
  ASSERT_TRUE(eventually([&] { return helper.sleeps.load() > 3; }));
  store(&word, 101);
  EXPECT_TRUE(eventually([&] { return stream.executed() == 2; }));
}

// A message of 1 MiB takes longer than the 50 us that a caller spins for.
TEST(HostStreamTest, SynchronizeDoesNotSleepWhileTheHelperProgresses) {
  uint64_t word = 0;
  HostStream stream;
  SlowHelper helper(&word);
  stream.set_helper(&helper);
  ASSERT_TRUE(works(enqueue(stream, {wait64(&word, 400)})));
  EXPECT_TRUE(works(stream.synchronize()));
  EXPECT_EQ(helper.sleeps, 0u);
  stream.set_helper(nullptr);
}

TEST(HostStreamTest, ARemovedHelperIsNotCalled) {
  HostStream stream;
  uint64_t gate = 0, unused = 0;
  ASSERT_TRUE(works(enqueue(stream, {wait64(&gate, 1)})));
  std::atomic<bool> stop{false};
  std::thread poller([&] {
    while (!stop.load())
      stream.poll();
  });
  for (int round = 0; round < 200; ++round) {
    auto helper = std::make_unique<WordHelper>(&unused, 1000);
    stream.set_helper(helper.get());
    if (round % 8 == 0)
      std::this_thread::sleep_for(200us);
    stream.set_helper(nullptr);
    helper.reset();  // sanitizers report a thread that still uses it
  }
  stop.store(true);
  poller.join();
  store(&gate, 1);
  EXPECT_TRUE(works(stream.synchronize()));
}

// ---- Calls from kernels

TEST(HostStreamTest, AKernelMayEnqueueOnItsOwnStreamAndMakeItGrow) {
  struct Chain {
    HostStream stream;
    uint64_t runs = 0;
    static void run(void* self) {
      Chain& chain = *static_cast<Chain*>(self);
      if (++chain.runs > 2000)
        return;
      for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(works(chain.stream.launch(nothing, nullptr)));
      EXPECT_FALSE(chain.stream.poll());  // false: this kernel still runs
      EXPECT_TRUE(works(chain.stream.launch(run, self)));
    }
  } chain;
  ASSERT_TRUE(works(chain.stream.launch(Chain::run, &chain)));
  while (!chain.stream.poll()) {
  }
  EXPECT_EQ(chain.runs, 2001u);
  EXPECT_EQ(chain.stream.executed(), 2001u + 3 * 2000u);
}

// ---- The queue

TEST(HostStreamTest, AFullStreamReturnsAgainAndAcceptsMoreLater) {
  for (const size_t max_items : {1, 5, 64, 100, 1000}) {
    HostStream stream(HostStream::Options{.max_items = max_items});
    uint64_t gate = 0, count = 0;
    ASSERT_TRUE(works(enqueue(stream, {wait64(&gate, 1)})));
    for (size_t i = 1; i < max_items; ++i)
      ASSERT_TRUE(works(enqueue(stream, {add64(&count, 1)})));
    EXPECT_EQ(enqueue(stream, {add64(&count, 1)}).code(), Code::kAgain);
    EXPECT_EQ(stream.launch(nothing, nullptr).code(), Code::kAgain);
    EXPECT_EQ(stream.enqueued(), max_items);
    const std::vector<StreamOp> too_many(max_items + 1, add64(&count, 1));
    EXPECT_EQ(stream.enqueue(too_many).code(), Code::kExhausted);
    EXPECT_EQ(stream.enqueue({too_many.data(), max_items}).code(), Code::kAgain);
    store(&gate, 1);
    ASSERT_TRUE(works(stream.synchronize()));
    EXPECT_EQ(count, max_items - 1);
    ASSERT_TRUE(works(stream.enqueue({too_many.data(), max_items})));
    ASSERT_TRUE(works(stream.synchronize()));
    EXPECT_EQ(count, 2 * max_items - 1);
  }
}

TEST(HostStreamTest, TheQueueGrowsWhileItIsRun) {
  struct Log {
    uint64_t next = 0;
    uint64_t wrong = 0;
  } log;
  CallBody note = [&](uint32_t, uint64_t value) { log.wrong += value != log.next++; };
  for (int round = 0; round < 200; ++round) {
    log = {};
    HostStream stream;
    std::atomic<bool> done{false};
    std::thread poller([&] {
      while (!done.load())
        stream.poll();
    });
    for (uint64_t i = 0; i < 2000; ++i)
      ASSERT_TRUE(works(enqueue(stream, {call(&note, 0, i)})));
    EXPECT_TRUE(works(stream.synchronize()));
    done.store(true);
    poller.join();
    ASSERT_EQ(log.next, 2000u);
    ASSERT_EQ(log.wrong, 0u);
  }
}

TEST(HostStreamTest, ABatchStaysTogetherAmongProducers) {
  constexpr uint32_t kBatches = 2000;
  HostStream stream;
  std::vector<uint32_t> log;
  CallBody note = [&](uint32_t producer, uint64_t) { log.push_back(producer); };
  std::vector<std::thread> producers;
  for (uint32_t id = 0; id < 3; ++id) {
    producers.emplace_back([&, id] {
      const std::vector<StreamOp> batch(4, call(&note, id, 0));
      for (uint32_t i = 0; i < kBatches; ++i)
        EXPECT_TRUE(works(stream.enqueue(batch)));
    });
  }
  for (std::thread& producer : producers)
    producer.join();
  ASSERT_TRUE(works(stream.synchronize()));
  ASSERT_EQ(log.size(), 3u * 4 * kBatches);
  for (size_t i = 0; i < log.size(); i += 4)
    EXPECT_EQ(std::count(&log[i], &log[i] + 4, log[i]), 4) << "batch " << i / 4;
}

// ---- Synchronizing and stall reports

TEST(HostStreamTest, SynchronizeStopsAtItsDeadlineAndMayBeRepeated) {
  HostStream stream;
  uint64_t gate = 0;
  ASSERT_TRUE(works(stream.synchronize(HostStream::Clock::now())));  // returns at once: the stream is empty
  ASSERT_TRUE(works(enqueue(stream, {wait64(&gate, 1)})));
  EXPECT_EQ(stream.synchronize(HostStream::Clock::now()).code(), Code::kTimedOut);
  EXPECT_EQ(stream.synchronize(HostStream::Clock::now() + 5ms).code(), Code::kTimedOut);
  std::thread opener([&] {
    std::this_thread::sleep_for(5ms);
    store(&gate, 1);
  });
  EXPECT_TRUE(works(stream.synchronize(HostStream::Clock::now() + kBound)));
  opener.join();
}

TEST(HostStreamTest, HeadNamesTheWaitThatIsNotMet) {
  HostStream stream;
  uint64_t word = 0;
  EXPECT_EQ(stream.head().waits_for, nullptr);
  ASSERT_TRUE(works(enqueue(stream, {write64(&word, 7), wait64(&word, 9), write64(&word, 11), wait64(&word, 12)})));
  EXPECT_FALSE(stream.poll());
  ASSERT_TRUE(eventually([&] { return stream.head().waits_for != nullptr; }));
  EXPECT_EQ(stream.head().waits_for, &word);
  EXPECT_EQ(stream.head().item, 1u);
  EXPECT_EQ(load(&word), 7u);
  store(&word, 9);
  ASSERT_TRUE(eventually([&] { return stream.head().waits_for == &word && stream.head().item == 3; }));
  EXPECT_EQ(load(&word), 11u);
  store(&word, 12);
  ASSERT_TRUE(works(stream.synchronize()));
  EXPECT_EQ(stream.head().waits_for, nullptr);
}

TEST(HostStreamTest, TheDestructorRunsWhatCanRunAndAbandonsTheRest) {
  uint64_t gate = 0, before = 0, after = 0;
  {
    HostStream stream;
    ASSERT_TRUE(works(enqueue(stream, {write64(&before, 1), wait64(&gate, 1), write64(&after, 1)})));
  }
  EXPECT_EQ(before, 1u);
  EXPECT_EQ(after, 0u);
}

TEST(HostStreamTest, NothingRunsAfterAHalt) {
  uint64_t gate = 0, after = 0;
  HostStream stream;
  ASSERT_TRUE(works(enqueue(stream, {wait64(&gate, 1), write64(&after, 1)})));
  stream.halt();
  std::atomic_ref(gate).store(1);
  EXPECT_FALSE(stream.poll());
  EXPECT_EQ(stream.synchronize().code(), Code::kInvalidState);
  std::this_thread::sleep_for(2ms);  // time for the stream's own thread to run it
  EXPECT_EQ(stream.executed(), 0u);
  EXPECT_EQ(std::atomic_ref(after).load(), 0u);
}

TEST(HostStreamTest, TheDestructorWakesEverySleepState) {
  uint64_t gate = 0;
  { HostStream never_used; }
  for (const auto pause : {0us, 100us, 5000us}) {
    HostStream idle, blocked, attended;
    ASSERT_TRUE(works(enqueue(idle, {write64(&gate, 0)})));
    ASSERT_TRUE(works(enqueue(blocked, {wait64(&gate, 1)})));
    attended.attend();
    ASSERT_TRUE(works(enqueue(attended, {wait64(&gate, 1)})));
    std::this_thread::sleep_for(pause);
  }
  HostStream deep;
  ASSERT_TRUE(works(enqueue(deep, {write64(&gate, 0)})));
  ASSERT_TRUE(eventually([&] { return deep.asleep(); }));
}

// ---- Costs

TEST(HostStreamTest, H1NoAllocationOnceWarm) {
  if (!allocations_are_counted())
    GTEST_SKIP() << "allocations cannot be counted in this build";
  HostStream stream;
  uint64_t gate = 0;
  const std::vector<StreamOp> batch(8, add64(&gate, 0));
  const auto load_and_run = [&](uint64_t round) {
    EXPECT_TRUE(enqueue(stream, {wait64(&gate, round)}).ok());
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(stream.enqueue(batch).ok());
      EXPECT_TRUE(stream.launch(nothing, nullptr).ok());
    }
    EXPECT_FALSE(stream.poll());
    store(&gate, round);
    EXPECT_TRUE(stream.synchronize().ok());
  };
  uint64_t before = allocation_count();
  load_and_run(1);
  EXPECT_GT(allocation_count(), before);  // proves that allocations are counted: the queue has grown
  before = allocation_count();
  for (uint64_t round = 2; round < 20; ++round)
    load_and_run(round);
  EXPECT_EQ(allocation_count(), before);
}

TEST(HostStreamTest, H1NoSystemCallOnceWarm) {
  if (!SyscallCounter::available())
    GTEST_SKIP() << "system calls cannot be counted in this build";
  HostStream stream;
  uint64_t gate = 0, sum = 0;
  const std::vector<StreamOp> batch(8, add64(&sum, 1));
  const auto enqueue_all = [&] {
    for (int i = 0; i < 100; ++i) {
      if (!stream.enqueue(batch).ok() || !stream.launch(nothing, nullptr).ok())
        std::abort();
    }
  };
  {
    const Attendance attendance(stream);
    for (int i = 0; i < 100; ++i)
      enqueue_all();  // starts the thread and grows the queue
    ASSERT_TRUE(works(stream.synchronize()));
  }
  ASSERT_TRUE(SyscallCounter::run([&](SyscallCounter& counter) {
    // Proves that system calls are counted.
    const std::vector<long> yields = counter.during([] { sched_yield(); });
    EXPECT_EQ(yields, std::vector<long>{SYS_sched_yield});

    // Attended: no call wakes the stream's thread, whether it is awake or asleep.
    {
      const Attendance attendance(stream);
      std::vector<long> calls = counter.during([&] {
        for (int round = 0; round < 100; ++round) {
          enqueue_all();
          while (!stream.poll()) {
          }
        }
      });
      EXPECT_EQ(calls, std::vector<long>());
      ASSERT_TRUE(eventually([&] { return stream.asleep(); }));
      calls = counter.during([&] { enqueue_all(); });
      EXPECT_EQ(calls, std::vector<long>());
      EXPECT_TRUE(stream.poll());
    }

    // Not attended: the thread stays awake while there is work (H2).
    ASSERT_TRUE(works(enqueue(stream, {wait64(&gate, 1)})));
    const std::vector<long> calls = counter.during([&] {
      for (int round = 0; round < 99; ++round)
        enqueue_all();
    });
    EXPECT_EQ(calls, std::vector<long>());
    store(&gate, 1);
    EXPECT_TRUE(works(stream.synchronize()));

    // Asleep and not attended: one call wakes the thread.
    ASSERT_TRUE(eventually([&] { return stream.asleep(); }));
    const std::vector<long> wake = counter.during([&] { EXPECT_TRUE(stream.launch(nothing, nullptr).ok()); });
    EXPECT_EQ(wake, std::vector<long>{SYS_futex});
    EXPECT_TRUE(eventually([&] { return stream.executed() == stream.enqueued(); }));
  }));
}

// H2's race: work arrives, or the last attending thread leaves work, while the stream's
// thread falls asleep.
TEST(HostStreamTest, H2NothingIsLostWhenSleepBegins) {
  HostStream stream(HostStream::Options{.quiet_before_deep_sleep = 0ns});
  uint64_t count = 0;
  for (uint64_t round = 1; round <= 20000; ++round) {
    if (round % 2 == 0) {
      ASSERT_TRUE(works(enqueue(stream, {add64(&count, 1)})));
    } else {
      const Attendance attendance(stream);
      ASSERT_TRUE(works(enqueue(stream, {add64(&count, 1)})));
      for (uint64_t i = 0; i < round % 64; ++i)
        gpu::cpu_relax();
    }
    const auto deadline = HostStream::Clock::now() + kBound;
    while (load(&count) != round) {
      ASSERT_LT(HostStream::Clock::now(), deadline) << "round " << round;
      std::this_thread::yield();
    }
    for (uint64_t i = 0; i < round % 512; ++i)
      gpu::cpu_relax();
  }
}

TEST(HostStreamTest, H4AnIdleStreamUsesNoProcessorTime) {
  std::vector<std::unique_ptr<HostStream>> streams;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(std::make_unique<HostStream>());
    ASSERT_TRUE(works(streams.back()->launch(nothing, nullptr)));
  }
  for (auto& stream : streams)
    ASSERT_TRUE(eventually([&] { return stream->asleep(); }));
  const double before = cpu_ms();
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(cpu_ms() - before, 30.0);
}

}  // namespace
}  // namespace lanyard::stream_contract
