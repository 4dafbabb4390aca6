// The NIC contract: deferred-work entries, from post() to fire or flush (N6).
#ifndef LANYARD_TESTS_NIC_CONTRACT_ENTRIES_H_
#define LANYARD_TESTS_NIC_CONTRACT_ENTRIES_H_

#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

// ---- N6

TEST_P(NicContract, N6_DepthEntriesAndNotOneMore) {
  for (uint32_t wanted : {1u, 7u, 64u}) {
    if (!start({.deferred_depth = wanted}))
      return;
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
    EXPECT_TRUE(is_ok(nic().post({}))) << "nothing always fits";
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

// All the places a batch needs or none, with whatever is free.
TEST_P(NicContract, N6_BatchesAreAllOrNothing) {
  if (!start({.deferred_depth = 16}))
    return;
  Memory& one = memory(0, 8);
  one.store(1);
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
  EXPECT_TRUE(is_ok(nic().reset(trigger)));
  ASSERT_TRUE(reaches(trigger, 0));
  post(batch(depth()));
  add(trigger, 1);
  EXPECT_TRUE(reaches(done, 2 * uint64_t{depth()})) << "a whole depth in one batch";
}

// A batch with one bad descriptor, wherever it stands, posts none of the good ones.
TEST_P(NicContract, N6_ABadDescriptorPostsNothing) {
  if (!start())
    return;
  Memory& one = memory(0, 8);
  one.store(1);
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

// A place comes back when its entry fires, each by itself, not when the last of them has.
TEST_P(NicContract, N6_PlacesComeBackOneByOne) {
  if (!start({.deferred_depth = 16}))
    return;
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

TEST_P(NicContract, N6_PlacesAreUsedAgainAHundredThousandTimes) {
  if (!start())
    return;
  constexpr uint64_t kOps = 100'000;
  Memory& one = memory(0, 8);
  one.store(1);
  Memory& target = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const uint64_t half = std::max<uint64_t>(1, depth() / 2);
  uint64_t posted = 0;
  while (posted < kOps) {
    const uint64_t batch = std::min(1 + posted % half, kOps - posted);  // every size, for its own sake
    std::vector<DeferredOp> ops;
    for (uint64_t i = 1; i <= batch; ++i)
      ops.push_back(when(trigger, posted + i, sum_op(one, 0, target, 0, done)));
    Status status;
    ASSERT_TRUE(eventually([&] {
      status = nic().post(ops);
      return status.code() != Code::kAgain;
    })) << posted
        << " posted";
    ASSERT_TRUE(is_ok(status));
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
  if (!start())
    return;
  if (!nic().caps().flush) {
    refused({Code::kUnsupported}, "flush", [&] { return nic().flush(); });
    skip("caps() lacks flush (its refusal was tested)");
    return;
  }
  Memory& one = memory(0, 8);
  one.store(1);
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
    ASSERT_TRUE(is_ok(nic().flush()));
    ASSERT_TRUE(all_free());
    add(a, 5);
    add(b, 5);
    ASSERT_TRUE(reaches(a, 5 * round));
    ASSERT_TRUE(reaches(b, 5 * round));
    issue(sum_op(one, 0, target, 0, done));
    ASSERT_TRUE(reaches(done, round));
  }
  EXPECT_TRUE(is_ok(nic().flush())) << "with nothing to cancel";
  add(a, 10'000);
  add(b, 10'000);
  settle();
  EXPECT_EQ(value(done), (CounterValue{10, 0})) << "canceled entries complete nowhere";
  EXPECT_EQ(target.load(), 10u);
  EXPECT_EQ(nic().failures(), 0u);
  for (CounterId id : {a, b, done})
    EXPECT_TRUE(is_ok(close(id)));
  EXPECT_TRUE(is_ok(nic().deregister_region(one.region)));
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_ENTRIES_H_
