// The NIC contract: doorbells, and everything that must happen with no host at work.
#ifndef LANYARD_TESTS_NIC_CONTRACT_DOORBELLS_H_
#define LANYARD_TESTS_NIC_CONTRACT_DOORBELLS_H_

#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

TEST_P(NicContract, Doorbell_AddsItsValue) {
  if (!start())
    return;
  for (DoorbellKind kind : doorbell_kinds()) {
    SCOPED_TRACE(kind_name(kind));
    const CounterId c = counter();
    const CounterId other = counter();
    const Doorbell bell = doorbell(c, kind);
    const Doorbell other_bell = doorbell(other, kind);
    uint64_t sum = 0;
    for (uint64_t v : {uint64_t{1}, uint64_t{1}, uint64_t{3}, uint64_t{100}, uint64_t{1} << 33}) {
      ring(bell, v);
      ASSERT_TRUE(reaches(c, sum += v));
    }
    ring(other_bell, 7);
    ASSERT_TRUE(reaches(other, 7));
    settle();
    EXPECT_EQ(value(c), (CounterValue{sum, 0})) << "a ring is counted once";
    // Rings and the host's own additions go together, and a reset takes both back.
    add(c, 5);
    ring(bell, 5);
    ASSERT_TRUE(reaches(c, sum + 10));
    EXPECT_TRUE(is_ok(nic().reset(c)));
    ASSERT_TRUE(reaches(c, 0));
    ring(bell, 2);
    ASSERT_TRUE(reaches(c, 2));
    // Another bell of the same counter is as good.
    ring(doorbell(c, kind), 1);
    ASSERT_TRUE(reaches(c, 3));
    EXPECT_TRUE(is_ok(close(c)));
    EXPECT_TRUE(is_ok(close(other)));
  }
}

// Who ends work that a device starts must know whether it has started more: rings that still lie in memory count.
TEST_P(NicContract, Doorbell_AReadingHasTheRingsBeforeIt) {
  if (!start() || !needs(nic().caps().cancel, "cancel"))
    return;
  if (!needs(nic().caps().doorbell_atomic_add, "doorbell_atomic_add"))
    return;
  const CounterId c = counter();
  const Doorbell bell = doorbell(c, DoorbellKind::kAtomicAdd);
  for (uint64_t i = 1; i <= 1'000; ++i) {
    ring(bell);
    ASSERT_EQ(value(c), (CounterValue{i, 0}));
  }
}

// Rings that come faster than they are looked at are added up, and thresholds among them fire.
TEST_P(NicContract, Doorbell_CoalescedRingsFireEveryThreshold) {
  if (!start())
    return;
  Memory& one = memory(0, 8);
  one.store(1);
  Memory& target = memory(1, 8);
  for (DoorbellKind kind : doorbell_kinds()) {
    SCOPED_TRACE(kind_name(kind));
    const CounterId trigger = counter();
    const CounterId done = counter();
    const Doorbell bell = doorbell(trigger, kind);
    const uint64_t entries = std::min(depth(), 24u);
    uint64_t count = 0;
    for (int round = 0; round < 60; ++round) {
      for (uint64_t i = 1; i <= entries; ++i)
        post_patiently(when(trigger, count + i, sum_op(one, 0, target, 0, done)));
      for (uint64_t rung = 0; rung < entries;) {
        const uint64_t v = round % 3 == 0 ? 1 : std::min<uint64_t>(entries - rung, 1 + rung % 5);
        ring(bell, v);
        rung += v;
      }
      count += entries;
      ASSERT_TRUE(reaches(done, count)) << "round " << round;
    }
    EXPECT_TRUE(reaches(trigger, count));
    settle();
    EXPECT_EQ(value(done), (CounterValue{count, 0}));
  }
}

// No ring of any thread is lost, and what waits for the last of them fires once.
TEST_P(NicContract, Doorbell_ManyThreadsLoseNoRing) {
  if (!start())
    return;
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kRings = 25'000;
  Memory& one = memory(0, 8);
  one.store(1);
  Memory& target = memory(1, 8);
  for (DoorbellKind kind : doorbell_kinds()) {
    SCOPED_TRACE(kind_name(kind));
    target.store(0);
    const CounterId trigger = counter();
    const CounterId done = counter();
    const Doorbell bell = doorbell(trigger, kind);
    const uint64_t total = kThreads * kRings;
    post(when(trigger, total + 1, sum_op(one, 0, target, 0, done)));
    post(when(trigger, total, sum_op(one, 0, target, 0, done)));
    {
      std::vector<std::jthread> threads;
      for (uint64_t t = 0; t < kThreads; ++t)
        threads.emplace_back([&] {
          for (uint64_t i = 0; i < kRings; ++i)
            ring(bell);
        });
      uint64_t last = 0;
      for (int i = 0; i < 1000; ++i) {
        const uint64_t now = value(trigger).success;
        EXPECT_GE(now, last) << "a counter that is only added to never falls";
        EXPECT_LE(now, total);
        last = now;
      }
    }
    ASSERT_TRUE(reaches(trigger, total));
    ASSERT_TRUE(reaches(done, 1));
    settle();
    EXPECT_EQ(value(done), (CounterValue{1, 0})) << "one ring is still missing for the other";
    EXPECT_EQ(target.load(), 1u);
    ring(bell);
    ASSERT_TRUE(reaches(done, 2));
  }
}

// An entry that is posted while its trigger rises sees either the old count or the new one, and
// fires.
TEST_P(NicContract, Doorbell_RacesWithPosting) {
  if (!start())
    return;
  constexpr uint64_t kRounds = 2000;
  Memory& one = memory(0, 8);
  one.store(1);
  Memory& target = memory(1, 8);
  for (DoorbellKind kind : doorbell_kinds()) {
    SCOPED_TRACE(kind_name(kind));
    const CounterId trigger = counter();
    const CounterId done = counter();
    const Doorbell bell = doorbell(trigger, kind);
    std::atomic<uint64_t> round = 0;
    std::jthread ringer([&] {
      for (uint64_t i = 1; i <= kRounds; ++i) {
        uint64_t now;
        while ((now = round.load()) < i)
          round.wait(now);
        if (now > kRounds)
          return;
        ring(bell);
      }
    });
    bool ok = true;
    for (uint64_t i = 1; ok && i <= kRounds; ++i) {
      round = i;
      round.notify_one();
      post_patiently(when(trigger, i, sum_op(one, 0, target, 0, done)));
      ok = eventually([&] { return value(done).success == i; });
      EXPECT_TRUE(ok) << "round " << i << ": " << value(trigger).success << " rung, " << value(done).success << " done";
    }
    round = kRounds + 1;  // lets the ringer go where a round failed
    round.notify_one();
  }
}

// ---- The device works alone: below, the host makes no call at all between the ring and the effect

TEST_P(NicContract, Alone_AWriteAndItsFlag) {
  if (!start())
    return;
  if (!works_alone())
    return;
  constexpr size_t kBytes = 2000;
  Memory& data = memory(0, kBytes);
  Memory& number = memory(0, 8);
  Memory& target = memory(1, kBytes);
  Memory& flag = memory(1, 8);
  for (DoorbellKind kind : doorbell_kinds()) {
    SCOPED_TRACE(kind_name(kind));
    const CounterId trigger = counter();
    const CounterId written = counter();
    const CounterId flagged = counter();
    const Doorbell bell = doorbell(trigger, kind);
    flag.store(0);
    for (uint64_t i = 1; i <= 20; ++i) {
      data.fill(i, 0, kBytes);
      number.store(i);
      post(when(trigger, i, write_op(data, 0, target, 0, kBytes, written)));
      post(when(written, i, atomic_op(AtomicKind::kReplace, number, 0, flag, 0, flagged)));
      // Long enough, now and then, for whatever works in there to fall asleep.
      if (i % 5 == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ring(bell);
      ASSERT_TRUE(happens_without_us([&] { return flag.load() == i; })) << "message " << i;
      ASSERT_TRUE(target.holds(i, 0, kBytes)) << "message " << i;
      ASSERT_TRUE(reaches(flagged, i));
    }
  }
}

// The clear-to-send: sender's bell and receiver's atomic, in either order, fire the write at an
// even count.
TEST_P(NicContract, Alone_ClearToSend) {
  if (!start())
    return;
  if (!works_alone())
    return;
  Memory& one = memory(1, 8);
  one.store(1);
  Memory& data = memory(0, 8);
  Memory& target = memory(1, 8);
  for (DoorbellKind kind : doorbell_kinds()) {
    SCOPED_TRACE(kind_name(kind));
    target.store(0);
    const CounterId ready = counter(0);
    const CounterId go = counter(1);
    Memory& cts = memory(0, 8, ready);
    const Doorbell sender = doorbell(ready, kind, 0);
    for (uint64_t i = 1; i <= 10; ++i) {
      data.store(i);
      post(when(ready, 2 * i, atomic_op(AtomicKind::kReplace, data, 0, target, 0)), 0);
      post(when(go, i, sum_op(one, 0, cts, 0)), 1);
      const Doorbell receiver = doorbell(go, doorbell_kinds(1).front(), 1);
      if (i % 2)
        ring(sender);
      else
        ring(receiver);
      std::this_thread::sleep_for(std::chrono::milliseconds(i % 5 == 0 ? 50 : 5));
      EXPECT_EQ(target.load(), i - 1) << "one of two is not enough";
      if (i % 2)
        ring(receiver);
      else
        ring(sender);
      ASSERT_TRUE(happens_without_us([&] { return target.load() == i; })) << "start " << i;
    }
  }
}

TEST_P(NicContract, Alone_AChainOverThreeNics) {
  if (!start({.nics = 3}))
    return;
  if (!works_alone())
    return;
  constexpr uint64_t kRounds = 20;
  std::vector<CounterId> arrived;
  std::vector<Memory*> word;
  for (size_t rank = 0; rank < 3; ++rank) {
    arrived.push_back(counter(rank));
    word.push_back(&memory(rank, 8, arrived[rank]));
  }
  Memory& ones = memory(0, 8);
  ones.store(1);
  Memory& one1 = memory(1, 8);
  one1.store(1);
  Memory& one2 = memory(2, 8);
  one2.store(1);
  const CounterId trigger = counter();
  const Doorbell bell = doorbell(trigger, doorbell_kinds().front());
  for (uint64_t i = 1; i <= kRounds; ++i) {
    post(when(trigger, i, sum_op(ones, 0, *word[1], 0)), 0);
    post(when(arrived[1], i, sum_op(one1, 0, *word[2], 0)), 1);
    post(when(arrived[2], i, sum_op(one2, 0, *word[0], 0)), 2);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(word[0]->load(), 0u);
  for (uint64_t i = 1; i <= kRounds; ++i) {
    ring(bell);
    ASSERT_TRUE(happens_without_us([&] { return word[0]->load() == i; })) << "round " << i;
    EXPECT_EQ(word[1]->load(), i);
    EXPECT_EQ(word[2]->load(), i);
  }
}

// Nobody calls, nobody waits, and yet slots are freed: a host that only looks at free_entries()
// sees them come back.
TEST_P(NicContract, Alone_EntriesComeBack) {
  if (!start({.deferred_depth = 16}))
    return;
  if (!works_alone())
    return;
  Memory& one = memory(0, 8);
  Memory& target = memory(1, 8);
  const CounterId trigger = counter();
  const Doorbell bell = doorbell(trigger, doorbell_kinds().front());
  for (uint64_t i = 1; i <= 10; ++i) {
    post(std::vector<DeferredOp>(depth(), when(trigger, i, sum_op(one, 0, target, 0))));
    ring(bell);
    ASSERT_TRUE(happens_without_us([&] { return nic().free_entries() == depth(); }));
  }
}

// While someone attends, the device may leave the work to whoever calls progress(); when the last
// one has left, it is on its own again, with what had come in the meantime too.
TEST_P(NicContract, Alone_AgainAfterTheLastAttendantLeft) {
  if (!start())
    return;
  if (!works_alone())
    return;
  Memory& one = memory(0, 8);
  one.store(1);
  Memory& target = memory(1, 8);
  const CounterId trigger = counter();
  const Doorbell bell = doorbell(trigger, doorbell_kinds().front());
  const auto attend = [&] {
    nic(0).attend();
    nic(1).attend();
  };
  const auto leave = [&] {
    nic(0).leave();
    nic(1).leave();
  };
  uint64_t rings = 0;
  const auto ring_one = [&] {
    post_patiently(when(trigger, ++rings, sum_op(one, 0, target, 0)));
    ring(bell);
  };
  for (int round = 0; round < 30; ++round) {
    attend();
    attend();
    ring_one();
    ASSERT_TRUE(happens_by_progress([&] { return target.load() == rings; })) << "attended twice";
    leave();
    ring_one();
    ASSERT_TRUE(happens_by_progress([&] { return target.load() == rings; })) << "attended once";
    if (round % 2)
      ring_one();  // and nobody calls progress() for it
    leave();
    ASSERT_TRUE(happens_without_us([&] { return target.load() == rings; })) << "left behind";
    if (round % 10 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ring_one();
    ASSERT_TRUE(happens_without_us([&] { return target.load() == rings; })) << "rung afterwards";
  }
}

// ---- Even counts, for long

TEST_P(NicContract, ClearToSend_TwoHundredStarts) {
  if (!start())
    return;
  constexpr size_t kBytes = 256;
  constexpr uint64_t kStarts = 200;
  const CounterId ready = counter(0);
  const CounterId sent = counter(0);
  const CounterId given = counter(1);
  const CounterId arrived = counter(1);
  Memory& cts = memory(0, 8, ready);
  Memory& one = memory(1, 8);
  one.store(1);
  Memory& data = memory(0, kBytes);
  Memory& target = memory(1, kBytes, arrived);
  std::vector<Doorbell> bells;
  for (DoorbellKind kind : doorbell_kinds())
    bells.push_back(doorbell(ready, kind));
  std::mt19937_64 random(2);
  for (uint64_t i = 1; i <= kStarts; ++i) {
    post(when(ready, 2 * i, write_op(data, 0, target, 0, kBytes, sent)), 0);
    const bool sender_first = random() % 2;
    const Doorbell& bell = bells[random() % bells.size()];
    const auto sender = [&] {
      data.fill(i, 0, kBytes);  // what the stream computed just before it rang
      ring(bell);
    };
    const auto receiver = [&] { issue(sum_op(one, 0, cts, 0, given), 1); };
    if (sender_first)
      sender();
    else
      receiver();
    // Sometimes both are under way at once; sometimes one is there for long and must not do.
    if (i % 10 == 0) {
      settle(std::chrono::milliseconds(3));
      EXPECT_EQ(value(arrived, 1), (CounterValue{i - 1, 0})) << "start " << i << " had one of two";
    }
    if (sender_first)
      receiver();
    else
      sender();
    ASSERT_TRUE(reaches(sent, i)) << "start " << i;
    ASSERT_TRUE(reaches(arrived, i, 1)) << "start " << i;
    ASSERT_TRUE(target.holds(i, 0, kBytes)) << "start " << i;
    ASSERT_TRUE(reaches(given, i, 1));
  }
  EXPECT_TRUE(reaches(ready, 2 * kStarts));
  EXPECT_EQ(cts.load(), kStarts);
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_DOORBELLS_H_
