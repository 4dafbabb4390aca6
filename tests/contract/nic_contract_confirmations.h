// The NIC contract: who has seen an operation's end learns whether it went well before saying so (N13).
#ifndef LANYARD_TESTS_NIC_CONTRACT_CONFIRMATIONS_H_
#define LANYARD_TESTS_NIC_CONTRACT_CONFIRMATIONS_H_

#include <array>

#include "tests/contract/nic_contract_failures.h"

namespace lanyard::nic_contract {

// A failed write fires an atomic whose target is polled as a stream would: no call of the NIC's between that and the
// question.
TEST_P(NicContract, N13_AFailureCountsBeforeAnybodySaysThatAllWentWell) {
  if (!start())
    return;
  Memory& source = memory(0, 64);
  Memory& remote = memory(1, 64);
  Memory& one = memory(0, 8);
  Memory& mark = memory(0, 8);
  one.store(1);
  const CounterId trigger = counter();
  const CounterId done = counter();
  for (uint64_t i = 1; i <= 100; ++i) {
    Op op = write_op(source, 0, remote, 0, 64, done);
    op.remote.key = bad_key(remote);
    op.context = 1000 + i;
    Op flag = sum_op(one, 0, mark, 0);
    flag.context = op.context;
    post({when(trigger, i, op), when(done, i, flag)});
    add(trigger, 1);
    const auto deadline = std::chrono::steady_clock::now() + kBound;
    if (is_autonomous())
      while (mark.load() != i && std::chrono::steady_clock::now() < deadline)
        continue;
    else
      ASSERT_TRUE(happens_by_progress([&] { return mark.load() == i; }));
    ASSERT_EQ(mark.load(), i);
    const std::array context{ContextStarts{op.context}};
    if (nic().caps().failures_lag)
      while (!nic().confirms(context) && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    ASSERT_EQ(nic().failures(), i);
    ASSERT_TRUE(nic().confirms(context));
    const std::optional<FailureRecord> record = nic().take_failure();
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record->context, op.context);
  }
  EXPECT_TRUE(all_free());
}

// What waits, whoever waits for it, is not confirmed; nor does it stand in the way of others.
TEST_P(NicContract, N13_WhatHasNotEndedIsNotConfirmed) {
  if (!start())
    return;
  if (!needs(nic().caps().failures_lag, "failures that lag"))
    return;
  Memory& source = memory(0, 64);
  Memory& remote = memory(1, 64);
  const CounterId trigger = counter();
  const CounterId done = counter();
  Op op = write_op(source, 0, remote, 0, 64, done);
  op.context = 7;
  post(when(trigger, 1, op));
  op.context = 8;
  post(when(trigger, 2, op));
  const std::array first{ContextStarts{6}, ContextStarts{7}};
  const std::array second{ContextStarts{8}}, none{ContextStarts{9}};
  settle();
  EXPECT_FALSE(nic().confirms(first));
  EXPECT_FALSE(nic().confirms(second));
  EXPECT_TRUE(nic().confirms(none));
  EXPECT_TRUE(nic().confirms({}));
  add(trigger, 1);
  EXPECT_TRUE(eventually([&] { return nic().confirms(first); }));
  EXPECT_TRUE(reaches(done, 1));
  EXPECT_FALSE(nic().confirms(second));
  if (nic().caps().flush) {
    ASSERT_TRUE(is_ok(nic().flush()));
    EXPECT_TRUE(nic().confirms(second)) << "it was taken back";
  } else {
    add(trigger, 1);
    EXPECT_TRUE(eventually([&] { return nic().confirms(second); }));
  }
}

// An operation that is run at once is as much under way as a deferred one.
TEST_P(NicContract, N13_WhatIsIssuedIsConfirmedOnceItHasEnded) {
  if (!start())
    return;
  Memory& source = memory(0, 64);
  Memory& remote = memory(1, 64);
  for (uint64_t i = 1; i <= 100; ++i) {
    Op op = write_op(source, 0, remote, 0, 64);
    op.remote.key = i % 2 == 0 ? remote.key : bad_key(remote);
    op.context = i;
    issue(op);
    const std::array context{ContextStarts{i}};
    if (nic().caps().failures_lag) {
      ASSERT_TRUE(eventually([&] { return nic().confirms(context); }));
      ASSERT_EQ(nic().failures(), (i + 1) / 2);
    }
  }
  EXPECT_TRUE(eventually([&] { return nic().failures() == 50; }));
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_CONFIRMATIONS_H_
