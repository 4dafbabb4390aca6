// What service threads share: MpscRing, in which a service thread takes what others push, and the
// threads' signals.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "transport/base/mpsc_ring.h"
#include "transport/base/service_thread.h"

namespace lanyard {
namespace {

// ---- MpscRing: fullness, wrapping, and a sleeper. Several producers: tests/interleaving and
// Doorbell_ManyThreadsLoseNoRing.

// A ring holds at least the requested capacity. The smallest has two cells.
TEST(MpscRing, FullRefusesAndLosesNothing) {
  for (const size_t capacity : {2u, 3u, 5u, 8u, 100u}) {
    MpscRing<uint64_t> ring(capacity);
    uint64_t pushed = 0;
    while (pushed < 1'000 && ring.push(pushed))
      ++pushed;
    EXPECT_EQ(pushed, std::max<size_t>(2, std::bit_ceil(capacity)));
    for (int again = 0; again < 3; ++again)
      EXPECT_FALSE(ring.push(999));
    for (uint64_t i = 0; i < pushed; ++i) {
      ASSERT_NE(ring.front(), nullptr) << "capacity " << capacity;
      EXPECT_EQ(*ring.front(), i);
      ring.pop();
    }
    EXPECT_TRUE(ring.empty());
    EXPECT_TRUE(ring.push(1)) << "the emptied ring must accept items again";
  }
}

TEST(MpscRing, AgainstADequeThroughManyWraps) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const size_t capacity = size_t{2} << seed % 5;  // a power of two is not rounded up
    MpscRing<uint64_t> ring(capacity);
    std::deque<uint64_t> expected;
    std::mt19937_64 random(seed);
    for (uint64_t i = 0; i < 5'000; ++i) {
      if (random() % 2 == 0) {
        const bool room = expected.size() < capacity;
        ASSERT_EQ(ring.push(i), room);
        if (room)
          expected.push_back(i);
      } else if (!expected.empty()) {
        ASSERT_EQ(*ring.front(), expected.front());
        ring.pop();
        expected.pop_front();
      }
      ASSERT_EQ(ring.empty(), expected.empty());
      ASSERT_EQ(ring.front() == nullptr, expected.empty());
    }
  }
}

// Yields the processor only at every 256th call: the other thread is usually fast.
class Patience {
 public:
  void wait() {
    if (++tries_ % 256 == 0)
      sched_yield();
  }

 private:
  uint32_t tries_ = 0;
};

// push() against "set a flag, then call empty()": one of the two must see the other, or a consumer
// sleeps forever.
TEST(MpscRing, AProducerAndASleeperNeverMissEachOther) {
  constexpr int kRounds = 20'000;
  constexpr int kLast = -1;
  MpscRing<int> ring(2);
  std::atomic<bool> sleeping{false};
  std::atomic<int> go{0};
  std::atomic<bool> pusher_saw{false};
  std::atomic<int> pushed{0};
  std::jthread pusher([&] {
    Patience patience;
    for (int round = 1;; ++round) {
      while (go.load() != round && go.load() != kLast)
        patience.wait();
      if (go.load() == kLast)
        return;
      ring.push(round);
      pusher_saw.store(sleeping.load(std::memory_order_seq_cst), std::memory_order_relaxed);
      pushed.store(round);
    }
  });
  // As many rounds as fit into a second, for busy machines.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  Patience patience;
  for (int round = 1; round <= kRounds && std::chrono::steady_clock::now() < end; ++round) {
    go.store(round);
    sleeping.store(true, std::memory_order_seq_cst);
    const bool sleeper_saw = !ring.empty();
    while (pushed.load() != round)
      patience.wait();
    EXPECT_TRUE(sleeper_saw || pusher_saw.load()) << "round " << round;
    sleeping.store(false);
    EXPECT_EQ(*ring.front(), round);
    ring.pop();
  }
  go.store(kLast);
}

// ---- Signals

sigset_t blocked_here() {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return blocked;
}

TEST(ServiceThread, BlocksTheApplicationsSignals) {
  const sigset_t before = blocked_here();
  sigset_t inside;
  Result<std::thread> thread = start_service_thread("lanyard-test", [&] { inside = blocked_here(); });
  ASSERT_TRUE(thread.ok()) << thread.status().to_string();
  thread.value().join();
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF})
    EXPECT_EQ(sigismember(&inside, signal), 1) << strsignal(signal);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    EXPECT_EQ(sigismember(&inside, fault), 0) << strsignal(fault);
  const sigset_t after = blocked_here();
  for (int signal = 1; signal < SIGRTMIN; ++signal)
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << strsignal(signal);
}

}  // namespace
}  // namespace lanyard
