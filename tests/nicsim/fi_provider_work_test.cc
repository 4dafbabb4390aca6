// The simulated provider's deferred work under CXI's rules (nicsim/fi/README.md): refusals,
// exhaustion, slots, flush. Its counters: ranges, reads, registers.
#include <array>
#include <atomic>

#include "tests/nicsim/fi_harness.h"
#include "tests/support/sanitizers.h"

namespace lanyard {
namespace {

// CXI's extension, declared as its users declare it.
struct DomainOps {
  void* others[4];
  int (*get_dwq_depth)(struct fid*, size_t*);
};

TEST(FiWork, RefusesWhatCxiRefuses) {
  Loner node;
  uint64_t word = 0;
  const auto trigger = node.counter();
  const auto region = node.region(&word, sizeof word);
  const Remote here{0, fi_mr_key(region.get())};
  const When when{trigger.get(), 1};
  for (const uint64_t flag : {FI_FENCE, FI_INJECT, FI_REMOTE_CQ_DATA}) {
    EXPECT_EQ(defer_write(node, &word, 8, here, when, flag), -FI_EINVAL) << flag;
    EXPECT_EQ(defer_atomic(node, {.operand = &word}, here, when, flag), -FI_EINVAL) << flag;
  }
  EXPECT_EQ(defer_write(node, &word, 8, here, {nullptr, 1}), -FI_EINVAL);
  EXPECT_EQ(defer_write(node, &word, 8, here, {trigger.get(), kMaxSuccess + 1}), -FI_EINVAL);
  EXPECT_EQ(defer_write(node, &word, 8, {7, here.key}, when), -FI_EINVAL);
  EXPECT_EQ(defer_write(node, &word, (size_t{1} << 30) + 1, here, when), -FI_EINVAL);
  EXPECT_EQ(defer_atomic(node, {.operand = &word}, {0, here.key, 4}, when), -FI_EINVAL);
  EXPECT_EQ(defer_atomic(node, {.op = FI_PROD, .operand = &word}, here, when), -FI_EOPNOTSUPP);
  EXPECT_EQ(defer_atomic(node, {.operand = &word, .type = FI_UINT32}, here, when), -FI_EOPNOTSUPP);
  fi_op_msg message = {};
  message.ep = node.ep.get();
  fi_deferred_work work = work_of(when, FI_OP_RECV);
  work.op.msg = &message;
  EXPECT_EQ(node.queue(work), -FI_ENOSYS);
  EXPECT_EQ(fi_control(&node.domain->fid, FI_CANCEL_WORK, &work), -FI_EINVAL);
  // None of the refused work has an effect.
  EXPECT_EQ(node.flush(), 0);
  EXPECT_EQ(word, 0u);
}

TEST(FiWork, NeedsAnEnabledEndpoint) {
  Loner node({.enable = false});
  uint64_t word = 0;
  const auto trigger = node.counter();
  EXPECT_EQ(defer_write(node, &word, 8, {}, {trigger.get(), 1}), -FI_EOPBADSTATE);
  size_t bytes = 0;
  EXPECT_EQ(fi_getname(&node.ep->fid, nullptr, &bytes), -FI_EOPBADSTATE);
  ASSERT_EQ(fi_enable(node.ep.get()), 0);
  EXPECT_EQ(fi_ep_bind(node.ep.get(), &trigger->fid, FI_WRITE), -FI_EOPBADSTATE);
}

TEST(FiWork, ReportsItsDepth) {
  const Variable depth("LANYARD_FI_DWQ_DEPTH", "77");
  Loner node;
  for (const char* name : {"dom_ops_v2", "dom_ops_v3", "dom_ops_v6"}) {
    void* ops = nullptr;
    ASSERT_EQ(fi_open_ops(&node.domain->fid, name, 0, &ops, nullptr), 0) << name;
    size_t told = 0;
    EXPECT_EQ(static_cast<DomainOps*>(ops)->get_dwq_depth(&node.domain->fid, &told), 0);
    EXPECT_EQ(told, 77u);
  }
  void* ops = nullptr;
  EXPECT_EQ(fi_open_ops(&node.domain->fid, "dom_ops_v7", 0, &ops, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_open_ops(&node.domain->fid, "other", 0, &ops, nullptr), -FI_EINVAL);
}

// A flush frees entries and slots, or the slots would be too few for three rounds.
TEST(FiWork, TheEntryLimitIsEnforced) {
  const Variable limited("FI_CXI_ENABLE_TRIG_OP_LIMIT", "1"), depth("LANYARD_FI_DWQ_DEPTH", "8");
  Summing node({.tx_size = 16});
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < 8; ++i)
      ASSERT_EQ(node.add_when(node.trigger, 1), 0) << i;
    EXPECT_EQ(node.add_when(node.trigger, 1), -FI_ENOSPC);
    ASSERT_EQ(node.flush(), 0);
    EXPECT_EQ(successes(node.completion), 0u);
  }
  // Work that has fired holds no entry.
  ASSERT_EQ(node.add_when(node.trigger, 1), 0);
  ASSERT_EQ(fi_cntr_add(node.trigger.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return successes(node.completion) == 1; }));
  EXPECT_EQ(node.sum, 1u);
  for (int i = 0; i < 8; ++i)
    ASSERT_EQ(node.add_when(node.trigger, 2), 0) << i;
  EXPECT_EQ(node.add_when(node.trigger, 2), -FI_ENOSPC);
}

// FI_CXI_ENABLE_TRIG_OP_LIMIT takes any spelling of libfabric's booleans; other values
// keep the default.
TEST(FiWork, TheLimitIsABoolean) {
  const Variable depth("LANYARD_FI_DWQ_DEPTH", "1");
  const std::string limiting = "yes true ON 1 ";
  for (const std::string word : {"yes", "true", "ON", "1", "no", "False", "off", "0", "perhaps"}) {
    const Variable limit("FI_CXI_ENABLE_TRIG_OP_LIMIT", word);
    Summing node;
    ASSERT_EQ(node.add_when(node.trigger, 1), 0);
    EXPECT_EQ(node.add_when(node.trigger, 1), has(limiting, word + " ") ? -FI_ENOSPC : 0) << word;
  }
}

TEST(FiWork, StallsWithoutAnEntryLimit) {
  const Variable depth("LANYARD_FI_DWQ_DEPTH", "2");
  Summing node;
  const auto& first = node.trigger;
  const auto second = node.counter();
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(node.add_when(first, 1), 0);
  // These find no free entry: nothing happens although their threshold is reached.
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(node.add_when(second, 0), 0);
  breathe();
  EXPECT_EQ(node.sum_now(), 0u);
  // The host's reads wait in the same queue and show no new value. Registers do not wait there.
  ASSERT_EQ(fi_cntr_add(second.get(), 5), 0);
  EXPECT_EQ(successes(second), 0u);
  ASSERT_EQ(fi_cntr_add(first.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return node.sum_now() == 4; }));
  EXPECT_TRUE(eventually([&] { return successes(node.completion) == 4; }));
  EXPECT_EQ(successes(second), 5u);
}

TEST(FiWork, SlotsAreHeldUntilTheQueueIsRead) {
  Summing node({.tx_size = 4});
  EXPECT_EQ(node.info->tx_attr->size, 4u);
  const auto defer = [&] { return node.add_when(node.trigger, 0); };
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(defer(), 0);
  ASSERT_TRUE(eventually([&] { return successes(node.completion) == 4; }));
  EXPECT_EQ(defer(), -FI_EAGAIN);
  EXPECT_EQ(write_word(node.ep.get(), &node.one, node.here), -FI_EAGAIN);
  EXPECT_EQ(fi_cq_read(node.cq.get(), nullptr, 0), -FI_EAGAIN);
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(defer(), 0);
  EXPECT_EQ(defer(), -FI_EAGAIN);
  EXPECT_TRUE(eventually([&] { return successes(node.completion) == 8; }));
}

TEST(FiWork, TheQueueReportsNonSelectiveWork) {
  Loner node({.selective = false});
  uint64_t one = 1, sum = 0;
  std::array<int, 3> contexts;
  const auto trigger = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  for (int& context : contexts)
    ASSERT_EQ(defer_write(node, &one, 8, {0, fi_mr_key(region.get())}, {trigger.get(), 1}, 0, &context), 0);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  std::array<fi_cq_msg_entry, 4> entries;
  size_t count = 0;
  EXPECT_TRUE(eventually([&] {
    const ssize_t got = fi_cq_read(node.cq.get(), &entries[count], entries.size() - count);
    if (got > 0)
      count += static_cast<size_t>(got);
    return count == 3;
  }));
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(entries[i].op_context, &contexts[i]);
}

TEST(FiWork, LowerThresholdsFireFirstAndTiesByAgeOrAgainstIt) {
  for (const bool newest : {false, true}) {
    const Variable setting("LANYARD_FI_TIES", newest ? "newest" : "oldest");
    Loner node;
    uint64_t values[] = {3, 1, 2}, word = 0;
    const uint64_t thresholds[] = {1, 2, 2};
    const auto trigger = node.counter(), completion = node.counter();
    const auto region = node.region(&word, sizeof word);
    for (int i = 2; i >= 0; --i)
      ASSERT_EQ(defer_atomic(node, {.op = FI_ATOMIC_WRITE, .operand = &values[i]}, {0, fi_mr_key(region.get())},
                             {trigger.get(), thresholds[i], completion.get()}),
                0);
    ASSERT_EQ(fi_cntr_add(trigger.get(), 2), 0);
    ASSERT_TRUE(eventually([&] { return successes(completion) == 3; }));
    EXPECT_EQ(word, newest ? 2u : 1u) << "the wrong operation fired last";
  }
}

TEST(FiWork, AtomicsNeedTheEndpointsCounters) {
  Summing node({.counts = false});
  EXPECT_EQ(node.add_when(node.trigger, 0), -FI_EINVAL);
}

// ---- Counters

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
  Summing node;
  ASSERT_EQ(node.add_when(node.trigger, 50), 0);
  ASSERT_EQ(fi_cntr_set(node.trigger.get(), 49), 0);
  EXPECT_EQ(successes(node.completion), 0u);
  ASSERT_EQ(fi_cntr_set(node.trigger.get(), 50), 0);
  EXPECT_TRUE(eventually([&] { return successes(node.completion) == 1; }));
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
    Summing node({.tx_size = 4});
    for (int round = 0; round < 3; ++round) {
      const auto counter = node.counter();
      for (int i = 0; i < 2; ++i)
        ASSERT_EQ(node.add_when(counter, 1), 0);
      EXPECT_EQ(node.add_when(counter, 2), stalls ? 0 : -FI_ENOSPC);
    }
    for (int i = 0; i < 2; ++i)
      ASSERT_EQ(node.add_when(node.trigger, 1), 0);
    ASSERT_EQ(fi_cntr_add(node.trigger.get(), 1), 0);
    EXPECT_TRUE(eventually([&] { return successes(node.completion) == 2; }));
    EXPECT_EQ(node.sum_now(), 2u);
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
    Summing node;
    const auto counter = node.counter();
    for (int i = 0; i < 3; ++i)
      ASSERT_EQ(node.add_when(node.trigger, 1), 0);
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
    ASSERT_EQ(fi_cntr_add(node.trigger.get(), 1), 0);
    breathe();
    EXPECT_EQ(node.sum_now(), 0u);
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
