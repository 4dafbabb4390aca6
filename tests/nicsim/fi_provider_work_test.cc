// The simulated provider's deferred work under CXI's rules (nicsim/fi/README.md): refusals,
// exhaustion, slots, flush.
#include <array>
#include <atomic>

#include "tests/nicsim/fi_harness.h"

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

TEST(FiWork, TheEntryLimitIsEnforced) {
  const Variable limited("FI_CXI_ENABLE_TRIG_OP_LIMIT", "1"), depth("LANYARD_FI_DWQ_DEPTH", "8");
  Loner node;
  uint64_t one = 1, sum = 0;
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
  // Work that has fired holds no entry.
  ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, when), 0);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return successes(completion) == 1; }));
  EXPECT_EQ(sum, 1u);
  for (int i = 0; i < 8; ++i)
    ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {trigger.get(), 2, completion.get()}), 0) << i;
  EXPECT_EQ(defer_atomic(node, {.operand = &one}, here, {trigger.get(), 2, completion.get()}), -FI_ENOSPC);
}

// FI_CXI_ENABLE_TRIG_OP_LIMIT takes any spelling of libfabric's booleans; other values
// keep the default.
TEST(FiWork, TheLimitIsABoolean) {
  const Variable depth("LANYARD_FI_DWQ_DEPTH", "1");
  const std::string limiting = "yes true ON 1 ";
  for (const std::string word : {"yes", "true", "ON", "1", "no", "False", "off", "0", "perhaps"}) {
    const Variable limit("FI_CXI_ENABLE_TRIG_OP_LIMIT", word);
    Loner node;
    uint64_t one = 1, sum = 0;
    const auto trigger = node.counter();
    const auto region = node.region(&sum, sizeof sum);
    const Remote here{0, fi_mr_key(region.get())};
    ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {trigger.get(), 1}), 0);
    const bool limited = limiting.find(word + " ") != std::string::npos;
    EXPECT_EQ(defer_atomic(node, {.operand = &one}, here, {trigger.get(), 1}), limited ? -FI_ENOSPC : 0) << word;
  }
}

TEST(FiWork, StallsWithoutAnEntryLimit) {
  const Variable depth("LANYARD_FI_DWQ_DEPTH", "2");
  Loner node;
  uint64_t one = 1, sum = 0;
  const auto first = node.counter(), second = node.counter(), completion = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  const Remote here{0, fi_mr_key(region.get())};
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {first.get(), 1, completion.get()}), 0);
  // These find no free entry: nothing happens although their threshold is reached.
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {second.get(), 0, completion.get()}), 0);
  breathe();
  EXPECT_EQ(std::atomic_ref<uint64_t>(sum).load(), 0u);
  // The host's reads wait in the same queue and show no new value. Registers do not wait there.
  ASSERT_EQ(fi_cntr_add(second.get(), 5), 0);
  EXPECT_EQ(successes(second), 0u);
  ASSERT_EQ(fi_cntr_add(first.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return std::atomic_ref<uint64_t>(sum).load() == 4; }));
  EXPECT_TRUE(eventually([&] { return successes(completion) == 4; }));
  EXPECT_EQ(successes(second), 5u);
}

TEST(FiWork, SlotsAreHeldUntilTheQueueIsRead) {
  Loner node({.tx_size = 4});
  EXPECT_EQ(node.info->tx_attr->size, 4u);
  uint64_t one = 1, sum = 0;
  const auto trigger = node.counter(), completion = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  const Remote here{0, fi_mr_key(region.get())};
  const auto defer = [&] { return defer_atomic(node, {.operand = &one}, here, {trigger.get(), 0, completion.get()}); };
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(defer(), 0);
  ASSERT_TRUE(eventually([&] { return successes(completion) == 4; }));
  EXPECT_EQ(defer(), -FI_EAGAIN);
  EXPECT_EQ(write_word(node.ep.get(), &one, here), -FI_EAGAIN);
  EXPECT_EQ(fi_cq_read(node.cq.get(), nullptr, 0), -FI_EAGAIN);
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(defer(), 0);
  EXPECT_EQ(defer(), -FI_EAGAIN);
  EXPECT_TRUE(eventually([&] { return successes(completion) == 8; }));
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

TEST(FiWork, FlushCancelsEveryCounterOfTheDomain) {
  Loner node({.tx_size = 4});
  uint64_t one = 1, sum = 0;
  const auto first = node.counter(), second = node.counter(), completion = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  const Remote here{0, fi_mr_key(region.get())};
  for (const auto* trigger : {&first, &second}) {
    for (int i = 0; i < 2; ++i)
      ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {trigger->get(), 1, completion.get()}), 0);
  }
  ASSERT_EQ(node.flush(), 0);
  ASSERT_EQ(fi_cntr_add(first.get(), 1), 0);
  ASSERT_EQ(fi_cntr_add(second.get(), 1), 0);
  breathe();
  EXPECT_EQ(std::atomic_ref<uint64_t>(sum).load(), 0u);
  EXPECT_EQ(successes(completion), 0u);
  EXPECT_EQ(failures(completion), 0u);
  // All slots are free.
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {first.get(), 1, completion.get()}), 0);
  EXPECT_TRUE(eventually([&] { return successes(completion) == 4; }));
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
  uint64_t one = 1, sum = 0;
  Loner node({.counts = false});
  const auto trigger = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  EXPECT_EQ(defer_atomic(node, {.operand = &one}, {0, fi_mr_key(region.get())}, {trigger.get(), 0}), -FI_EINVAL);
}

}  // namespace
}  // namespace lanyard
