// The NIC contract: counters that a device copies to memory (N10).
#ifndef LANYARD_TESTS_NIC_CONTRACT_WORDS_H_
#define LANYARD_TESTS_NIC_CONTRACT_WORDS_H_

#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

// A deferred operation that completes on its own trigger and has it copied.
inline DeferredOp copied(CounterId counter, uint64_t threshold, Op op) {
  op.completion = counter;
  op.write_back = true;
  return when(counter, threshold, op);
}

inline uint64_t* word_of(Memory& memory) { return reinterpret_cast<uint64_t*>(memory.data()); }

TEST_P(NicContract, N10_AWordHoldsTheCounterFromTheBeginning) {
  if (!start() || !needs(nic().caps().counter_write_back, "counter_write_back"))
    return;
  Memory& word = memory(0, 8);
  const CounterId c = counter();
  add(c, 5);
  ASSERT_TRUE(reaches(c, 5));
  EXPECT_TRUE(is_ok(nic().set_word(c, word_of(word))));
  EXPECT_EQ(nic::from_word(word.load()), (CounterValue{5, 0}));
  EXPECT_NE(word.load() & nic::kWrittenBack, 0u);
  add(c, 1);
  ASSERT_TRUE(reaches(c, 6)) << "which reads it";
  EXPECT_TRUE(eventually([&] { return word.load() == nic::to_word({6, 0}); }));
  EXPECT_TRUE(is_ok(nic().add_error(c, 2)));
  EXPECT_TRUE(eventually([&] { return word.load() == nic::to_word({6, 2}); })) << "the first failure";
}

TEST_P(NicContract, N10_AnOperationHasItsCounterCopiedWhenItHasCompleted) {
  if (!start() || !needs(nic().caps().counter_write_back, "counter_write_back"))
    return;
  Memory& word = memory(0, 8);
  constexpr uint64_t kTimes = 50;
  Memory& one = memory(0, 8);
  one.store(1);
  Memory& target = memory(1, 8);
  const CounterId c = counter();
  EXPECT_TRUE(is_ok(nic().set_word(c, word_of(word))));
  for (uint64_t i = 1; i <= kTimes; ++i) {
    post(copied(c, 2 * i - 1, sum_op(one, 0, target, 0)));
    settle(std::chrono::milliseconds(1));
    EXPECT_LT(nic::from_word(word.load()).success, 2 * i);
    add(c, 1);
    ASSERT_TRUE(eventually([&] { return word.load() == nic::to_word({2 * i, 0}); }));
    EXPECT_EQ(target.load(), i);
  }
  EXPECT_TRUE(all_free());
}

// A later copy never holds less, whatever else is copied meanwhile.
TEST_P(NicContract, N10_WordsOnlyGrow) {
  if (!start() || !needs(nic().caps().counter_write_back, "counter_write_back"))
    return;
  Memory& word = memory(0, 8);
  constexpr uint64_t kTimes = 1'000;
  Memory& one = memory(0, 8);
  one.store(1);
  Memory& target = memory(1, 8);
  const CounterId c = counter();
  EXPECT_TRUE(is_ok(nic().set_word(c, word_of(word))));
  uint64_t last = word.load(), posted = 0;
  while (nic::from_word(word.load()).success < 2 * kTimes) {
    if (posted < kTimes && nic().free_entries() > 1 + nic().caps().write_back_entries) {
      post(copied(c, 2 * posted + 1, sum_op(one, 0, target, 0)));
      add(c, 1);
      ++posted;
    }
    (void)value(c);
    for (size_t rank = 0; rank < size(); ++rank)
      nic(rank).progress();
    const uint64_t now = word.load();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_TRUE(eventually([&] { return word.load() == nic::to_word({2 * kTimes, 0}); }));
}

TEST_P(NicContract, N10_ACounterThatAnOperationSetsIsCopied) {
  if (!start() || !needs(nic().caps().counter_write_back, "counter_write_back") ||
      !needs(nic().caps().deferred_counter_ops, "deferred_counter_ops"))
    return;
  Memory& word = memory(0, 8);
  const CounterId c = counter();
  const CounterId trigger = counter();
  add(c, 9);
  EXPECT_TRUE(is_ok(nic().set_word(c, word_of(word))));
  post(when(trigger, 1, counter_op(OpKind::kCounterSet, c, 5)));
  add(trigger, 1);
  EXPECT_TRUE(eventually([&] { return word.load() == nic::to_word({5, 0}); })) << "deferred";
  issue(counter_op(OpKind::kCounterSet, c, 70));
  EXPECT_TRUE(eventually([&] { return word.load() == nic::to_word({70, 0}); })) << "issued";
}

TEST_P(NicContract, N10_AFailureIsCopiedToo) {
  if (!start() || !needs(nic().caps().counter_write_back, "counter_write_back"))
    return;
  Memory& word = memory(0, 8);
  Memory& one = memory(0, 8);
  Memory& target = memory(1, 8);
  const CounterId c = counter();
  EXPECT_TRUE(is_ok(nic().set_word(c, word_of(word))));
  Op op = sum_op(one, 0, target, 0);
  op.remote.key = nic::RemoteKey{op.remote.key.value + 0x5000000};
  post(copied(c, 1, op));
  add(c, 1);
  EXPECT_TRUE(eventually([&] { return word.load() == nic::to_word({1, 1}); }));
}

TEST_P(NicContract, N9_BadWordsAreRefused) {
  if (!start() || !needs(nic().caps().counter_write_back, "counter_write_back"))
    return;
  Memory& word = memory(0, 8);
  word.store(7);
  const CounterId c = counter();
  refused({Code::kInvalidArgument}, "a null word", [&] { return nic().set_word(c, nullptr); });
  auto* crooked = reinterpret_cast<uint64_t*>(word.data() + 4);
  refused({Code::kInvalidArgument}, "a misaligned word", [&] { return nic().set_word(c, crooked); });
  refused({Code::kNotFound}, "no counter", [&] { return nic().set_word(CounterId{}, word_of(word)); });
  EXPECT_EQ(word.load(), 7u);
  Memory& one = memory(0, 8);
  Memory& target = memory(1, 8);
  const DeferredOp without = copied(c, 1, sum_op(one, 0, target, 0));
  refused({Code::kInvalidArgument}, "a counter without a word", [&] { return nic().post({&without, 1}); });
  EXPECT_TRUE(is_ok(nic().set_word(c, word_of(word))));
  Memory& another = memory(0, 8);
  refused({Code::kInvalidState}, "a second word", [&] { return nic().set_word(c, word_of(another)); });
  DeferredOp elsewhere = without;
  elsewhere.trigger = counter();
  refused({Code::kInvalidArgument}, "another trigger", [&] { return nic().post({&elsewhere, 1}); });
  EXPECT_TRUE(is_ok(nic().issue(without.op)));
  EXPECT_TRUE(eventually([&] { return word.load() == nic::to_word({1, 0}); }));
  EXPECT_TRUE(is_ok(nic().close_counter(c)));
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_WORDS_H_
