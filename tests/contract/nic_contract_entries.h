// The NIC contract: deferred-work entries from post() to fire or flush (N6), and operations
// prepared once and posted many times (N14).
#ifndef LANYARD_TESTS_CONTRACT_NIC_CONTRACT_ENTRIES_H_
#define LANYARD_TESTS_CONTRACT_NIC_CONTRACT_ENTRIES_H_

#include <set>

#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

// ---- N6

TEST_P(NicContract, N6_DepthEntriesAndNotOneMore) {
  for (uint32_t wanted : {1u, 7u, 64u}) {
    start({.deferred_depth = wanted});
    SCOPED_TRACE("depth " + std::to_string(depth()));
    Memory& one = memory(0, 8);
    one.store(1);
    Memory& target = memory(1, 8);
    const CounterId trigger = counter();
    const CounterId done = counter();
    const DeferredOp op = when(trigger, 1, sum_op(one, 0, target, 0, done));
    for (uint32_t posted = 0; posted < depth(); ++posted) {
      ASSERT_EQ(nic().free_entries(), depth() - posted);
      post(op);
    }
    EXPECT_EQ(nic().free_entries(), 0u);
    for (int again = 0; again < 3; ++again)
      refused({Code::kAgain}, "one more", [&] { return nic().post({&op, 1}); });
    EXPECT_TRUE(works(nic().post({}))) << "an empty batch always fits";
    settle();
    EXPECT_EQ(nic().free_entries(), 0u) << "a place is kept until its entry fires";
    EXPECT_EQ(target.load(), 0u);
    add(trigger, 1);
    ASSERT_TRUE(reaches(done, depth()));
    ASSERT_TRUE(all_free());
    EXPECT_EQ(target.load(), depth()) << "the refused one did not run";
    stop();
  }
}

// post() takes all the places that a batch needs or none, whatever is free.
TEST_P(NicContract, N6_BatchesAreAllOrNothing) {
  start({.deferred_depth = 16});
  Memory& one = word(0, 1);
  Memory& target = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const DeferredOp op = when(trigger, 1, sum_op(one, 0, target, 0, done));
  const auto batch = [&](size_t count) { return std::vector<DeferredOp>(count, op); };
  refused({Code::kExhausted}, "depth + 1", [&] { return nic().post(batch(depth() + 1)); });
  refused({Code::kExhausted}, "10 x depth", [&] { return nic().post(batch(10 * depth())); });

  post(batch(depth() / 2));
  const uint32_t free = depth() - depth() / 2;
  refused({Code::kAgain}, "one more than is free", [&] { return nic().post(batch(free + 1)); });
  refused({Code::kAgain}, "depth", [&] { return nic().post(batch(depth())); });
  refused({Code::kExhausted}, "depth + 1", [&] { return nic().post(batch(depth() + 1)); });
  post(batch(free));
  EXPECT_EQ(nic().free_entries(), 0u);
  add(trigger, 1);
  ASSERT_TRUE(reaches(done, depth()));
  settle();
  EXPECT_EQ(value(done), (CounterValue{depth(), 0}));
  EXPECT_EQ(target.load(), depth());

  ASSERT_TRUE(all_free());
  EXPECT_TRUE(works(nic().reset(trigger)));
  ASSERT_TRUE(reaches(trigger, 0));
  post(batch(depth()));
  add(trigger, 1);
  EXPECT_TRUE(reaches(done, 2 * uint64_t{depth()})) << "a whole depth in one batch";
}

// A batch with one bad descriptor, at any position, posts nothing.
TEST_P(NicContract, N6_ABadDescriptorPostsNothing) {
  Memory& one = word(0, 1);
  Memory& target = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const DeferredOp good = when(trigger, 1, sum_op(one, 0, target, 0, done));
  DeferredOp bad = good;
  bad.op.local.offset = 1 << 20;
  for (size_t at = 0; at < 5; ++at) {
    std::vector<DeferredOp> batch(5, good);
    batch[at] = bad;
    refused({Code::kInvalidArgument}, "a batch with a bad descriptor", [&] { return nic().post(batch); });
  }
  add(trigger, 1);
  settle();
  EXPECT_EQ(value(done), (CounterValue{0, 0}));
  EXPECT_EQ(target.load(), 0u);
  EXPECT_EQ(nic().free_entries(), depth());
}

// Each entry frees its place when it fires, not when the last one of its batch fires.
TEST_P(NicContract, N6_PlacesBecomeFreeOneByOne) {
  start({.deferred_depth = 16});
  Memory& one = memory(0, 8);
  Memory& target = memory(1, 8);
  const CounterId trigger = counter();
  for (uint64_t i = 1; i <= depth(); ++i)
    post(when(trigger, i, sum_op(one, 0, target, 0)));
  for (uint32_t fired = 1; fired <= depth(); ++fired) {
    add(trigger, 1);
    ASSERT_TRUE(eventually([&] { return nic().free_entries() == fired; }));
    if (fired % 5 == 0)
      settle(std::chrono::milliseconds(3));
    ASSERT_EQ(nic().free_entries(), fired);
  }
}

TEST_P(NicContract, N6_PlacesAreReusedAHundredThousandTimes) {
  constexpr uint64_t kOps = 100'000;
  Memory& one = word(0, 1);
  Memory& target = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const uint64_t half = std::max<uint64_t>(1, depth() / 2);
  uint64_t posted = 0;
  while (posted < kOps) {
    const uint64_t batch = std::min(1 + posted % half, kOps - posted);  // batches of every size
    std::vector<DeferredOp> ops;
    for (uint64_t i = 1; i <= batch; ++i)
      ops.push_back(when(trigger, posted + i, sum_op(one, 0, target, 0, done)));
    Status status;
    ASSERT_TRUE(eventually([&] {
      status = nic().post(ops);
      return status.code() != Code::kAgain;
    })) << posted
        << " posted";
    ASSERT_TRUE(works(status));
    posted += batch;
    add(trigger, batch);
  }
  ASSERT_TRUE(reaches(done, kOps));
  ASSERT_TRUE(all_free());
  settle();
  EXPECT_EQ(value(done), (CounterValue{kOps, 0}));
  EXPECT_EQ(target.load(), kOps);
}

// ---- Flush

TEST_P(NicContract, Flush_CancelsEveryWaitingEntry) {
  if (!nic().caps().flush) {
    refused({Code::kUnsupported}, "flush", [&] { return nic().flush(); });
    GTEST_SKIP() << "the NIC lacks flush (its refusal was tested)";
  }
  Memory& one = word(0, 1);
  Memory& target = memory(1, 8);
  const CounterId a = counter();
  const CounterId b = counter();
  const CounterId done = counter();
  for (uint64_t round = 1; round <= 10; ++round) {
    while (nic().free_entries() > 0) {
      const CounterId trigger = nic().free_entries() % 2 ? a : b;
      post(when(trigger, round * 10 + nic().free_entries(), sum_op(one, 0, target, 0, done)));
    }
    refused({Code::kInvalidState}, "close while waiting", [&] { return nic().close_counter(a); });
    ASSERT_TRUE(works(nic().flush()));
    ASSERT_TRUE(all_free());
    add(a, 5);
    add(b, 5);
    ASSERT_TRUE(reaches(a, 5 * round));
    ASSERT_TRUE(reaches(b, 5 * round));
    issue(sum_op(one, 0, target, 0, done));
    ASSERT_TRUE(reaches(done, round));
  }
  EXPECT_TRUE(works(nic().flush())) << "with nothing to cancel";
  add(a, 10'000);
  add(b, 10'000);
  settle();
  EXPECT_EQ(value(done), (CounterValue{10, 0})) << "canceled entries complete nowhere";
  EXPECT_EQ(target.load(), 10u);
  EXPECT_EQ(nic().failures(), 0u);
  for (CounterId id : {a, b, done})
    EXPECT_TRUE(works(close(id)));
  EXPECT_TRUE(works(nic().deregister_region(one.region)));
}

// ---- N14

// Every posting is an ordinary entry: it waits for its own trigger and threshold, and completes.
TEST_P(NicContract, N14_IsPostedAgainAndAgain) {
  start({.deferred_depth = 8});
  constexpr uint64_t kStarts = 100;
  Memory& source = memory(0, 64);
  Memory& target = memory(1, 64);
  Memory& one = word(0, 1);
  Memory& sum = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const PreparedId write = prepare(write_op(source, 0, target, 0, 64, done));
  const PreparedId atomic = prepare(sum_op(one, 0, sum, 0, done));
  EXPECT_EQ(nic().free_entries(), depth()) << "prepare() takes no entry";
  for (uint64_t i = 1; i <= kStarts; ++i) {
    source.fill(i, 0, 64);
    const Posting both[] = {{write, trigger, 2 * i - 1, i}, {atomic, trigger, 2 * i, i}};
    post_prepared(both);
    EXPECT_EQ(nic().free_entries(), depth() - 2);
    add(trigger, 1);
    ASSERT_TRUE(reaches(done, 2 * i - 1)) << "only the write";
    EXPECT_TRUE(target.holds(i, 0, 64)) << "start " << i;
    EXPECT_EQ(sum.load(), i - 1);
    add(trigger, 1);
    ASSERT_TRUE(reaches(done, 2 * i));
    EXPECT_EQ(sum.load(), i);
    ASSERT_TRUE(all_free());
  }
}

// One operation may wait several times, for different counters and thresholds.
TEST_P(NicContract, N14_EachPostingHasItsOwnTriggerAndThreshold) {
  Memory& one = word(0, 1);
  Memory& sum = memory(1, 8);
  const CounterId first = counter();
  const CounterId second = counter();
  const CounterId done = counter();
  const PreparedId atomic = prepare(sum_op(one, 0, sum, 0, done));
  const Posting postings[] = {{atomic, first, 3}, {atomic, second, 1}, {atomic, first, 1}, {atomic, first, 0}};
  post_prepared(postings);
  ASSERT_TRUE(reaches(done, 1)) << "a threshold that is met already";
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

// All places or none, also among entries posted by post() (N2, N6).
TEST_P(NicContract, N14_BatchesAreAllOrNothing) {
  start({.deferred_depth = 8});
  Memory& one = word(0, 1);
  Memory& sum = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const PreparedId atomic = prepare(sum_op(one, 0, sum, 0, done));
  const auto batch = [&](size_t count) { return std::vector<Posting>(count, Posting{atomic, trigger, 1}); };
  refused({Code::kExhausted}, "depth + 1", [&] { return nic().post_prepared(batch(depth() + 1)); });
  post(when(trigger, 1, sum_op(one, 0, sum, 0, done)));
  refused({Code::kAgain}, "one more than is free", [&] { return nic().post_prepared(batch(depth())); });
  EXPECT_TRUE(works(nic().post_prepared({}))) << "an empty batch always fits";
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
  EXPECT_EQ(nic().free_entries(), depth()) << "a refused batch takes no entry";
}

// A posted entry runs to its end even if its operation has been released and its id's slot is
// in use again.
TEST_P(NicContract, N14_PostedEntriesOutliveTheRelease) {
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

// What it names stays open until release(), so no posting need check it.
TEST_P(NicContract, N14_KeepsOpenWhatItNames) {
  Memory& source = word(0, 2);
  Memory& target = word(1, 40);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const PreparedId prepared = prepare(sum_op(source, 0, target, 0, done));
  const auto is_held = [&](const char* what, auto call) { refused({Code::kInvalidState}, what, call); };
  is_held("the completion counter", [&] { return nic().close_counter(done); });
  is_held("the operand's region", [&] { return nic().deregister_region(source.region); });
  EXPECT_TRUE(works(close(trigger))) << "a trigger belongs to postings";
  const CounterId later = counter();
  post_prepared({prepared, later, 1});
  add(later, 1);
  ASSERT_TRUE(reaches(done, 1));
  EXPECT_EQ(target.load(), 42u);
  release(prepared);
  EXPECT_TRUE(eventually([&] { return close(done).ok(); }));
  EXPECT_TRUE(eventually([&] { return nic().deregister_region(source.region).ok(); }));
}

TEST_P(NicContract, N14_RefusesOperationsThatAreNotPrepared) {
  Memory& one = memory(0, 8);
  Memory& sum = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const CounterId closed = counter();
  EXPECT_TRUE(works(close(closed)));
  const Op op = sum_op(one, 0, sum, 0, done);
  const PreparedId live = prepare(op);
  const PreparedId released = prepare(op);
  release(released);
  const auto refuse = [&](Code code, const char* what, const Posting& posting) {
    refused({code}, what, [&] { return nic().post_prepared({&posting, 1}); });
  };
  refuse(Code::kNotFound, "no trigger", {live, {}, 1});
  refuse(Code::kNotFound, "a closed trigger", {live, closed, 1});
  refuse(Code::kInvalidArgument, "49 bits", {live, trigger, kMaxSuccess + 1});
  refused({Code::kNotFound}, "to release it twice", [&] { return nic().release(released); });
  refused({Code::kNotFound}, "to release none", [&] { return nic().release({}); });
  refuse(Code::kNotFound, "none", {{}, trigger, 1});
  refuse(Code::kNotFound, "a released one", {released, trigger, 1});
  refuse(Code::kNotFound, "one that never was", {{live.index + 1'000'000, live.generation}, trigger, 1});
  for (const uint32_t generation : {0u, live.generation - 1, live.generation + 1, live.generation + 2})
    refuse(Code::kNotFound, "another in its place", {{live.index, generation}, trigger, 1});
  // The id of the released operation does not name its successor in the table.
  const PreparedId next = prepare(op);
  refuse(Code::kNotFound, "the released one again", {released, trigger, 1});
  refused({Code::kNotFound}, "a released one cannot be released", [&] { return nic().release(released); });
  for (const PreparedId id : {live, next})
    post_prepared({id, trigger, 1});
  add(trigger, 1);
  EXPECT_TRUE(reaches(done, 2));
  EXPECT_EQ(nic(1).release(live).code(), Code::kNotFound) << "another NIC's operation";
}

// More than any table begins with, released in another order. Places are reused, ids are not.
TEST_P(NicContract, N14_ManyAtATime) {
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

// Threads prepare, post with and without preparing, and release at the same time.
TEST_P(NicContract, N14_Threads) {
  start({.deferred_depth = 32});
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
        ASSERT_TRUE(works(prepared.status()));
        for (uint64_t posting = 0; posting < kPostings; ++posting)
          post_patiently(Posting{prepared.value(), triggers[i], 0});
        post_patiently(when(triggers[i], life + 1, sum_op(*operands[i], 0, *sums[i], 0, done)));
        add(triggers[i], 1);
        EXPECT_LE(nic().free_entries(), depth());
        EXPECT_TRUE(works(nic().release(prepared.value())));
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

#endif  // LANYARD_TESTS_CONTRACT_NIC_CONTRACT_ENTRIES_H_
