// The NIC contract: what writes move, when payloads are read, and what arriving messages count
// (N3, N4, N7).
#ifndef LANYARD_TESTS_NIC_CONTRACT_DATA_H_
#define LANYARD_TESTS_NIC_CONTRACT_DATA_H_

#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

// Sizes around the powers of two, where an implementation may change its way of copying.
TEST_P(NicContract, Write_MovesExactlyItsBytes) {
  constexpr size_t kLargest = (size_t{1} << 20) + 3;
  constexpr size_t kShift = 61;  // neither end is aligned, and the region goes on at both sides
  Memory& source = memory(0, kLargest + 2 * kShift);
  Memory& target = memory(1, kLargest + 2 * kShift);
  const CounterId done = counter();
  const auto untouched = [&](size_t offset, size_t bytes) {
    return std::all_of(target.data() + offset, target.data() + offset + bytes,
                       [](std::byte b) { return b == std::byte{0xee}; });
  };
  source.fill(99, 0, source.bytes());  // bytes around a message would be visible in the target, too
  uint64_t writes = 0;
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{63}, size_t{64}, size_t{65}, size_t{4095}, size_t{4096},
                       size_t{4097}, size_t{65535}, size_t{65536}, size_t{65537}, kLargest}) {
    if (bytes > nic().caps().max_message_bytes)
      continue;
    const size_t from = bytes % 7;
    const size_t to = kShift - bytes % 5;
    source.fill(bytes, from, bytes);
    std::memset(target.data(), 0xee, target.bytes());
    issue(write_op(source, from, target, to, bytes, done));
    ASSERT_TRUE(reaches(done, ++writes)) << bytes << " bytes";
    EXPECT_TRUE(target.holds(bytes, to, bytes)) << bytes << " bytes";
    EXPECT_TRUE(untouched(0, to)) << bytes << " bytes: before";
    EXPECT_TRUE(untouched(to + bytes, target.bytes() - to - bytes)) << bytes << " bytes: after";
    EXPECT_TRUE(source.holds(bytes, from, bytes)) << bytes << " bytes: the source itself";
  }
}

TEST_P(NicContract, Atomic_EveryKindLocalAndRemote) {
  const CounterId done = counter();
  uint64_t ops = 0;
  for (size_t rank : {size_t{1}, size_t{0}}) {
    Memory& local = memory(0, 24);
    Memory& target = memory(rank, 24);
    target.store(0x1111, 0);
    target.store(100, 8);
    target.store(0x3333, 16);
    const auto run = [&](AtomicKind kind, uint64_t operand) {
      local.store(operand, 8);
      issue(atomic_op(kind, local, 8, target, 8, done));
      return reaches(done, ++ops) << " rank " << rank << ", kind " << static_cast<int>(kind);
    };
    ASSERT_TRUE(run(AtomicKind::kSum, 11));
    EXPECT_EQ(target.load(8), 111u);
    ASSERT_TRUE(run(AtomicKind::kSum, ~uint64_t{0}));
    EXPECT_EQ(target.load(8), 110u) << "sums are taken modulo 2^64";
    ASSERT_TRUE(run(AtomicKind::kReplace, 0xfedcba9876543210u));
    EXPECT_EQ(target.load(8), 0xfedcba9876543210u);
    EXPECT_EQ(target.load(0), 0x1111u);
    EXPECT_EQ(target.load(16), 0x3333u);
    EXPECT_EQ(local.load(0), 0u);
    EXPECT_EQ(local.load(16), 0u);
  }
}

TEST_P(NicContract, Atomic_ConcurrentSumsLoseNothing) {
  start({.nics = 3});
  constexpr uint64_t kOps = 1000;
  const CounterId arrived = counter(0);
  Memory& target = memory(0, 16, arrived);
  std::vector<CounterId> done;
  std::vector<Memory*> operands;
  for (size_t rank = 0; rank < 3; ++rank) {
    done.push_back(counter(rank));
    operands.push_back(&memory(rank, 8));
    operands[rank]->store(uint64_t{1} << (20 * rank));
  }
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        for (uint64_t i = 0; i < kOps; ++i)
          issue(sum_op(*operands[rank], 0, target, 8, done[rank]), rank);
      });
  }
  for (size_t rank = 0; rank < 3; ++rank)
    ASSERT_TRUE(reaches(done[rank], kOps, rank));
  EXPECT_EQ(target.load(8), kOps | kOps << 20 | kOps << 40);
  EXPECT_EQ(target.load(0), 0u);
  EXPECT_TRUE(reaches(arrived, 3 * kOps));
}

// ---- N3

// The payload and the operand belong to the caller until the operation runs.
TEST_P(NicContract, N3_PayloadAndOperandAreReadWhenItRuns) {
  constexpr size_t kBytes = 5000;
  Memory& payload = memory(0, kBytes);
  Memory& operands = memory(0, 16);
  Memory& copy = memory(1, kBytes);
  Memory& words = memory(1, 16);
  const CounterId trigger = counter();
  const CounterId done = counter();
  for (uint64_t i = 1; i <= 20; ++i) {
    payload.fill(7000 + i, 0, kBytes);
    operands.store(1000 * i, 0);
    operands.store(1000 * i, 8);
    post(when(trigger, i, write_op(payload, 0, copy, 0, kBytes, done)));
    post(when(trigger, i, sum_op(operands, 0, words, 0, done)));
    post(when(trigger, i, atomic_op(AtomicKind::kReplace, operands, 8, words, 8, done)));
    if (i == 1)
      settle();
    payload.fill(i, 0, kBytes);
    operands.store(1, 0);
    operands.store(i, 8);
    add(trigger, 1);
    ASSERT_TRUE(reaches(done, 3 * i));
    ASSERT_TRUE(copy.holds(i, 0, kBytes)) << "message " << i;
    ASSERT_EQ(words.load(0), i);
    ASSERT_EQ(words.load(8), i);
  }
}

// post() and issue() copy descriptors, not payloads.
TEST_P(NicContract, N3_DescriptorsAreCopied) {
  Memory& source = memory(0, 64);
  Memory& target = memory(1, 64);
  source.fill(1, 0, 32);
  source.fill(2, 32, 32);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const CounterId other = counter();
  std::vector<DeferredOp> ops;
  for (uint64_t i = 0; i < 4; ++i)
    ops.push_back(when(trigger, 1, write_op(source, 8 * i, target, 8 * i, 8, done)));
  post(ops);
  for (DeferredOp& op : ops)
    op = when(other, 0, write_op(source, 32, target, 32, 32, other));
  settle();
  EXPECT_EQ(value(done), (CounterValue{0, 0}));
  add(trigger, 1);
  ASSERT_TRUE(reaches(done, 4));
  EXPECT_TRUE(target.holds(1, 0, 32));
  EXPECT_TRUE(target.is_zero(32, 32));
  EXPECT_EQ(value(other), (CounterValue{0, 0}));
}

// ---- N4

TEST_P(NicContract, N4_EveryMessageCountsOne) {
  constexpr size_t kLargest = size_t{1} << 20;
  const CounterId arrived = counter(1);
  const CounterId unrelated = counter(1);
  const CounterId done = counter();
  Memory& source = memory(0, kLargest);
  Memory& target = memory(1, kLargest, arrived);
  memory(1, 8, unrelated);
  uint64_t messages = 0;
  for (size_t bytes = 1; bytes <= kLargest && bytes <= nic().caps().max_message_bytes; bytes *= 2) {
    issue(write_op(source, 0, target, 0, bytes, done));
    ASSERT_TRUE(reaches(arrived, ++messages, 1)) << bytes << " bytes";
  }
  issue(write_op(source, 0, target, 0, 0, done));
  ASSERT_TRUE(reaches(arrived, ++messages, 1)) << "an empty message";
  for (AtomicKind kind : {AtomicKind::kSum, AtomicKind::kReplace}) {
    issue(atomic_op(kind, source, 0, target, 64, done));
    ASSERT_TRUE(reaches(arrived, ++messages, 1)) << "atomic kind " << static_cast<int>(kind);
  }
  settle();
  EXPECT_TRUE(reaches(done, messages));
  EXPECT_EQ(value(arrived, 1), (CounterValue{messages, 0}));
  EXPECT_EQ(value(unrelated, 1), (CounterValue{0, 0}));
}

TEST_P(NicContract, N4_OneCounterForSeveralRegions) {
  const CounterId arrived = counter(1);
  const CounterId self_arrived = counter(0);
  const CounterId done = counter();
  Memory& source = memory(0, 64);
  Memory& a = memory(1, 64, arrived);
  Memory& b = memory(1, 64, arrived);
  Memory& uncounted = memory(1, 64);
  Memory& self = memory(0, 64, self_arrived);
  for (uint64_t i = 1; i <= 10; ++i) {
    issue(write_op(source, 0, a, 0, 64, done));
    issue(write_op(source, 0, b, 0, 64, done));
    issue(write_op(source, 0, b, 0, 1, done));
    issue(write_op(source, 0, uncounted, 0, 64, done));
    issue(write_op(source, 0, self, 0, 64, done));
  }
  ASSERT_TRUE(reaches(done, 50));
  EXPECT_TRUE(reaches(arrived, 30, 1));
  EXPECT_TRUE(reaches(self_arrived, 10));
}

// An empty region is only a counter that other NICs can ring.
TEST_P(NicContract, N4_RegionOfNoBytes) {
  Memory& source = memory(0, 8);
  Memory& anchor = memory(1, 0);
  for (void* base : {static_cast<void*>(anchor.data()), static_cast<void*>(nullptr)}) {
    const CounterId arrived = counter(1);
    const CounterId done = counter();
    Result<RegionId> region = nic(1).register_region(base, 0, arrived);
    ASSERT_TRUE(works(region.status())) << (base ? "an address" : "no address");
    Op op = write_op(source, 0, anchor, 0, 0, done);
    op.remote.key = nic(1).key(region.value()).value();
    for (int i = 0; i < 3; ++i)
      issue(op);
    EXPECT_TRUE(reaches(done, 3)) << (base ? "an address" : "no address");
    EXPECT_TRUE(reaches(arrived, 3, 1)) << (base ? "an address" : "no address");
    op.bytes = 1;
    issue(op);
    EXPECT_TRUE(reaches(done, {3, 1})) << "one byte does not fit";
    EXPECT_TRUE(works(nic(1).deregister_region(region.value())));
  }
}

// A reader that sees the count sees the whole message.
TEST_P(NicContract, N4_CountedMeansVisible) {
  NEEDS(nic(1).caps().target_count_means_visible, "target_count_means_visible");
  constexpr size_t kLong = 1'200'000;
  const CounterId arrived = counter(1);
  const CounterId done = counter();
  Memory& source = memory(0, kLong);
  Memory& target = memory(1, kLong, arrived);
  for (uint64_t i = 1; i <= 400; ++i) {
    size_t bytes = i % 40 == 0 ? kLong : i % 2 ? 9000 : 24;
    if (bytes > nic().caps().max_message_bytes)
      bytes = 24;
    source.fill(i, 0, bytes);
    Op op = write_op(source, 0, target, 0, bytes, done);
    op.level = CompletionLevel::kTransmit;
    issue(op);
    ASSERT_TRUE(eventually([&] { return value(arrived, 1).success == i; }));
    ASSERT_TRUE(target.holds(i, 0, bytes)) << "message " << i << " of " << bytes;
    ASSERT_TRUE(reaches(done, i));
  }
}

// One counter counts completed and arriving writes; an entry waits for the sum.
TEST_P(NicContract, N5_OneCounterCountsCompletionsAndArrivals) {
  NEEDS(nic(0).caps().counters_count_both, "counters_count_both");
  constexpr size_t kBytes = 500;
  const CounterId both = counter();
  const CounterId done = counter();
  const CounterId theirs = counter(1);
  Memory& out = memory(0, kBytes);
  Memory& in = memory(0, kBytes, both);
  Memory& there = memory(1, kBytes);
  Memory& source = memory(1, kBytes);
  for (uint64_t i = 1; i <= 40; ++i) {
    out.fill(2 * i, 0, kBytes);
    source.fill(2 * i + 1, 0, kBytes);
    post_patiently(when(both, 3 * i, write_op(out, 0, there, 0, 8, done)), 0);
    issue(write_op(out, 0, there, 0, kBytes, both));
    issue(write_op(out, 0, there, 0, kBytes, both));
    ASSERT_TRUE(reaches(both, 3 * i - 1));
    settle();
    EXPECT_EQ(value(done), (CounterValue{i - 1, 0})) << "one is missing";
    issue(write_op(source, 0, in, 0, kBytes, theirs), 1);
    ASSERT_TRUE(reaches(both, 3 * i));
    ASSERT_TRUE(reaches(done, i));
    ASSERT_TRUE(reaches(theirs, i, 1));
    EXPECT_TRUE(there.holds(2 * i, 0, kBytes));
    EXPECT_TRUE(in.holds(2 * i + 1, 0, kBytes));
  }
}

// N7: a counter orders a small flag after large data.
TEST_P(NicContract, N7_ACounterOrdersFlagBehindData) {
  constexpr size_t kBytes = 300'000;
  NEEDS(nic().caps().max_message_bytes >= kBytes, "messages of 300,000 bytes");
  Memory& data = memory(0, kBytes);
  Memory& number = memory(0, 8);
  Memory& target = memory(1, kBytes);
  Memory& flag = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId written = counter();
  const CounterId flagged = counter();
  for (uint64_t i = 1; i <= 20; ++i) {
    data.fill(i, 0, kBytes);
    number.store(i);
    post(when(written, i, atomic_op(AtomicKind::kReplace, number, 0, flag, 0, flagged)));
    post(when(trigger, i, write_op(data, 0, target, 0, kBytes, written)));
    add(trigger, 1);
    ASSERT_TRUE(eventually([&] { return flag.load() == i; })) << "message " << i;
    ASSERT_TRUE(target.holds(i, 0, kBytes)) << "message " << i;
    ASSERT_TRUE(reaches(flagged, i));
  }
}

// ---- Many messages at once

// Long messages that arrive together, with short ones between them, all arrive completely.
TEST_P(NicContract, Crowd_LongMessagesInterleave) {
  start({.nics = 3});
  constexpr size_t kBytes = 1'300'000;
  constexpr size_t kEach = 3;
  NEEDS(nic().caps().max_message_bytes >= kBytes, "messages of 1,300,000 bytes");
  const CounterId arrived = counter(0);
  Memory& target = memory(0, 3 * kEach * kBytes, arrived);
  Memory& tally = memory(0, 8, arrived);
  std::vector<CounterId> done;
  std::vector<Memory*> source;
  std::vector<Memory*> ones;
  for (size_t rank = 0; rank < 3; ++rank) {
    done.push_back(counter(rank));
    source.push_back(&memory(rank, kEach * kBytes));
    for (size_t i = 0; i < kEach; ++i)
      source[rank]->fill(10 * rank + i, i * kBytes, kBytes);
    ones.push_back(&memory(rank, 8));
    ones[rank]->store(1);
  }
  for (size_t i = 0; i < kEach; ++i) {
    for (size_t rank = 0; rank < 3; ++rank) {
      issue(write_op(*source[rank], i * kBytes, target, (rank * kEach + i) * kBytes, kBytes, done[rank]), rank);
      issue(sum_op(*ones[rank], 0, tally, 0, done[rank]), rank);
    }
  }
  for (size_t rank = 0; rank < 3; ++rank)
    ASSERT_TRUE(reaches(done[rank], 2 * kEach, rank));
  EXPECT_TRUE(reaches(arrived, 6 * kEach));
  EXPECT_EQ(tally.load(), 3 * kEach);
  for (size_t rank = 0; rank < 3; ++rank)
    for (size_t i = 0; i < kEach; ++i)
      EXPECT_TRUE(target.holds(10 * rank + i, (rank * kEach + i) * kBytes, kBytes))
          << "message " << i << " of NIC " << rank;
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_DATA_H_
