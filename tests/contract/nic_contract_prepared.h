// The NIC contract: operations that are prepared once and posted many times (N14).
#ifndef LANYARD_TESTS_NIC_CONTRACT_PREPARED_H_
#define LANYARD_TESTS_NIC_CONTRACT_PREPARED_H_

#include <set>

#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

// Every start of it is an entry like another: it waits for its own trigger and threshold, and completes.
TEST_P(NicContract, N14_IsPostedAgainAndAgain) {
  if (!start({.deferred_depth = 8}))
    return;
  constexpr uint64_t kStarts = 100;
  Memory& source = memory(0, 64);
  Memory& target = memory(1, 64);
  Memory& one = memory(0, 8);
  Memory& sum = memory(1, 8);
  one.store(1);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const PreparedId write = prepare(write_op(source, 0, target, 0, 64, done));
  const PreparedId atomic = prepare(sum_op(one, 0, sum, 0, done));
  EXPECT_EQ(nic().free_entries(), depth()) << "to prepare takes no entry";
  for (uint64_t i = 1; i <= kStarts; ++i) {
    source.fill(i, 0, 64);
    const Posting both[] = {{write, trigger, 2 * i - 1, i}, {atomic, trigger, 2 * i, i}};
    post_prepared(both);
    EXPECT_EQ(nic().free_entries(), depth() - 2);
    add(trigger, 1);
    ASSERT_TRUE(reaches(done, 2 * i - 1)) << "the write alone";
    EXPECT_TRUE(target.holds(i, 0, 64)) << "start " << i;
    EXPECT_EQ(sum.load(), i - 1);
    add(trigger, 1);
    ASSERT_TRUE(reaches(done, 2 * i));
    EXPECT_EQ(sum.load(), i);
    ASSERT_TRUE(all_free());
  }
}

// One operation may wait several times over, for different counters and thresholds.
TEST_P(NicContract, N14_EachPostingHasItsOwnTriggerAndThreshold) {
  if (!start())
    return;
  Memory& one = memory(0, 8);
  Memory& sum = memory(1, 8);
  one.store(1);
  const CounterId first = counter();
  const CounterId second = counter();
  const CounterId done = counter();
  const PreparedId atomic = prepare(sum_op(one, 0, sum, 0, done));
  const Posting postings[] = {{atomic, first, 3}, {atomic, second, 1}, {atomic, first, 1}, {atomic, first, 0}};
  post_prepared(postings);
  ASSERT_TRUE(reaches(done, 1)) << "what is met at once";
  add(second, 1);
  ASSERT_TRUE(reaches(done, 2));
  add(first, 1);
  ASSERT_TRUE(reaches(done, 3));
  add(first, 1);
  settle();
  EXPECT_EQ(value(done), (CounterValue{3, 0}));
  add(first, 1);
  ASSERT_TRUE(reaches(done, 4));
  EXPECT_EQ(sum.load(), 4u);
}

// All places or none, and among entries that were posted whole (N2, N6).
TEST_P(NicContract, N14_BatchesAreAllOrNothing) {
  if (!start({.deferred_depth = 8}))
    return;
  Memory& one = memory(0, 8);
  Memory& sum = memory(1, 8);
  one.store(1);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const PreparedId atomic = prepare(sum_op(one, 0, sum, 0, done));
  const auto batch = [&](size_t count) { return std::vector<Posting>(count, Posting{atomic, trigger, 1}); };
  refused({Code::kExhausted}, "depth + 1", [&] { return nic().post_prepared(batch(depth() + 1)); });
  post(when(trigger, 1, sum_op(one, 0, sum, 0, done)));
  refused({Code::kAgain}, "one more than is free", [&] { return nic().post_prepared(batch(depth())); });
  EXPECT_TRUE(is_ok(nic().post_prepared({}))) << "nothing always fits";
  post_prepared(batch(depth() - 1));
  EXPECT_EQ(nic().free_entries(), 0u);
  std::vector<Posting> mixed = batch(2);
  mixed[1].prepared.generation += 2;
  refused({Code::kNotFound}, "a batch with a bad one", [&] { return nic().post_prepared(mixed); });
  add(trigger, 1);
  ASSERT_TRUE(reaches(done, depth()));
  ASSERT_TRUE(reaches(trigger, 1)) << "reads may lag";
  ASSERT_TRUE(all_free());
  EXPECT_EQ(sum.load(), depth());
  refused({Code::kNotFound}, "a batch with a bad one", [&] { return nic().post_prepared(mixed); });
  EXPECT_EQ(nic().free_entries(), depth()) << "and takes nothing";
}

// What was posted goes on to its end though its operation has been given back, and whatever takes that one's place.
TEST_P(NicContract, N14_WhatWasPostedOutlivesTheRelease) {
  if (!start())
    return;
  Memory& source = memory(0, 16);
  Memory& target = memory(1, 16);
  Memory& other = memory(1, 16);
  source.fill(1, 0, 16);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const PreparedId first = prepare(write_op(source, 0, target, 0, 16, done));
  post_prepared({first, trigger, 1});
  release(first);
  refused({Code::kInvalidState}, "the region of an entry", [&] { return nic().deregister_region(source.region); });
  refused({Code::kInvalidState}, "the counter of an entry", [&] { return nic().close_counter(done); });
  const PreparedId second = prepare(write_op(source, 0, other, 0, 16, done));
  EXPECT_FALSE(second == first) << "ids are not used again";
  add(trigger, 1);
  ASSERT_TRUE(reaches(done, 1));
  EXPECT_TRUE(target.holds(1, 0, 16));
  EXPECT_TRUE(other.is_zero(0, 16));
  post_prepared({second, trigger, 2});
  add(trigger, 1);
  ASSERT_TRUE(reaches(done, 2));
  EXPECT_TRUE(other.holds(1, 0, 16));
}

// What it names stays open until it is given back: no start need look whether it is.
TEST_P(NicContract, N14_HoldsWhatItNames) {
  if (!start())
    return;
  Memory& source = memory(0, 8);
  Memory& target = memory(1, 8);
  source.store(2);
  target.store(40);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const PreparedId prepared = prepare(sum_op(source, 0, target, 0, done));
  const auto is_held = [&](const char* what, auto call) { refused({Code::kInvalidState}, what, call); };
  is_held("the completion counter", [&] { return nic().close_counter(done); });
  is_held("the operand's region", [&] { return nic().deregister_region(source.region); });
  EXPECT_TRUE(is_ok(close(trigger))) << "a trigger belongs to postings";
  const CounterId later = counter();
  post_prepared({prepared, later, 1});
  add(later, 1);
  ASSERT_TRUE(reaches(done, 1));
  EXPECT_EQ(target.load(), 42u);
  release(prepared);
  EXPECT_TRUE(eventually([&] { return close(done).ok(); }));
  EXPECT_TRUE(eventually([&] { return nic().deregister_region(source.region).ok(); }));
}

TEST_P(NicContract, N14_RefusesWhatIsNotPrepared) {
  if (!start())
    return;
  Memory& one = memory(0, 8);
  Memory& sum = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const CounterId closed = counter();
  EXPECT_TRUE(is_ok(close(closed)));
  const Op op = sum_op(one, 0, sum, 0, done);
  const PreparedId live = prepare(op);
  const PreparedId released = prepare(op);
  release(released);
  refuse_posting({Code::kNotFound}, "no trigger", {live, {}, 1});
  refuse_posting({Code::kNotFound}, "a closed trigger", {live, closed, 1});
  refuse_posting({Code::kInvalidArgument}, "49 bits", {live, trigger, kMaxSuccess + 1});
  refused({Code::kNotFound}, "to release it twice", [&] { return nic().release(released); });
  refused({Code::kNotFound}, "to release none", [&] { return nic().release({}); });
  refuse_posting({Code::kNotFound}, "none", {{}, trigger, 1});
  refuse_posting({Code::kNotFound}, "a released one", {released, trigger, 1});
  refuse_posting({Code::kNotFound}, "one that never was", {{live.index + 1'000'000, live.generation}, trigger, 1});
  for (const uint32_t generation : {0u, live.generation - 1, live.generation + 1, live.generation + 2})
    refuse_posting({Code::kNotFound}, "another in its place", {{live.index, generation}, trigger, 1});
  // What takes the released one's place does not answer to its name.
  const PreparedId next = prepare(op);
  refuse_posting({Code::kNotFound}, "the released one still", {released, trigger, 1});
  refused({Code::kNotFound}, "nor is it released", [&] { return nic().release(released); });
  for (const PreparedId id : {live, next})
    post_prepared({id, trigger, 1});
  add(trigger, 1);
  EXPECT_TRUE(reaches(done, 2));
  EXPECT_EQ(nic(1).release(live).code(), Code::kNotFound) << "another NIC's";
}

TEST_P(NicContract, N14_CounterOperations) {
  if (!start() || !needs(nic().caps().deferred_counter_ops, "deferred_counter_ops"))
    return;
  const CounterId trigger = counter();
  const CounterId sum = counter();
  const CounterId set = counter();
  const PreparedId adds = prepare(counter_op(OpKind::kCounterAdd, sum, 5));
  const PreparedId sets = prepare(counter_op(OpKind::kCounterSet, set, 7));
  const Posting postings[] = {{adds, trigger, 1}, {adds, trigger, 2}, {sets, trigger, 2}};
  post_prepared(postings);
  refused({Code::kInvalidState}, "its counter", [&] { return nic().close_counter(sum); });
  add(trigger, 1);
  ASSERT_TRUE(reaches(sum, 5));
  add(trigger, 1);
  ASSERT_TRUE(reaches(sum, 10));
  ASSERT_TRUE(reaches(set, 7));
  release(adds);
  EXPECT_TRUE(is_ok(close(sum)));
}

// More than any table begins with, given back in another order; places are used again, ids are not.
TEST_P(NicContract, N14_ManyAtATime) {
  if (!start())
    return;
  constexpr uint64_t kMany = 300;
  constexpr int kRounds = 3;
  Memory& values = memory(0, 8 * kMany);
  Memory& target = memory(1, 8 * kMany);
  const CounterId trigger = counter();
  const CounterId done = counter();
  std::set<std::pair<uint32_t, uint32_t>> ids;
  uint64_t posted = 0;
  for (int round = 1; round <= kRounds; ++round) {
    std::vector<PreparedId> prepared;
    for (uint64_t i = 0; i < kMany; ++i) {
      values.store(round * 1000 + i, 8 * i);
      prepared.push_back(prepare(atomic_op(AtomicKind::kReplace, values, 8 * i, target, 8 * i, done)));
      ASSERT_TRUE(ids.insert({prepared[i].index, prepared[i].generation}).second) << "an id twice";
    }
    for (uint64_t i = 0; i < kMany; ++i) {
      post_patiently(Posting{prepared[i], trigger, 0});
      ++posted;
    }
    ASSERT_TRUE(reaches(done, posted));
    for (uint64_t i = 0; i < kMany; ++i)
      EXPECT_EQ(target.load(8 * i), round * 1000 + i);
    std::shuffle(prepared.begin(), prepared.end(), std::mt19937_64(round));
    for (const PreparedId id : prepared)
      release(id);
  }
}

// Threads prepare, post whole and prepared entries, and release beside each other.
TEST_P(NicContract, N14_Threads) {
  if (!start({.deferred_depth = 32}))
    return;
  constexpr size_t kThreads = 3;
  constexpr uint64_t kLives = 40;
  constexpr uint64_t kPostings = 5;
  const CounterId done = counter();
  std::vector<Memory*> operands, sums;
  std::vector<CounterId> triggers;
  for (size_t i = 0; i < kThreads; ++i) {
    operands.push_back(&memory(0, 8));
    sums.push_back(&memory(1, 8));
    operands[i]->store(i + 1);
    triggers.push_back(counter());
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (uint64_t life = 0; life < kLives; ++life) {
        const Result<PreparedId> prepared = nic().prepare(sum_op(*operands[i], 0, *sums[i], 0, done));
        ASSERT_TRUE(is_ok(prepared.status()));
        for (uint64_t posting = 0; posting < kPostings; ++posting)
          post_patiently(Posting{prepared.value(), triggers[i], 0});
        post_patiently(when(triggers[i], life + 1, sum_op(*operands[i], 0, *sums[i], 0, done)));
        add(triggers[i], 1);
        EXPECT_LE(nic().free_entries(), depth());
        EXPECT_TRUE(is_ok(nic().release(prepared.value())));
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  ASSERT_TRUE(reaches(done, kThreads * kLives * (kPostings + 1)));
  for (size_t i = 0; i < kThreads; ++i)
    EXPECT_EQ(sums[i]->load(), (i + 1) * kLives * (kPostings + 1));
  EXPECT_TRUE(all_free());
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_PREPARED_H_
