// The NIC contract: counters, thresholds, and which entry fires when (N1, N2).
#ifndef LANYARD_TESTS_NIC_CONTRACT_COUNTERS_H_
#define LANYARD_TESTS_NIC_CONTRACT_COUNTERS_H_

#include <limits>

#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

// ---- The counter itself

TEST_P(NicContract, Counter_AddErrorResetCycles) {
  const CounterId a = counter();
  const CounterId b = counter();
  const CounterId elsewhere = counter(1);
  EXPECT_EQ(value(a), (CounterValue{0, 0}));
  for (uint64_t cycle = 1; cycle <= 20; ++cycle) {
    add(a, cycle);
    add(a, 0);
    EXPECT_TRUE(works(nic().add_error(a, 3)));
    EXPECT_TRUE(works(nic().add_error(a, 0)));
    add(a, 1);
    ASSERT_TRUE(reaches(a, {cycle + 1, 3}));
    EXPECT_EQ(value(a).reached(), cycle + 4);
    EXPECT_TRUE(works(nic().reset(a)));
    ASSERT_TRUE(reaches(a, {0, 0}));
  }
  add(b, 7);
  EXPECT_TRUE(reaches(b, 7));
  settle();
  EXPECT_EQ(value(a), (CounterValue{0, 0})) << "another counter's";
  EXPECT_EQ(value(elsewhere, 1), (CounterValue{0, 0})) << "another NIC's";
}

// Range errors at both limits (N9: they change nothing).
TEST_P(NicContract, N9_CounterRangeIs48And7Bits) {
  const CounterId c = counter();
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  refused({Code::kInvalidArgument}, "2^48 on 0", [&] { return nic().add(c, kMaxSuccess + 1); });
  refused({Code::kInvalidArgument}, "2^64-1 on 0", [&] { return nic().add(c, kHuge); });
  refused({Code::kInvalidArgument}, "128 errors", [&] { return nic().add_error(c, kMaxFailure + 1); });
  refused({Code::kInvalidArgument}, "2^32-1 errors", [&] { return nic().add_error(c, UINT32_MAX); });

  add(c, kMaxSuccess - 1);
  EXPECT_TRUE(reaches(c, {kMaxSuccess - 1, 0}));
  refused({Code::kInvalidArgument}, "one more than fits", [&] { return nic().add(c, 2); });
  refused({Code::kInvalidArgument}, "a sum past 64 bits", [&] { return nic().add(c, kHuge - 1); });
  add(c, 1);
  EXPECT_TRUE(works(nic().add_error(c, kMaxFailure - 1)));
  EXPECT_TRUE(reaches(c, {kMaxSuccess, kMaxFailure - 1}));
  refused({Code::kInvalidArgument}, "two errors", [&] { return nic().add_error(c, 2); });
  refused({Code::kInvalidArgument}, "UINT32_MAX errors", [&] { return nic().add_error(c, UINT32_MAX); });
  EXPECT_TRUE(works(nic().add_error(c, 1)));
  EXPECT_TRUE(reaches(c, {kMaxSuccess, kMaxFailure}));
  refused({Code::kInvalidArgument}, "success is full", [&] { return nic().add(c, 1); });
  refused({Code::kInvalidArgument}, "failure is full", [&] { return nic().add_error(c, 1); });
  EXPECT_TRUE(works(nic().reset(c)));
  EXPECT_TRUE(reaches(c, {0, 0}));
}

TEST_P(NicContract, Counter_IdsComeBackClean) {
  const CounterId kept = counter();
  add(kept, 5);
  for (int cycle = 0; cycle < 200; ++cycle) {
    const CounterId c = counter();
    ASSERT_TRUE(c.valid());
    ASSERT_NE(c, kept);
    ASSERT_EQ(value(c), (CounterValue{0, 0})) << "cycle " << cycle;
    add(c, 9);
    ASSERT_TRUE(works(nic().add_error(c, 2)));
    ASSERT_TRUE(works(close(c)));
    ASSERT_EQ(nic().read(c).status().code(), Code::kNotFound);
  }
  EXPECT_TRUE(reaches(kept, 5));
}

// ---- N1: when

// Thresholds that a comparison in 7, 16, 32 or 47 bits would get wrong.
inline const std::vector<uint64_t>& telling_thresholds() {
  static const std::vector<uint64_t> thresholds = {
      1, 2, 3, 127, 128, 129, 65536, 0x8000'0001, 0x1'0000'0000, 0x1'0000'0001, uint64_t{1} << 47, kMaxSuccess};
  return thresholds;
}

TEST_P(NicContract, N1_NothingFiresEarly) {
  struct Case {
    CounterId trigger, done;
    uint64_t threshold;
  };
  Memory& one = word(0, 1);
  Memory& target = memory(1, 8 * telling_thresholds().size());
  std::vector<Case> cases;
  for (uint64_t threshold : telling_thresholds()) {
    const Case c = {counter(), counter(), threshold};
    cases.push_back(c);
    post(when(c.trigger, threshold, sum_op(one, 0, target, 8 * (cases.size() - 1), c.done)));
    add(c.trigger, threshold - 1);
  }
  settle();
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(target.load(8 * i), 0u) << "fired at threshold - 1: " << cases[i].threshold;
    EXPECT_EQ(value(cases[i].done), (CounterValue{0, 0}));
    EXPECT_TRUE(reaches(cases[i].trigger, cases[i].threshold - 1));
  }
  EXPECT_EQ(nic().free_entries(), depth() - cases.size());
  for (const Case& c : cases)
    add(c.trigger, 1);
  for (size_t i = 0; i < cases.size(); ++i) {
    ASSERT_TRUE(reaches(cases[i].done, 1)) << "threshold " << cases[i].threshold;
    EXPECT_EQ(target.load(8 * i), 1u);
  }
  EXPECT_TRUE(all_free());
}

TEST_P(NicContract, N1_AlreadyMetFiresAtOnce) {
  Memory& one = word(0, 1);
  Memory& target = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId done = counter();
  post(when(trigger, 0, sum_op(one, 0, target, 0, done)));
  ASSERT_TRUE(reaches(done, 1)) << "threshold 0 is met by any counter";
  add(trigger, 5);
  ASSERT_TRUE(reaches(trigger, 5));
  for (uint64_t threshold = 0; threshold <= 5; ++threshold)
    post(when(trigger, threshold, sum_op(one, 0, target, 0, done)));
  ASSERT_TRUE(reaches(done, 7));
  post(when(trigger, 6, sum_op(one, 0, target, 0, done)));
  settle();
  EXPECT_EQ(value(done), (CounterValue{7, 0})) << "exactly once each, and none above the count";
  EXPECT_EQ(target.load(), 7u);
  EXPECT_EQ(nic().free_entries(), depth() - 1);
}

// Increments of more than one pass a threshold without equalling it.
TEST_P(NicContract, N1_LargeIncrementsFireEachOnce) {
  Memory& ones = memory(0, 8 * 5);
  Memory& target = memory(1, 8);
  for (size_t i = 0; i < 5; ++i)
    ones.store(uint64_t{1} << (8 * i), 8 * i);
  for (const std::vector<uint64_t>& increments :
       std::vector<std::vector<uint64_t>>{{5}, {1000}, {2, 2, 2}, {3, 7}, {1, 1, 1, 1, 1}}) {
    target.store(0);
    const CounterId trigger = counter();
    const CounterId done = counter();
    for (size_t i = 0; i < 5; ++i)
      post(when(trigger, i + 1, sum_op(ones, 8 * i, target, 0, done)));
    for (uint64_t increment : increments)
      add(trigger, increment);
    ASSERT_TRUE(reaches(done, 5)) << increments.size() << " increments";
    for (int more = 0; more < 5; ++more)
      add(trigger, 5);
    settle();
    EXPECT_EQ(value(done), (CounterValue{5, 0})) << "no entry fires again";
    EXPECT_EQ(target.load(), 0x0101010101u);
    EXPECT_TRUE(works(close(trigger)));
    EXPECT_TRUE(works(close(done)));
  }
  EXPECT_TRUE(all_free());
}

// Thresholds compare with success + failure.
TEST_P(NicContract, N1_FailuresCountTowardsTheThreshold) {
  Memory& one = word(0, 1);
  Memory& target = memory(1, 8);
  struct Mix {
    uint64_t success;
    uint32_t failure;
  };
  for (Mix mix : {Mix{0, 1}, Mix{1, 2}, Mix{2, 1}, Mix{0, 127}, Mix{kMaxSuccess - 1, 1}}) {
    const CounterId trigger = counter();
    const CounterId done = counter();
    const uint64_t threshold = mix.success + mix.failure;
    post(when(trigger, threshold, sum_op(one, 0, target, 0, done)));
    add(trigger, mix.success);
    EXPECT_TRUE(works(nic().add_error(trigger, mix.failure - 1)));
    settle();
    EXPECT_EQ(value(done), (CounterValue{0, 0})) << "fired early";
    EXPECT_TRUE(works(nic().add_error(trigger, 1)));
    ASSERT_TRUE(reaches(done, 1)) << mix.success << " + " << mix.failure;
    // The same if the condition already holds when the entry is posted.
    post(when(trigger, threshold, sum_op(one, 0, target, 0, done)));
    ASSERT_TRUE(reaches(done, 2)) << mix.success << " + " << mix.failure;
    EXPECT_TRUE(works(close(trigger)));
    EXPECT_TRUE(works(close(done)));
  }
}

TEST_P(NicContract, N1_ResetKeepsWaitingEntries) {
  Memory& one = word(0, 1);
  Memory& target = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId done = counter();
  post(when(trigger, 3, sum_op(one, 0, target, 0, done)));
  for (int cycle = 0; cycle < 5; ++cycle) {
    add(trigger, 1);
    EXPECT_TRUE(works(nic().add_error(trigger, 1)));
    EXPECT_TRUE(works(nic().reset(trigger)));
  }
  add(trigger, 2);
  settle();
  EXPECT_EQ(value(done), (CounterValue{0, 0})) << "a reset removes earlier counts";
  EXPECT_EQ(nic().free_entries(), depth() - 1);
  add(trigger, 1);
  ASSERT_TRUE(reaches(done, 1));
  EXPECT_TRUE(works(nic().reset(trigger)));
  add(trigger, 3);
  settle();
  EXPECT_EQ(value(done), (CounterValue{1, 0}));
  EXPECT_EQ(target.load(), 1u);
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_COUNTERS_H_
