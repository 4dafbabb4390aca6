// The NIC contract: doorbells, everything that must happen while the host does nothing, many
// threads on one NIC, sleep, and listeners (N11).
#ifndef LANYARD_TESTS_NIC_CONTRACT_ALONE_H_
#define LANYARD_TESTS_NIC_CONTRACT_ALONE_H_

#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

TEST_P(NicContract, Doorbell_AddsItsValue) {
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
    EXPECT_EQ(value(c), (CounterValue{sum, 0})) << "a ring counts once";
    // Rings and the host's own additions count together, and a reset clears both.
    add(c, 5);
    ring(bell, 5);
    ASSERT_TRUE(reaches(c, sum + 10));
    EXPECT_TRUE(works(nic().reset(c)));
    ASSERT_TRUE(reaches(c, 0));
    ring(bell, 2);
    ASSERT_TRUE(reaches(c, 2));
    // Another bell of the same counter works as well.
    ring(doorbell(c, kind), 1);
    ASSERT_TRUE(reaches(c, 3));
    EXPECT_TRUE(works(close(c)));
    EXPECT_TRUE(works(close(other)));
  }
}

// A reading includes rings that are still in memory, since a caller that ends started work must
// know them all.
TEST_P(NicContract, Doorbell_AReadingIncludesEarlierRings) {
  NEEDS(nic().caps().cancel, "cancel");
  NEEDS(nic().caps().doorbell_atomic_add, "doorbell_atomic_add");
  const CounterId c = counter();
  const Doorbell bell = doorbell(c, DoorbellKind::kAtomicAdd);
  for (uint64_t i = 1; i <= 1'000; ++i) {
    ring(bell);
    ASSERT_EQ(value(c), (CounterValue{i, 0}));
  }
}

// No ring of any thread is lost, and an entry that waits for the last one fires once.
TEST_P(NicContract, Doorbell_ManyThreadsLoseNoRing) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kRings = 25'000;
  Memory& one = word(0, 1);
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
    EXPECT_EQ(value(done), (CounterValue{1, 0})) << "the other entry needs one more ring";
    EXPECT_EQ(target.load(), 1u);
    ring(bell);
    ASSERT_TRUE(reaches(done, 2));
  }
}

// An entry posted while its trigger rises sees the old count or the new one, and fires.
TEST_P(NicContract, Doorbell_RacesWithPosting) {
  constexpr uint64_t kRounds = 2000;
  Memory& one = word(0, 1);
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
    round = kRounds + 1;  // stops the ringer if a round failed
    round.notify_one();
  }
}

// ---- The device works alone: from the ring to its effect the host makes no call

TEST_P(NicContract, Alone_AWriteAndItsFlag) {
  NEEDS(works_alone(), "a device that works while no thread calls it");
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
    flag.store(0);
    for (uint64_t i = 1; i <= 20; ++i) {
      data.fill(i, 0, kBytes);
      number.store(i);
      post(when(trigger, i, write_op(data, 0, target, 0, kBytes, written)));
      post(when(written, i, atomic_op(AtomicKind::kReplace, number, 0, flag, 0, flagged)));
      // Long enough for the NIC's thread to fall asleep: handing out the bell must wake it.
      if (i % 5 == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(i == 1 ? 250 : 50));
      ring(doorbell(trigger, kind));
      ASSERT_TRUE(happens_without_us([&] { return flag.load() == i; })) << "message " << i;
      ASSERT_TRUE(target.holds(i, 0, kBytes)) << "message " << i;
      ASSERT_TRUE(reaches(flagged, i));
    }
  }
}

// The sender's bell and the receiver's clear-to-send, in either order, fire the write at
// an even count.
TEST_P(NicContract, Alone_ClearToSend) {
  NEEDS(works_alone(), "a device that works while no thread calls it");
  Memory& one = word(1, 1);
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
      EXPECT_EQ(target.load(), i - 1) << "one of the two is not enough";
      if (i % 2)
        ring(receiver);
      else
        ring(sender);
      ASSERT_TRUE(happens_without_us([&] { return target.load() == i; })) << "start " << i;
    }
  }
}

// A host that only calls free_entries() sees places become free.
TEST_P(NicContract, Alone_EntriesBecomeFree) {
  start({.deferred_depth = 16});
  NEEDS(works_alone(), "a device that works while no thread calls it");
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

// While a thread attends, the device may leave its work to progress(). After the last leave() it
// works alone again.
TEST_P(NicContract, Alone_AgainAfterTheLastLeave) {
  NEEDS(works_alone(), "a device that works while no thread calls it");
  Memory& one = word(0, 1);
  Memory& target = memory(1, 8);
  const CounterId trigger = counter();
  const auto attend = [&] {
    nic(0).attend();
    nic(1).attend();
  };
  const auto leave = [&] {
    nic(0).leave();
    nic(1).leave();
  };
  // A bell handed out while a thread attends and the NIC's thread sleeps.
  uint64_t rings = 1;
  post(when(trigger, rings, sum_op(one, 0, target, 0)));
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  attend();
  const Doorbell bell = doorbell(trigger, doorbell_kinds().front());
  leave();
  ring(bell);
  ASSERT_TRUE(happens_without_us([&] { return target.load() == rings; }));
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
      ring_one();  // no call of progress() follows
    leave();
    ASSERT_TRUE(happens_without_us([&] { return target.load() == rings; })) << "left behind";
    if (round % 10 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ring_one();
    ASSERT_TRUE(happens_without_us([&] { return target.load() == rings; })) << "rung afterwards";
  }
}

// ---- Many threads, and sleep

TEST_P(NicContract, Threads_OpenAndCloseEverything) {
  constexpr uint64_t kCycles = 150;
  Memory& source = word(1, 1);
  const CounterId done = counter(1);
  constexpr uint64_t kThreads = 4;
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        Memory mine(0, 8);
        for (uint64_t i = 0; i < kCycles; ++i) {
          Result<CounterId> id = nic().open_counter();
          ASSERT_TRUE(works(id.status()));
          ASSERT_EQ(nic().read(id.value()).value(), (CounterValue{0, 0}));
          Result<RegionId> region = nic().register_region(mine.data(), 8, id.value());
          ASSERT_TRUE(works(region.status()));
          mine.region = region.value();
          mine.key = nic().key(mine.region).value();
          ASSERT_TRUE(works(nic().add(id.value(), t)));
          issue(sum_op(source, 0, mine, 0, done), 1);
          ASSERT_TRUE(eventually([&] {
            return nic().read(id.value()).value() == CounterValue{t + 1, 0};
          })) << "another thread's counter, or a lost message";
          ASSERT_EQ(mine.load(), i + 1);
          ASSERT_TRUE(works(nic().deregister_region(mine.region)));
          ASSERT_TRUE(works(nic().close_counter(id.value())));
        }
      });
  }
  EXPECT_TRUE(reaches(done, kThreads * kCycles, 1));
  EXPECT_EQ(nic(1).failures(), 0u);
}

// A thread that reads activity(), checks its condition and sleeps since that reading misses
// nothing. A miss would sleep past the bound.
TEST_P(NicContract, Threads_WaitSinceMissesNothing) {
  constexpr uint64_t kMessages = 400;
  Memory& one = word(0, 1);
  const CounterId arrived = counter(1);
  Memory& target = memory(1, 8, arrived);
  Memory& words = memory(0, 8);
  Memory& back = word(1, 1);
  const CounterId done = counter();
  // True if it saw the change in time, checking as the rules say.
  const auto sleeps_until = [&](size_t rank, const auto& pred) {
    const auto deadline = std::chrono::steady_clock::now() + kBound;
    while (true) {
      nic(rank).progress();
      const uint64_t seen = nic(rank).activity();
      if (pred())
        return true;
      if (std::chrono::steady_clock::now() > deadline)
        return false;
      nic(rank).wait_since(seen, 2 * kBound);
    }
  };
  // NIC 1's sleeper answers every message; NIC 0's sends the next one on the answer.
  std::atomic<bool> over = false;
  std::jthread answering([&] {
    for (uint64_t i = 1; i <= kMessages && !over; ++i) {
      if (!sleeps_until(1, [&] { return target.load() >= i || over; }))
        return;
      issue(sum_op(back, 0, words, 0), 1);
    }
  });
  bool ok = true;
  for (uint64_t i = 1; ok && i <= kMessages; ++i) {
    issue(sum_op(one, 0, target, 0, done));
    ok = sleeps_until(0, [&] { return words.load() == i; });
    EXPECT_TRUE(ok) << "message " << i << ", " << target.load() << " arrived, " << words.load() << " answered";
    if (i % 100 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  over = true;
  if (!ok)
    issue(sum_op(one, 0, target, 0, done));  // wakes the other thread, which then sees `over`
  answering.join();
  EXPECT_TRUE(ok);
  // By a counter, with one thread in both roles.
  for (uint64_t i = 1; ok && i <= 100; ++i) {
    issue(sum_op(one, 0, target, 0, done));
    ok = sleeps_until(0, [&] { return value(done).success == kMessages + i; });
    EXPECT_TRUE(ok) << "completion " << i;
  }
  const uint64_t old = nic().activity();
  issue(sum_op(one, 0, target, 0, done));
  EXPECT_TRUE(eventually([&] { return nic().activity() != old; })) << "activity() grows with every step";
  nic().wait_since(old, 2 * kBound);  // returns at once
  EXPECT_GE(nic().activity(), old) << "activity() never falls";
}

// Threads that wake and sleep again without driving do not stop the device.
TEST_P(NicContract, Alone_AmongThreadsThatOnlySleep) {
  NEEDS(works_alone(), "a device that works while no thread calls it");
  Memory& one = word(0, 1);
  Memory& back = word(1, 1);
  const CounterId arrived = counter(1);
  Memory& there = memory(1, 8, arrived);
  Memory& here = memory(0, 8);
  const CounterId trigger = counter();
  const Doorbell bell = doorbell(trigger, doorbell_kinds().front());
  for (uint64_t i = 1; i <= 20; ++i) {
    post(when(trigger, i, sum_op(one, 0, there, 0)), 0);
    post(when(arrived, i, sum_op(back, 0, here, 0)), 1);
  }
  std::atomic<bool> over = false;
  {
    std::vector<std::jthread> sleepers;
    for (size_t rank : {0, 1})
      sleepers.emplace_back([&, rank] {
        while (!over)
          nic(rank).wait_since(nic(rank).activity(), std::chrono::milliseconds(200));
      });
    for (uint64_t i = 1; i <= 20; ++i) {
      ring(bell);
      EXPECT_TRUE(happens_without_us([&] { return here.load() == i; })) << "round " << i;
      if (HasFailure())
        break;
    }
    over = true;
  }
}

// ---- Listeners, which are called even if their process makes no call (N11)

// Skips the rest of a row if the NIC has no listeners.
#define LISTEN_OR_SKIP(nic, counter, listener)                  \
  const Status listening = (nic).listen((counter), (listener)); \
  if (listening.code() == Code::kUnsupported)                   \
    GTEST_SKIP() << listening.message();                        \
  ASSERT_TRUE(works(listening))

// Counts its calls.
struct Ear {
  std::atomic<uint64_t> calls{0};
  nic::Listener listener() {
    return {[](void* object) { static_cast<Ear*>(object)->calls.fetch_add(1); }, this};
  }
};

// The target makes no call: its NIC's own thread receives the message and calls the listener.
TEST_P(NicContract, Listener_IsCalledWhileItsProcessDoesNothing) {
  Ear ear;
  const CounterId done = counter();
  const CounterId arrivals = counter(1);
  LISTEN_OR_SKIP(nic(1), arrivals, ear.listener());
  Memory& source = memory(0, 64);
  Memory& target = memory(1, 64, arrivals);
  for (uint64_t message = 1; message <= 20; ++message) {
    const uint64_t before = ear.calls.load();
    source.store(message);
    issue(message % 2 == 0 ? sum_op(source, 0, target, 8, done) : write_op(source, 0, target, 0, 8, done));
    ASSERT_TRUE(happens_without_us([&] { return ear.calls.load() > before; })) << "message " << message;
    ASSERT_EQ(value(arrivals, 1).success, message);
    ASSERT_TRUE(reaches(done, message));  // only now may the test change the source
    if (message % 5 == 0)                 // long enough for a thread to fall asleep
      std::this_thread::sleep_for(std::chrono::milliseconds(120));
  }
  EXPECT_TRUE(works(nic(1).listen(arrivals, {})));
}

TEST_P(NicContract, Listener_IsCalledOnceMoreAfterTheLastOfMany) {
  constexpr uint64_t kMessages = 500;
  Ear ear;
  const CounterId arrivals = counter(1);
  LISTEN_OR_SKIP(nic(1), arrivals, ear.listener());
  Memory& source = memory(0, 64);
  Memory& target = memory(1, 64, arrivals);
  std::thread sender([&] {
    for (uint64_t i = 0; i < kMessages; ++i)
      issue(write_op(source, 0, target, 0, 8));
  });
  // A listener that reads the counter only when called sees everything in the end.
  uint64_t seen_calls = 0;
  uint64_t seen = 0;
  const bool all = happens_without_us([&] {
    const uint64_t calls = ear.calls.load();
    if (calls != seen_calls) {
      seen_calls = calls;
      seen = value(arrivals, 1).success;
    }
    return seen == kMessages;
  });
  sender.join();
  EXPECT_TRUE(all) << seen << " of " << kMessages;
  EXPECT_TRUE(works(nic(1).listen(arrivals, {})));
}

TEST_P(NicContract, Listener_IsNotCalledForOtherCountersNorAfterItsRemoval) {
  Ear ear;
  const CounterId arrivals = counter(1);
  const CounterId other = counter(1);
  LISTEN_OR_SKIP(nic(1), arrivals, ear.listener());
  Memory& source = memory(0, 64);
  Memory& target = memory(1, 64, arrivals);
  Memory& elsewhere = memory(1, 64, other);
  const CounterId done = counter();
  issue(write_op(source, 0, target, 0, 8, done));
  ASSERT_TRUE(reaches(arrivals, 1, 1));
  ASSERT_TRUE(eventually([&] { return ear.calls.load() > 0; }));
  settle();
  const uint64_t before = ear.calls.load();
  issue(write_op(source, 0, elsewhere, 0, 8, done));
  ASSERT_TRUE(reaches(other, 1, 1));
  settle();
  EXPECT_EQ(ear.calls.load(), before);
  ASSERT_TRUE(works(nic(1).listen(arrivals, {})));
  issue(write_op(source, 0, target, 0, 8, done));
  ASSERT_TRUE(reaches(arrivals, 2, 1));
  settle();
  EXPECT_EQ(ear.calls.load(), before);
}

TEST_P(NicContract, Listener_OnePerNicAndOnlyForAnOpenCounter) {
  Ear first, second;
  const CounterId arrivals = counter();
  LISTEN_OR_SKIP(nic(), arrivals, first.listener());
  refused({Code::kInvalidState}, "a second listener", [&] { return nic().listen(arrivals, second.listener()); });
  refused({Code::kInvalidState}, "closing a counter with a listener", [&] { return nic().close_counter(arrivals); });
  ASSERT_TRUE(works(nic().listen(arrivals, {})));
  refused({Code::kNotFound}, "a counter that is not open", [&] { return nic().listen({}, second.listener()); });
  EXPECT_TRUE(works(nic().listen(arrivals, second.listener())));
  EXPECT_TRUE(works(nic().listen(arrivals, {})));
  EXPECT_EQ(second.calls.load(), 0u);
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_ALONE_H_
