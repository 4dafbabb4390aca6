// CXI's own rules, as nicsim/fi/README.md lists them, and every switch for what only Slingshot
// could tell.
#include <array>
#include <atomic>
#include <optional>

#include "tests/fi_harness.h"

namespace lanyard {
namespace {

constexpr uint64_t kMaxSuccess = (uint64_t{1} << 48) - 1;
constexpr uint64_t kValid = uint64_t{1} << 63;
constexpr uint64_t kWriteback = uint64_t{1} << 62;  // FI_CXI_CNTR_WB

// CXI's extensions, declared as their users do.
struct CounterOps {
  int (*set_wb_buffer)(struct fid*, void*, size_t);
  int (*get_mmio_addr)(struct fid*, void**, size_t*);
};
struct DomainOps {
  void* others[4];
  int (*get_dwq_depth)(struct fid*, size_t*);
};

CounterOps& extensions(const Owned<fid_cntr>& counter) {
  void* ops = nullptr;
  EXPECT_EQ(fi_open_ops(&counter->fid, "cxi_counter_ops", 0, &ops, nullptr), 0);
  return *static_cast<CounterOps*>(ops);
}

// A node that talks to itself.
class Loner : public Node {
 public:
  explicit Loner(const NodeOptions& options = {}) : Node(options) {
    if (options.enable) introduce({this});
  }
};

// ---- Counters

TEST(FiCounter, RangesAreErrors) {
  Loner node;
  const auto counter = node.counter();
  EXPECT_EQ(fi_cntr_add(counter.get(), kMaxSuccess + 1), -FI_EINVAL);
  EXPECT_EQ(fi_cntr_set(counter.get(), kMaxSuccess + 1), -FI_EINVAL);
  EXPECT_EQ(fi_cntr_adderr(counter.get(), 128), -FI_EINVAL);
  EXPECT_EQ(fi_cntr_seterr(counter.get(), 128), -FI_EINVAL);
  EXPECT_EQ(successes(counter), 0u);
  EXPECT_EQ(failures(counter), 0u);
}

TEST(FiCounter, AddsSetsAndWraps) {
  Loner node;
  const auto counter = node.counter();
  ASSERT_EQ(fi_cntr_set(counter.get(), kMaxSuccess), 0);
  EXPECT_EQ(successes(counter), kMaxSuccess);
  ASSERT_EQ(fi_cntr_adderr(counter.get(), 100), 0);
  EXPECT_EQ(fi_cntr_adderr(counter.get(), 28), -FI_EINVAL);
  EXPECT_EQ(failures(counter), 100u);
  ASSERT_EQ(fi_cntr_add(counter.get(), 3), 0);  // a register of 48 bits
  EXPECT_EQ(successes(counter), 2u);
  ASSERT_EQ(fi_cntr_set(counter.get(), 0), 0);
  EXPECT_EQ(successes(counter), 0u);
  EXPECT_EQ(failures(counter), 100u);  // the other half stays
  ASSERT_EQ(fi_cntr_seterr(counter.get(), 0), 0);
  EXPECT_EQ(failures(counter), 0u);
}

TEST(FiCounter, SettingFiresWhatWaits) {
  Loner node;
  const auto trigger = node.counter(), target = node.counter();
  ASSERT_EQ(defer_counter(node, FI_OP_CNTR_ADD, target.get(), 1, {trigger.get(), 50}), 0);
  ASSERT_EQ(fi_cntr_set(trigger.get(), 49), 0);
  EXPECT_EQ(successes(target), 0u);
  ASSERT_EQ(fi_cntr_set(trigger.get(), 50), 0);
  EXPECT_EQ(successes(target), 1u);
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

TEST(FiCounter, WaitsForValuesErrorsAndTime) {
  const Variable limited("LANYARD_FI_POOL", "enospc"), depth("LANYARD_FI_DWQ_DEPTH", "2");
  Loner node;
  const auto counter = node.counter();
  ASSERT_EQ(fi_cntr_add(counter.get(), 3), 0);
  EXPECT_EQ(fi_cntr_wait(counter.get(), 3, 0), 0);
  EXPECT_EQ(fi_cntr_wait(counter.get(), 4, 1), -FI_ETIMEDOUT);
  std::thread adder([&] {
    breathe();
    fi_cntr_add(counter.get(), 1);
  });
  EXPECT_EQ(fi_cntr_wait(counter.get(), 4, -1), 0);
  adder.join();
  std::thread failer([&] {
    breathe();
    fi_cntr_adderr(counter.get(), 1);
  });
  EXPECT_EQ(fi_cntr_wait(counter.get(), 100, -1), -FI_EAVAIL);
  failer.join();
  // Those that were in vain have left an entry each.
  EXPECT_EQ(fi_cntr_wait(counter.get(), 100, 1), -FI_ETIMEDOUT);
  EXPECT_EQ(fi_cntr_wait(counter.get(), 100, 1), -FI_ENOSPC);
  EXPECT_EQ(node.flush(), 0);
}

TEST(FiCounter, IsWrittenBackOnItsEventsOnly) {
  Loner node;
  alignas(8) uint64_t word = 0;
  uint64_t payload = 1, target = 0;
  const auto landed = node.counter(), trigger = node.counter();
  const auto region = node.region(&target, sizeof target, landed.get());
  const Remote here{0, fi_mr_key(region.get())};
  CounterOps& ops = extensions(trigger);
  EXPECT_EQ(ops.set_wb_buffer(&trigger->fid, &word, 4), -FI_EINVAL);
  EXPECT_EQ(ops.set_wb_buffer(&trigger->fid, reinterpret_cast<std::byte*>(&word) + 1, 8),
            -FI_EINVAL);
  ASSERT_EQ(ops.set_wb_buffer(&trigger->fid, &word, sizeof word), 0);
  const auto written = [&] { return std::atomic_ref<uint64_t>(word).load(); };

  // Neither additions nor work that fires.
  ASSERT_EQ(defer_write(node, &payload, 8, here, {trigger.get(), 1}), 0);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  ASSERT_TRUE(eventually([&] { return successes(landed) == 1; }));
  EXPECT_EQ(written(), 0u);
  fi_cntr_read(trigger.get());
  EXPECT_EQ(written(), kValid | 1);
  // Work that asks for it, at its threshold + 1.
  ASSERT_EQ(defer_write(node, &payload, 8, here, {trigger.get(), 2}, kWriteback), 0);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  ASSERT_TRUE(eventually([&] { return successes(landed) == 2; }));
  EXPECT_EQ(written(), kValid | 1);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return written() == (kValid | 3); }));
  // The first failure, and setting.
  ASSERT_EQ(fi_cntr_adderr(trigger.get(), 2), 0);
  EXPECT_EQ(written(), kValid | uint64_t{2} << 48 | 3);
  ASSERT_EQ(fi_cntr_adderr(trigger.get(), 1), 0);
  EXPECT_EQ(written(), kValid | uint64_t{2} << 48 | 3);
  ASSERT_EQ(fi_cntr_set(trigger.get(), 0), 0);
  EXPECT_EQ(written(), kValid | uint64_t{3} << 48);
  fi_cq_read(node.cq.get(), nullptr, 0);
}

TEST(FiCounter, RegistersAreRefusedUnlessTrapped) {
  Loner node;
  const auto counter = node.counter();
  void* address = nullptr;
  size_t bytes = 0;
  EXPECT_EQ(extensions(counter).get_mmio_addr(&counter->fid, &address, &bytes), -FI_ENOSYS);
}

#if defined(__x86_64__)
TEST(FiCounter, TrappedStoresAreAllCounted) {
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
          *registers = 2;  // a constant, a register, an exchange
        else if (i == 1)
          *registers = static_cast<uint64_t>(store);
        else
          std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(address)).store(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(successes(counter),
            uint64_t{kStores} * (2 + 1) + uint64_t{kStores} * (kStores - 1) / 2);
  registers[8] = 5;
  EXPECT_EQ(failures(counter), 5u);
  registers[16] = 1;  // only zero can be set
  EXPECT_NE(successes(counter), 0u);
  registers[16] = 0;
  EXPECT_EQ(successes(counter), 0u);
  registers[24] = 0;
  EXPECT_EQ(failures(counter), 0u);
  EXPECT_EQ(*registers, 0u);  // reading is no fault, and tells nothing
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

TEST(FiCounter, IsNotClosedWhileItIsNamed) {
  Loner node;
  uint64_t word = 0;
  fid_cntr* counter = nullptr;
  ASSERT_EQ(fi_cntr_open(node.domain.get(), nullptr, &counter, nullptr), 0);
  auto region = node.region(&word, sizeof word, counter);
  EXPECT_EQ(fi_close(&counter->fid), -FI_EBUSY);
  region.reset();
  ASSERT_EQ(defer_counter(node, FI_OP_CNTR_ADD, counter, 1, {counter, 9}), 0);
  EXPECT_EQ(fi_close(&counter->fid), -FI_EBUSY);
  ASSERT_EQ(node.flush(), 0);
  EXPECT_EQ(fi_close(&counter->fid), 0);
  EXPECT_EQ(fi_close(&node.domain->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&node.cq->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&node.av->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&node.fabric->fid), -FI_EBUSY);
}

// ---- Deferred work

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
  fi_op_msg message = {};
  message.ep = node.ep.get();
  fi_deferred_work work = work_of(when, FI_OP_RECV);
  work.op.msg = &message;
  EXPECT_EQ(node.queue(work), -FI_EINVAL);  // receives only at threshold 0
  work.op_type = FI_OP_SEND;
  EXPECT_EQ(node.queue(work), -FI_ENOSYS);
  EXPECT_EQ(fi_control(&node.domain->fid, FI_CANCEL_WORK, &work), -FI_EINVAL);
  // Nothing of all that has left anything behind.
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

TEST(FiWork, DepthIsTold) {
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

TEST(FiWork, EntriesAreCountedWhereTheyAreLimited) {
  const Variable limited("FI_CXI_ENABLE_TRIG_OP_LIMIT", "1"), depth("LANYARD_FI_DWQ_DEPTH", "8");
  Loner node;
  uint64_t one = 1, sum = 0, old = 0;
  const auto trigger = node.counter(), completion = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  const Remote here{0, fi_mr_key(region.get())};
  const When when{trigger.get(), 1, completion.get()};
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < 8; ++i)
      ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, when), 0) << i;
    EXPECT_EQ(defer_atomic(node, {.operand = &one}, here, when), -FI_ENOSPC);
    ASSERT_EQ(node.flush(), 0);
    EXPECT_EQ(successes(completion), 0u);
  }
  // With a writeback two; so does a fetching atomic that is delivered; and both together three.
  ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, when, kWriteback), 0);
  ASSERT_EQ(defer_atomic(node, {.operand = &one, .result = &old}, here, when, FI_DELIVERY_COMPLETE),
            0);
  ASSERT_EQ(defer_atomic(node, {.operand = &one, .result = &old}, here, when,
                         FI_DELIVERY_COMPLETE | kWriteback),
            0);
  EXPECT_EQ(defer_atomic(node, {.operand = &one}, here, when, kWriteback), -FI_ENOSPC);
  ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, when), 0);
  EXPECT_EQ(defer_atomic(node, {.operand = &one}, here, when), -FI_ENOSPC);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 2), 0);
  EXPECT_TRUE(eventually([&] { return successes(completion) == 4; }));
  EXPECT_EQ(sum, 4u);
}

TEST(FiWork, StallsWhereEntriesAreNotLimited) {
  const Variable depth("LANYARD_FI_DWQ_DEPTH", "2");
  Loner node;
  uint64_t one = 1, sum = 0;
  const auto first = node.counter(), second = node.counter(), completion = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  const Remote here{0, fi_mr_key(region.get())};
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {first.get(), 1, completion.get()}), 0);
  // These find no entry. Their condition is met, and yet nothing happens.
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {second.get(), 0, completion.get()}), 0);
  breathe();
  EXPECT_EQ(std::atomic_ref<uint64_t>(sum).load(), 0u);
  // The host's reads stand in the same queue: no new value comes. Registers do not.
  ASSERT_EQ(fi_cntr_add(second.get(), 5), 0);
  EXPECT_EQ(successes(second), 0u);
  ASSERT_EQ(fi_cntr_add(first.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return std::atomic_ref<uint64_t>(sum).load() == 4; }));
  EXPECT_TRUE(eventually([&] { return successes(completion) == 4; }));
  EXPECT_EQ(successes(second), 5u);
}

TEST(FiWork, FlushTakesBackWhatStalls) {
  const Variable depth("LANYARD_FI_DWQ_DEPTH", "1");
  Loner node({.tx_size = 3});
  uint64_t one = 1, sum = 0;
  const auto trigger = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3; ++i)
      ASSERT_EQ(
          defer_atomic(node, {.operand = &one}, {0, fi_mr_key(region.get())}, {trigger.get(), 1}),
          0);
    ASSERT_EQ(node.flush(), 0);
  }
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  breathe();
  EXPECT_EQ(std::atomic_ref<uint64_t>(sum).load(), 0u);
}

TEST(FiWork, SlotsAreHeldUntilTheQueueIsRead) {
  Loner node({.tx_size = 4});
  EXPECT_EQ(node.info->tx_attr->size, 4u);
  uint64_t one = 1, sum = 0;
  const auto trigger = node.counter(), completion = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  const Remote here{0, fi_mr_key(region.get())};
  const auto defer = [&] {
    return defer_atomic(node, {.operand = &one}, here, {trigger.get(), 0, completion.get()});
  };
  for (int i = 0; i < 4; ++i) ASSERT_EQ(defer(), 0);
  ASSERT_TRUE(eventually([&] { return successes(completion) == 4; }));
  EXPECT_EQ(defer(), -FI_EAGAIN);
  EXPECT_EQ(fi_write(node.ep.get(), &one, 8, nullptr, 0, 0, here.key, nullptr), -FI_EAGAIN);
  EXPECT_EQ(fi_cq_read(node.cq.get(), nullptr, 0), -FI_EAGAIN);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(defer(), 0);
  EXPECT_EQ(defer(), -FI_EAGAIN);
  EXPECT_TRUE(eventually([&] { return successes(completion) == 8; }));
}

TEST(FiWork, QueueReportsWhatIsNotSelective) {
  Loner node({.selective = false});
  uint64_t one = 1, sum = 0;
  std::array<int, 3> contexts;
  const auto trigger = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  for (int& context : contexts)
    ASSERT_EQ(
        defer_write(node, &one, 8, {0, fi_mr_key(region.get())}, {trigger.get(), 1}, 0, &context),
        0);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  std::array<fi_cq_msg_entry, 4> entries;
  size_t count = 0;
  EXPECT_TRUE(eventually([&] {
    const ssize_t got = fi_cq_read(node.cq.get(), &entries[count], entries.size() - count);
    if (got > 0) count += static_cast<size_t>(got);
    return count == 3;
  }));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(entries[i].op_context, &contexts[i]);
}

TEST(FiWork, FlushCancelsEveryCounterOfTheDomain) {
  Loner node({.tx_size = 4});
  uint64_t one = 1, sum = 0;
  const auto first = node.counter(), second = node.counter(), completion = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  const Remote here{0, fi_mr_key(region.get())};
  for (const auto* trigger : {&first, &second}) {
    for (int i = 0; i < 2; ++i)
      ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {trigger->get(), 1, completion.get()}),
                0);
  }
  ASSERT_EQ(node.flush(), 0);
  ASSERT_EQ(fi_cntr_add(first.get(), 1), 0);
  ASSERT_EQ(fi_cntr_add(second.get(), 1), 0);
  breathe();
  EXPECT_EQ(std::atomic_ref<uint64_t>(sum).load(), 0u);
  EXPECT_EQ(successes(completion), 0u);
  EXPECT_EQ(failures(completion), 0u);
  // The slots are free.
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {first.get(), 1, completion.get()}), 0);
  EXPECT_TRUE(eventually([&] { return successes(completion) == 4; }));
}

TEST(FiWork, TiesGoByAgeOrAgainstIt) {
  for (const char* ties : {"oldest", "newest"}) {
    const Variable setting("LANYARD_FI_TIES", ties);
    Loner node;
    uint64_t one = 1, two = 2, word = 0;
    const auto trigger = node.counter(), completion = node.counter();
    const auto region = node.region(&word, sizeof word);
    for (const uint64_t* operand : {&one, &two})
      ASSERT_EQ(defer_atomic(node, {.op = FI_ATOMIC_WRITE, .operand = operand},
                             {0, fi_mr_key(region.get())}, {trigger.get(), 1, completion.get()}),
                0);
    ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
    ASSERT_TRUE(eventually([&] { return successes(completion) == 2; }));
    EXPECT_EQ(word, std::string(ties) == "oldest" ? 2u : 1u);
  }
}

TEST(FiWork, FailuresTriggerOrNot) {
  for (const char* failing : {"trigger", "ignored"}) {
    const Variable setting("LANYARD_FI_FAILURES", failing);
    Loner node;
    const auto trigger = node.counter(), target = node.counter();
    ASSERT_EQ(defer_counter(node, FI_OP_CNTR_ADD, target.get(), 1, {trigger.get(), 1}), 0);
    ASSERT_EQ(fi_cntr_adderr(trigger.get(), 1), 0);
    EXPECT_EQ(successes(target), std::string(failing) == "trigger" ? 1u : 0u);
    ASSERT_EQ(node.flush(), 0);
  }
}

TEST(FiWork, AtomicsMayNeedTheEndpointsCounters) {
  const Variable setting("LANYARD_FI_AMO_CNTRS", "required");
  for (const bool bound : {false, true}) {
    uint64_t one = 1, sum = 0;
    Node node({.enable = false});
    const auto trigger = node.counter(), writes = node.counter(), reads = node.counter();
    if (bound) {
      ASSERT_EQ(fi_ep_bind(node.ep.get(), &writes->fid, FI_WRITE), 0);
      ASSERT_EQ(fi_ep_bind(node.ep.get(), &reads->fid, FI_READ), 0);
    }
    ASSERT_EQ(fi_enable(node.ep.get()), 0);
    introduce({&node});
    auto region = node.region(&sum, sizeof sum);
    const Remote here{0, fi_mr_key(region.get())};
    EXPECT_EQ(defer_atomic(node, {.operand = &one}, here, {trigger.get(), 0}),
              bound ? 0 : -FI_EINVAL);
    if (bound) {
      EXPECT_EQ(fi_write(node.ep.get(), &one, 8, nullptr, 0, 0, here.key, nullptr), 0);
      EXPECT_TRUE(eventually([&] { return successes(writes) == 1; }));
      EXPECT_EQ(successes(reads), 0u);
    }
    region.reset();
    node.ep.reset();  // before the counters that are bound to it
  }
}

// ---- Regions

TEST(FiRegion, IsEnabledInOrder) {
  Loner node({.enable = false});
  uint64_t word = 0;
  const auto counter = node.counter();
  auto region = node.raw_region(&word, sizeof word);
  EXPECT_EQ(fi_mr_key(region.get()), FI_KEY_NOTAVAIL);
  EXPECT_EQ(fi_mr_enable(region.get()), -FI_EINVAL);                  // not bound
  EXPECT_EQ(fi_mr_bind(region.get(), &node.ep->fid, 0), -FI_EINVAL);  // not enabled
  ASSERT_EQ(fi_enable(node.ep.get()), 0);
  ASSERT_EQ(fi_mr_bind(region.get(), &node.ep->fid, 0), 0);
  EXPECT_EQ(fi_mr_bind(region.get(), &node.ep->fid, 0), -FI_EINVAL);  // twice
  EXPECT_EQ(fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_READ), -FI_EINVAL);
  ASSERT_EQ(fi_mr_enable(region.get()), 0);
  EXPECT_NE(fi_mr_key(region.get()), FI_KEY_NOTAVAIL);
  EXPECT_EQ(fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_WRITE), -FI_EINVAL);  // too late
  fid_ep* endpoint = node.ep.get();
  EXPECT_EQ(fi_close(&endpoint->fid), -FI_EBUSY);
}

TEST(FiRegion, CountsOnlyWhereEventsWereAskedFor) {
  Loner node({.caps = FI_RMA | FI_ATOMIC | FI_TRIGGER});
  uint64_t word = 0;
  const auto counter = node.counter();
  const auto region = node.raw_region(&word, sizeof word);
  ASSERT_EQ(fi_mr_bind(region.get(), &node.ep->fid, 0), 0);
  EXPECT_EQ(fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_WRITE), -FI_EINVAL);
}

TEST(FiRegion, LocalMemoryIsNoTarget) {
  Loner node;
  uint64_t word = 1, target = 0;
  const auto trigger = node.counter(), completion = node.counter();
  fid_mr* local = nullptr;
  ASSERT_EQ(
      fi_mr_reg(node.domain.get(), &target, sizeof target, FI_WRITE, 0, 0, 0, &local, nullptr), 0);
  const Owned<fid_mr> region(local);
  ASSERT_EQ(fi_mr_bind(local, &node.ep->fid, 0), 0);
  ASSERT_EQ(fi_mr_enable(local), 0);
  ASSERT_EQ(
      defer_write(node, &word, 8, {0, fi_mr_key(local)}, {trigger.get(), 0, completion.get()}), 0);
  EXPECT_TRUE(eventually([&] { return failures(completion) == 1; }));
  EXPECT_EQ(target, 0u);
}

TEST(FiRegion, UsersMayChooseKeys) {
  Loner node({.mr_mode = FI_MR_ENDPOINT});
  uint64_t word = 6, target = 0;
  const auto trigger = node.counter(), landed = node.counter();
  constexpr uint64_t kKey = UINT32_MAX - 5;
  EXPECT_EQ(node.info->domain_attr->mr_key_size, 4u);
  auto region = node.region(&target, sizeof target, landed.get(), kKey);
  EXPECT_EQ(fi_mr_key(region.get()), kKey);
  ASSERT_EQ(defer_write(node, &word, 8, {0, kKey}, {trigger.get(), 0}), 0);
  EXPECT_TRUE(eventually([&] { return successes(landed) == 1; }));
  EXPECT_EQ(target, 6u);
  const auto second = node.raw_region(&word, sizeof word, kKey);
  ASSERT_EQ(fi_mr_bind(second.get(), &node.ep->fid, 0), 0);
  EXPECT_EQ(fi_mr_enable(second.get()), -FI_EADDRINUSE);
  region.reset();
  EXPECT_EQ(fi_mr_enable(second.get()), 0);
  fid_mr* large = nullptr;
  EXPECT_EQ(fi_mr_reg(node.domain.get(), &word, 8, FI_REMOTE_WRITE, 0, uint64_t{1} << 40, 0, &large,
                      nullptr),
            -FI_EINVAL);
}

TEST(FiAddresses, AreCompleteOnceUsed) {
  Node a, b, c;
  introduce({&a, &b});
  introduce({&c});
  const std::vector<std::byte> late = Node::name_of(c.ep.get());
  fi_addr_t place = 0;
  EXPECT_EQ(fi_av_insert(a.av.get(), late.data(), 1, &place, 0, nullptr), 0);
  EXPECT_EQ(place, FI_ADDR_NOTAVAIL);
  // Without its own address a node does nothing.
  Node d;
  ASSERT_EQ(fi_av_insert(d.av.get(), late.data(), 1, &place, 0, nullptr), 1);
  uint64_t word = 0;
  EXPECT_EQ(fi_write(d.ep.get(), &word, 8, nullptr, place, 0, 1, nullptr), -FI_EOPBADSTATE);
}

TEST(FiSettings, MistakesAreNoDomain) {
  const Info info = get_info({});
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"LANYARD_FI_DWQ_DEPTH", "0"},
                                                                  {"LANYARD_FI_CNTR_READ", "often"},
                                                                  {"LANYARD_FI_POOL", "deep"},
                                                                  {"LANYARD_FI_MMIO", "yes"},
                                                                  {"LANYARD_FI_TIES", ""},
                                                                  {"LANYARD_SIM_WIRE", "string"}}) {
    const Variable wrong(name, value);
    EXPECT_EQ(get_info({}), nullptr) << name;
    fid_fabric* fabric = nullptr;
    ASSERT_EQ(fi_fabric(info->fabric_attr, &fabric, nullptr), 0);
    const Owned<fid_fabric> owned(fabric);
    fid_domain* domain = nullptr;
    EXPECT_EQ(fi_domain(fabric, info.get(), &domain, nullptr), -FI_EINVAL) << name;
  }
}

}  // namespace
}  // namespace lanyard
