// The NIC contract: failed operations are reported (N5), and a key is never valid again
// (N8). A failure at a live peer is no loss (N12). A failure counts before its chain has
// visible effects (N13).
#ifndef LANYARD_TESTS_CONTRACT_NIC_CONTRACT_FAILURES_H_
#define LANYARD_TESTS_CONTRACT_NIC_CONTRACT_FAILURES_H_

#include <array>
#include <set>

#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

// A key that no region ever had.
inline RemoteKey bad_key(const Memory& memory) { return {~memory.key.value}; }

// Operations that must fail at their target.
inline std::vector<std::pair<const char*, Op>> doomed_ops(const Memory& source, const Memory& target) {
  std::vector<std::pair<const char*, Op>> doomed;
  const auto add = [&](const char* what, Op op, RemoteKey key) {
    op.remote.key = key;
    doomed.emplace_back(what, op);
  };
  const RemoteKey bad = bad_key(target);
  const RemoteKey good = target.key;
  const uint64_t end = target.bytes();
  add("write, bad key", write_op(source, 0, target, 0, 64), bad);
  add("write of no bytes, bad key", write_op(source, 0, target, 0, 0), bad);
  add("long write, bad key", write_op(source, 0, target, 0, source.bytes()), bad);
  add("sum, bad key", sum_op(source, 0, target, 0), bad);
  add("replace, bad key", atomic_op(AtomicKind::kReplace, source, 0, target, 0), bad);
  add("write past the end", write_op(source, 0, target, end - 63, 64), good);
  add("write from past the end", write_op(source, 0, target, end + 1, 1), good);
  add("write at an offset that wraps", write_op(source, 0, target, ~uint64_t{0} - 7, 64), good);
  add("write far away", write_op(source, 0, target, uint64_t{1} << 62, 8), good);
  add("sum past the end", sum_op(source, 0, target, end), good);
  add("sum at an offset that wraps", sum_op(source, 0, target, ~uint64_t{0} - 7), good);
  return doomed;
}

TEST_P(NicContract, N5_AFailedOperationIsCountedRecordedAndFiresItsChain) {
  constexpr size_t kBytes = 4096;
  const CounterId arrived = counter(1);
  const CounterId arrived_here = counter(0);
  Memory& source = memory(0, kBytes);
  Memory& remote = memory(1, kBytes, arrived);
  Memory& local = memory(0, kBytes, arrived_here);
  Memory& one = word(0, 1);
  Memory& mark = memory(0, 8);
  source.fill(1, 0, kBytes);
  uint64_t context = 5000;
  uint64_t failures = 0;
  uint64_t chained = 0;
  for (Memory* target : {&remote, &local}) {
    for (auto& [what, op] : doomed_ops(source, *target)) {
      for (bool deferred : {true, false}) {
        SCOPED_TRACE(std::string(what) + (target == &local ? ", to itself" : "") +
                     (deferred ? ", deferred" : ", issued"));
        const CounterId trigger = counter();
        const CounterId done = counter();
        const CounterId after = counter();
        op.completion = done;
        op.context = ++context;
        post(when(done, 1, sum_op(one, 0, mark, 0, after)));
        if (deferred) {
          post(when(trigger, 1, op));
          add(trigger, 1);
        } else {
          issue(op);
        }
        ASSERT_TRUE(reaches(done, CounterValue{0, 1}));
        ASSERT_TRUE(reaches(after, 1)) << "a failure also fires the chain";
        ASSERT_EQ(mark.load(), ++chained);
        std::optional<FailureRecord> record;
        ASSERT_TRUE(eventually([&] { return (record = nic().take_failure()).has_value(); }));
        EXPECT_EQ(record->context, context);
        EXPECT_EQ(record->peer, target->peer());
        EXPECT_NE(record->code, Code::kOk);
        EXPECT_NE(record->code, Code::kAgain);
        EXPECT_EQ(nic().failures(), ++failures);
        ASSERT_FALSE(nic().take_failure().has_value()) << "one failure, one record";
        for (CounterId id : {trigger, done, after})
          ASSERT_TRUE(eventually([&] { return close(id).ok(); }));
      }
    }
  }
  settle();
  EXPECT_TRUE(remote.is_zero(0, kBytes)) << "no byte of a failed operation lands";
  EXPECT_TRUE(local.is_zero(0, kBytes));
  EXPECT_TRUE(source.holds(1, 0, kBytes)) << "a failed operation does not change its source";
  EXPECT_EQ(value(arrived, 1), (CounterValue{0, 0})) << "a failed operation does not count as arrived";
  EXPECT_EQ(value(arrived_here), (CounterValue{0, 0}));
  EXPECT_EQ(nic(1).failures(), 0u) << "the initiator's failure, not the target's";
  EXPECT_EQ(nic().lost_peers(), 0u) << "a failure at a live peer is no loss (N12)";
  for (const uint32_t peer : {1u, 7u})  // there is no peer 7
    EXPECT_FALSE(nic().is_lost(peer)) << peer;
  EXPECT_TRUE(all_free());
  EXPECT_EQ(failures, nic().failures());
}

// Misaligned targets: the call refuses them or the target fails them. They never run and
// never pass silently.
TEST_P(NicContract, N5_MisalignedAtomicsAreRefusedOrFail) {
  Memory& source = memory(0, 16);
  Memory& target = memory(1, 64);
  const CounterId done = counter();
  Memory shifted(1, 64);  // aligned offsets in a misaligned region
  Result<RegionId> region = nic(1).register_region(shifted.data() + 4, 48, {});
  ASSERT_TRUE(works(region.status()));
  Op into_shifted = sum_op(source, 0, target, 8, done);
  into_shifted.remote.key = nic(1).key(region.value()).value();
  uint32_t failed = 0;
  for (const Op& op : {sum_op(source, 0, target, 4, done), sum_op(source, 0, target, 9, done), into_shifted}) {
    const Status status = nic().issue(op);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
      continue;
    }
    ASSERT_TRUE(reaches(done, CounterValue{0, ++failed}));
  }
  settle();
  EXPECT_TRUE(target.is_zero(0, 64));
  EXPECT_TRUE(shifted.is_zero(0, 64));
  EXPECT_EQ(value(done), (CounterValue{0, failed}));
  EXPECT_TRUE(works(nic(1).deregister_region(region.value())));
}

// There is one record for each failure, oldest first, even beyond the 7 bits of a counter.
TEST_P(NicContract, N5_RecordsComeInOrderAndPastTheCountersRange) {
  constexpr uint64_t kFailures = 300;
  Memory& source = memory(0, 8);
  Memory& target = memory(1, 8);
  const CounterId done = counter();
  Op op = write_op(source, 0, target, 0, 8, done);
  op.remote.key = bad_key(target);
  for (uint64_t i = 1; i <= kFailures; ++i) {
    op.context = i;
    issue(op);
    ASSERT_TRUE(eventually([&] { return nic().failures() == i; }));
  }
  ASSERT_TRUE(reaches(done, CounterValue{0, kMaxFailure})) << "stays at the limit of 7 bits";
  for (uint64_t i = 1; i <= kFailures; ++i) {
    std::optional<FailureRecord> record;
    ASSERT_TRUE(eventually([&] { return (record = nic().take_failure()).has_value(); }));
    ASSERT_EQ(record->context, i);
  }
  EXPECT_FALSE(nic().take_failure().has_value());
  EXPECT_EQ(nic().failures(), kFailures) << "take_failure() does not lower failures()";
  op.remote.key = target.key;
  issue(op);
  EXPECT_TRUE(reaches(done, CounterValue{1, kMaxFailure})) << "the next one may succeed";
}

// ---- N8

TEST_P(NicContract, N8_AKeyEndsWithItsRegistration) {
  const CounterId arrived = counter(1);
  const CounterId trigger = counter();
  const CounterId good = counter();
  const CounterId stale = counter();
  Memory& source = memory(0, 8);
  Memory& target = memory(1, 8, arrived);
  std::set<uint64_t> keys;
  uint32_t failed = 0;
  for (uint64_t i = 1; i <= 60; ++i) {
    ASSERT_TRUE(keys.insert(target.key.value).second) << "registration " << i << " has an old key";
    ASSERT_EQ(nic(1).key(target.region).value(), target.key) << "a key does not change";
    source.store(i);
    issue(write_op(source, 0, target, 0, 8, good));
    ASSERT_TRUE(reaches(good, i));
    ASSERT_EQ(target.load(), i);

    // One fires between the two registrations, and one in the new registration.
    const Op old = write_op(source, 0, target, 0, 8, stale);
    post(when(trigger, i, old));
    ASSERT_TRUE(works(nic(1).deregister_region(target.region)));
    ASSERT_EQ(nic(1).key(target.region).status().code(), Code::kNotFound);
    source.store(~i);
    add(trigger, 1);
    ASSERT_TRUE(reaches(stale, CounterValue{0, ++failed})) << "no region is registered";
    ASSERT_NO_FATAL_FAILURE(enroll(target, arrived));
    issue(old);
    ASSERT_TRUE(reaches(stale, CounterValue{0, ++failed})) << "another region is registered";
    ASSERT_EQ(target.load(), i);
  }
  EXPECT_TRUE(reaches(arrived, 60, 1));
}

TEST_P(NicContract, N8_AKeyOfOneNicIsNoneOfAnother) {
  start({.nics = 3});
  Memory& source = memory(0, 8);
  Memory& target = memory(1, 8);
  const CounterId done = counter();
  Op op = write_op(source, 0, target, 0, 8, done);
  op.remote.peer = 2;  // NIC 2 has no region
  issue(op);
  ASSERT_TRUE(reaches(done, CounterValue{0, 1}));
  EXPECT_EQ(target.load(), 0u);
}

// A region stays registered while an entry would read it. Operations that target it are
// the initiator's risk.
TEST_P(NicContract, N8_DeregisterWaitsForEntriesThatNameTheRegion) {
  Memory& source = memory(0, 64);
  Memory& target = memory(1, 64);
  const CounterId trigger = counter();
  const CounterId done = counter();
  post(when(trigger, 1, write_op(source, 0, target, 0, 64, done)));
  refused({Code::kInvalidState}, "deregister a source", [&] { return nic().deregister_region(source.region); });
  EXPECT_EQ(nic().key(source.region).value(), source.key) << "the refused call changed nothing";
  source.fill(3, 0, 64);
  add(trigger, 1);
  ASSERT_TRUE(reaches(done, 1));
  EXPECT_TRUE(target.holds(3, 0, 64));
  EXPECT_TRUE(eventually([&] { return nic().deregister_region(source.region).ok(); }));
  EXPECT_TRUE(works(nic(1).deregister_region(target.region)));
}

// An issued operation keeps its source and its completion counter until it is done, also on
// a busy NIC.
TEST_P(NicContract, N8_IssuedOperationsKeepTheirSourceOnABusyNic) {
  constexpr size_t kBulk = 100'000;
  constexpr uint64_t kCrowd = 1400;
  NEEDS(nic().caps().max_message_bytes >= kBulk, "messages of 100,000 bytes");
  Memory& bulk = memory(0, kBulk);
  Memory& bulk_target = memory(1, kBulk);
  Memory& target = memory(1, 8 * 4);
  const CounterId trigger = counter();
  const CounterId crowd = counter();
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < kCrowd; ++i)
      post_patiently(when(trigger, 0, write_op(bulk, 0, bulk_target, 0, kBulk, crowd)));
    Memory& source = memory(0, 8);
    source.store(round + 1);
    const CounterId done = counter();
    issue(write_op(source, 0, target, 8 * round, 8, done));
    ASSERT_TRUE(eventually([&] { return nic().deregister_region(source.region).ok(); }));
    source.store(0xdead);
    ASSERT_TRUE(eventually([&] { return close(done).ok(); }));
    EXPECT_EQ(target.load(8 * round), round + 1) << "done, with the source's bytes at that time";
    const CounterId fresh = counter();  // may have the same id
    ASSERT_TRUE(reaches(crowd, kCrowd * (round + 1)));
    EXPECT_EQ(value(fresh), (CounterValue{0, 0}));
  }
}

// The target deregisters and frees memory while another NIC writes to it. Each write has landed
// completely and counts on both sides, or it has failed. None lands later.
TEST_P(NicContract, N8_DeregistrationUnderTraffic) {
  std::mt19937_64 random(8);
  struct Traffic {
    size_t slot, slots;
    int rounds;
  };
  for (const Traffic& traffic : {Traffic{256, 1024, 30}, Traffic{1'500'000, 4, 12}}) {
    const size_t slot = traffic.slot;
    const size_t slots = traffic.slots;
    if (slot > nic().caps().max_message_bytes)
      continue;
    Memory& source = memory(0, slot * slots);
    for (size_t i = 0; i < slots; ++i)
      source.fill(i, i * slot, slot);
    for (int round = 0; round < traffic.rounds; ++round) {
      SCOPED_TRACE("round " + std::to_string(round) + " with messages of " + std::to_string(slot));
      const CounterId arrived = counter(1);
      const CounterId done = counter(0);
      const uint64_t failed_before = nic().failures();
      auto target = std::make_unique<Memory>(1, slot * slots);
      ASSERT_NO_FATAL_FAILURE(enroll(*target, arrived));
      std::vector<Op> writes;
      for (size_t i = 0; i < slots; ++i)
        writes.push_back(write_op(source, i * slot, *target, i * slot, slot, done));
      // Frees the memory after this many: in round 0 after all have landed, in round 1
      // before the first.
      const size_t moment = round == 0 ? slots : round == 1 ? 0 : random() % (slots / 2) + 1;
      std::atomic<bool> go = round != 1;
      std::atomic<size_t> issued = 0;
      std::jthread writer([&] {
        go.wait(false);
        for (const Op& op : writes) {
          issue(op);
          issued.fetch_add(1);
        }
      });
      // Without sleep, so that the rest is still in flight.
      EXPECT_TRUE(happens_by_progress([&] { return issued.load() >= moment; }));
      if (round == 0) {
        EXPECT_TRUE(reaches(done, slots));
      }
      EXPECT_TRUE(works(nic(1).deregister_region(target->region)));
      go = true;
      go.notify_one();
      uint64_t landed = 0;
      for (size_t i = 0; i < slots; ++i) {
        const bool whole = target->holds(i, i * slot, slot);
        EXPECT_TRUE(whole || target->is_zero(i * slot, slot)) << "half of write " << i;
        landed += whole;
      }
      EXPECT_TRUE(target->guards_intact());
      target.reset();
      writer.join();
      ASSERT_TRUE(eventually([&] { return value(done).success + nic().failures() - failed_before == slots; }))
          << value(done).success << " succeeded, " << nic().failures() - failed_before << " failed";
      EXPECT_EQ(value(done).success, landed) << "successes must match the bytes in the target";
      EXPECT_TRUE(reaches(arrived, landed, 1));
      if (round < 2) {
        EXPECT_EQ(landed, round == 0 ? slots : 0);
      }
      ASSERT_TRUE(works(close(arrived, 1)));
      ASSERT_TRUE(eventually([&] { return close(done).ok(); }));
      while (nic().take_failure().has_value())
        continue;
    }
  }
}

// ---- N12

// Entries that never fire take every place. Issued operations to any peer need neither a place
// nor a counter.
TEST_P(NicContract, Control_IssuedOperationsNeedNoEntryAndNoCounter) {
  start({.nics = 3, .deferred_depth = 16});
  constexpr size_t kSlot = 256;
  constexpr uint64_t kRounds = 40;
  Memory& source = memory(0, kSlot);
  Memory& one = word(0, 1);
  source.fill(4, 0, kSlot);
  Memory& stuck_target = memory(1, 8);
  const CounterId never = counter();
  post(std::vector<DeferredOp>(depth(), when(never, 1, write_op(one, 0, stuck_target, 0, 8))));
  ASSERT_EQ(nic().free_entries(), 0u);
  for (size_t rank = 0; rank < 3; ++rank) {
    const CounterId arrived = counter(rank);
    Memory& lane = memory(rank, kSlot + 8, arrived);
    for (uint64_t i = 0; i < kRounds; ++i) {
      issue(write_op(source, 0, lane, 0, kSlot));
      issue(sum_op(one, 0, lane, kSlot));
    }
    ASSERT_TRUE(reaches(arrived, 2 * kRounds, rank)) << "at NIC " << rank;
    EXPECT_TRUE(eventually([&] { return lane.load(kSlot) == kRounds; }));
    EXPECT_TRUE(eventually([&] { return lane.holds(4, 0, kSlot); }));
  }
  EXPECT_EQ(nic().free_entries(), 0u);
  EXPECT_EQ(stuck_target.load(), 0u);
  EXPECT_EQ(nic().failures(), 0u);
  add(never, 1);
  EXPECT_TRUE(all_free());
}

// ---- N13

// A failed write fires an atomic whose target the test polls, as a stream would, without any call
// of the NIC.
TEST_P(NicContract, N13_AFailureCountsBeforeConfirmsIsTrue) {
  Memory& source = memory(0, 64);
  Memory& remote = memory(1, 64);
  Memory& one = word(0, 1);
  Memory& mark = memory(0, 8);
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
    const auto marked = [&] { return mark.load() == i; };
    ASSERT_TRUE(works_alone() ? lanyard::eventually(
                                    marked, [] {}, kBound)
                              : happens_by_progress(marked));
    const std::array context{ContextStarts{op.context}};
    if (nic().caps().failures_lag) {
      ASSERT_TRUE(lanyard::eventually([&] { return nic().confirms(context); }, std::this_thread::yield, kBound));
    }
    ASSERT_EQ(nic().failures(), i);
    ASSERT_TRUE(nic().confirms(context));
    const std::optional<FailureRecord> record = nic().take_failure();
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record->context, op.context);
  }
  EXPECT_TRUE(all_free());
}

// Waiting entries are not confirmed, and do not delay the confirmation of others.
TEST_P(NicContract, N13_OperationsInFlightAreNotConfirmed) {
  NEEDS(nic().caps().failures_lag, "failures that lag");
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
    ASSERT_TRUE(works(nic().flush()));
    EXPECT_TRUE(nic().confirms(second)) << "it was canceled";
  } else {
    add(trigger, 1);
    EXPECT_TRUE(eventually([&] { return nic().confirms(second); }));
  }
}

// An issued operation is in flight just as a deferred one.
TEST_P(NicContract, N13_IssuedOperationsAreConfirmedOnceTheyEnd) {
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

#endif  // LANYARD_TESTS_CONTRACT_NIC_CONTRACT_FAILURES_H_
