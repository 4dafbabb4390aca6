// The simulated provider's counters under CXI's rules (nicsim/fi/README.md): ranges,
// reads, registers.
#include <atomic>

#include "tests/nicsim/fi_harness.h"
#include "tests/support/sanitizers.h"

namespace lanyard {
namespace {

// CXI's extension, declared as its users declare it.
struct CounterOps {
  int (*set_wb_buffer)(struct fid*, void*, size_t);
  int (*get_mmio_addr)(struct fid*, void**, size_t*);
};

CounterOps& extensions(const Owned<fid_cntr>& counter) {
  void* ops = nullptr;
  EXPECT_EQ(fi_open_ops(&counter->fid, "cxi_counter_ops", 0, &ops, nullptr), 0);
  return *static_cast<CounterOps*>(ops);
}

TEST(FiCounter, AddsSetsAndWrapsInItsRange) {
  Loner node;
  const auto counter = node.counter();
  EXPECT_EQ(fi_cntr_add(counter.get(), kMaxSuccess + 1), -FI_EINVAL);
  EXPECT_EQ(fi_cntr_set(counter.get(), kMaxSuccess + 1), -FI_EINVAL);
  EXPECT_EQ(fi_cntr_adderr(counter.get(), 128), -FI_EINVAL);
  EXPECT_EQ(fi_cntr_seterr(counter.get(), 128), -FI_EINVAL);
  EXPECT_EQ(successes(counter), 0u);
  EXPECT_EQ(failures(counter), 0u);
  ASSERT_EQ(fi_cntr_set(counter.get(), kMaxSuccess), 0);
  EXPECT_EQ(successes(counter), kMaxSuccess);
  ASSERT_EQ(fi_cntr_adderr(counter.get(), 100), 0);
  EXPECT_EQ(fi_cntr_adderr(counter.get(), 28), -FI_EINVAL);
  EXPECT_EQ(failures(counter), 100u);
  ASSERT_EQ(fi_cntr_add(counter.get(), 3), 0);  // success wraps at 48 bits
  EXPECT_EQ(successes(counter), 2u);
  ASSERT_EQ(fi_cntr_set(counter.get(), 0), 0);
  EXPECT_EQ(successes(counter), 0u);
  EXPECT_EQ(failures(counter), 100u);  // the failure half is unchanged
  ASSERT_EQ(fi_cntr_seterr(counter.get(), 0), 0);
  EXPECT_EQ(failures(counter), 0u);
}

TEST(FiCounter, SettingFiresWaitingWork) {
  Loner node;
  uint64_t one = 1, sum = 0;
  const auto trigger = node.counter(), done = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  ASSERT_EQ(defer_atomic(node, {.operand = &one}, {0, fi_mr_key(region.get())}, {trigger.get(), 50, done.get()}), 0);
  ASSERT_EQ(fi_cntr_set(trigger.get(), 49), 0);
  EXPECT_EQ(successes(done), 0u);
  ASSERT_EQ(fi_cntr_set(trigger.get(), 50), 0);
  EXPECT_TRUE(eventually([&] { return successes(done) == 1; }));
}

TEST(FiCounter, ReadsAreCachedOrFresh) {
  for (const char* read : {"cached", "fresh"}) {
    const Variable setting("LANYARD_FI_CNTR_READ", read);
    Loner node;
    const auto counter = node.counter();
    ASSERT_EQ(fi_cntr_add(counter.get(), 5), 0);
    const bool cached = std::string(read) == "cached";
    EXPECT_EQ(fi_cntr_read(counter.get()), cached ? 0u : 5u);
    EXPECT_EQ(fi_cntr_read(counter.get()), 5u);
    ASSERT_EQ(fi_cntr_add(counter.get(), 1), 0);
    EXPECT_EQ(fi_cntr_read(counter.get()), cached ? 5u : 6u);
  }
}

#if defined(__x86_64__)
TEST(FiCounter, TrappedStoresAreAllCounted) {
#ifdef LANYARD_THREAD_SANITIZER
  GTEST_SKIP() << "the thread sanitizer reports a race for concurrent stores to one register";
#endif
  const Variable trap("LANYARD_FI_MMIO", "trap");
  Loner node;
  const auto counter = node.counter(), other = node.counter();
  void* address = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(extensions(counter).get_mmio_addr(&counter->fid, &address, &bytes), 0);
  EXPECT_EQ(bytes, sizeof(uint64_t));
  auto* registers = static_cast<volatile uint64_t*>(address);
  constexpr int kThreads = 3, kStores = 2000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int store = 0; store < kStores; ++store) {
        if (i == 0)
          *registers = 2;  // stores a constant, a register, an exchange
        else if (i == 1)
          *registers = static_cast<uint64_t>(store);
        else
          std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(address)).store(1);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(successes(counter), uint64_t{kStores} * (2 + 1) + uint64_t{kStores} * (kStores - 1) / 2);
  EXPECT_EQ(*registers, 0u);  // a load does not fault and reads 0
  ASSERT_EQ(extensions(other).get_mmio_addr(&other->fid, &address, &bytes), 0);
  EXPECT_NE(const_cast<void*>(static_cast<volatile void*>(registers)), address);
}

TEST(FiCounterDeathTest, OtherFaultsStayFaults) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        const Variable trap("LANYARD_FI_MMIO", "trap");
        Loner node;
        const auto counter = node.counter();
        void* address = nullptr;
        size_t bytes = 0;
        extensions(counter).get_mmio_addr(&counter->fid, &address, &bytes);
        static volatile uintptr_t nowhere = 64;
        *reinterpret_cast<volatile uint64_t*>(nowhere) = 1;
      },
      "");
}
#endif

TEST(FiCounter, IsNotClosedWhileItIsBound) {
  Loner node;
  uint64_t word = 0;
  fid_cntr* counter = nullptr;
  ASSERT_EQ(fi_cntr_open(node.domain.get(), nullptr, &counter, nullptr), 0);
  auto region = node.region(&word, sizeof word, counter);
  EXPECT_EQ(fi_close(&counter->fid), -FI_EBUSY);
  region.reset();
  EXPECT_EQ(fi_close(&counter->fid), 0);
  EXPECT_EQ(fi_close(&node.domain->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&node.cq->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&node.av->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&node.fabric->fid), -FI_EBUSY);
}

// Work that waits for a closed counter is dropped: its entries and slots are free at once.
TEST(FiCounter, DropsItsWaitingWorkWhenClosed) {
  for (const char* pool : {"enospc", "stall"}) {
    const Variable setting("LANYARD_FI_POOL", pool), depth("LANYARD_FI_DWQ_DEPTH", "2");
    const bool stalls = std::string(pool) == "stall";
    Loner node({.tx_size = 4});
    uint64_t one = 1, sum = 0;
    const auto region = node.region(&sum, sizeof sum);
    const Remote here{0, fi_mr_key(region.get())};
    const auto done = node.counter();
    for (int round = 0; round < 3; ++round) {
      auto counter = node.counter();
      for (int i = 0; i < 2; ++i)
        ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {counter.get(), 1, done.get()}), 0);
      EXPECT_EQ(defer_atomic(node, {.operand = &one}, here, {counter.get(), 2, done.get()}), stalls ? 0 : -FI_ENOSPC);
      counter.reset();
    }
    const auto counter = node.counter();
    for (int i = 0; i < 2; ++i)
      ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {counter.get(), 1, done.get()}), 0);
    ASSERT_EQ(fi_cntr_add(counter.get(), 1), 0);
    EXPECT_TRUE(eventually([&] { return successes(done) == 2; }));
    EXPECT_EQ(std::atomic_ref<uint64_t>(sum).load(), 2u);
  }
}

TEST(FiCounter, ClosesWhileOtherWorkCountsThere) {
  Loner node;
  uint64_t word = 7, target = 0;
  const auto region = node.region(&target, sizeof target);
  const auto trigger = node.counter();
  auto done = node.counter();
  ASSERT_EQ(defer_write(node, &word, 8, {0, fi_mr_key(region.get())}, {trigger.get(), 1, done.get()}), 0);
  done.reset();
  const auto other = node.counter();
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return std::atomic_ref<uint64_t>(target).load() == 7; }));
  breathe();
  EXPECT_EQ(successes(other), 0u) << "a new counter counts the closed one's work";
}

// While the queue stalls, a read returns the old value. A flush ends that; stalled work never runs.
TEST(FiCounter, ReadsNewValuesAfterAStallIsFlushed) {
  for (const char* read : {"cached", "fresh"}) {
    const Variable setting("LANYARD_FI_CNTR_READ", read), depth("LANYARD_FI_DWQ_DEPTH", "1");
    Loner node;
    uint64_t one = 1, sum = 0;
    const auto region = node.region(&sum, sizeof sum);
    const auto trigger = node.counter(), counter = node.counter();
    for (int i = 0; i < 3; ++i)
      ASSERT_EQ(defer_atomic(node, {.operand = &one}, {0, fi_mr_key(region.get())}, {trigger.get(), 1}), 0);
    ASSERT_EQ(fi_cntr_add(counter.get(), 5), 0);
    std::atomic<bool> has_read{false};
    std::thread reader([&] {
      const uint64_t first = fi_cntr_read(counter.get());
      EXPECT_EQ(first, std::string(read) == "cached" ? 0u : 5u);
      has_read = true;
    });
    if (std::string(read) == "cached") {
      EXPECT_TRUE(eventually([&] { return has_read.load(); }));
      EXPECT_EQ(successes(counter), 0u);
    } else {
      breathe();
      EXPECT_FALSE(has_read.load()) << "a fresh read must wait for the command queue";
    }
    ASSERT_EQ(node.flush(), 0);
    reader.join();
    EXPECT_EQ(successes(counter), 5u);
    ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
    breathe();
    EXPECT_EQ(std::atomic_ref<uint64_t>(sum).load(), 0u);
  }
}

// Threads read a growing counter. No read is older than a value known before it, or than the
// thread's last read.
TEST(FiCounter, FreshReadsNeverDecrease) {
  const Variable setting("LANYARD_FI_CNTR_READ", "fresh");
  Loner node;
  const auto counter = node.counter();
  constexpr uint64_t kAdds = 10'000;
  std::atomic<uint64_t> added{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      for (uint64_t last = 0; last < kAdds;) {
        const uint64_t certain = added.load();
        const uint64_t value = fi_cntr_read(counter.get());
        wrong += value < certain || value < last;
        last = value;
      }
    });
  for (uint64_t i = 1; i <= kAdds; ++i) {
    fi_cntr_add(counter.get(), 1);
    added.store(i);
  }
  for (std::thread& reader : readers)
    reader.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace lanyard
