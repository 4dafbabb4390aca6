// W5: which threads are woken, and that no wake-up is lost.
//
// A wire may end a sleep early, as shm checks its peers every 100 ms. "Not woken" means asleep for
// at least kLong. On a loaded machine a wake-up may be late, so a row tries several times and one
// must be in time.
#ifndef LANYARD_TESTS_WIRE_CONTRACT_SLEEP_H_
#define LANYARD_TESTS_WIRE_CONTRACT_SLEEP_H_

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "tests/nicsim/wire_contract_fixture.h"

namespace lanyard::wire_contract {

inline constexpr milliseconds kLong{95};
inline constexpr milliseconds kLimit{300};
inline constexpr int kTries = 8;

// A thread that sleeps once.
class OneSleep {
 public:
  OneSleep(Wire& wire, Sleeper who, milliseconds timeout = kLimit, std::function<void()> afterwards = {})
      : thread_([this, &wire, who, timeout, afterwards = std::move(afterwards)] {
          const steady_clock::time_point start = steady_clock::now();
          wire.sleep(who, timeout, [this] { return visible_ = true; });
          length_ = steady_clock::now() - start;
          if (afterwards)
            afterwards();
        }) {
    while (!visible_)
      std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(5));  // from visible to asleep
  }
  ~OneSleep() {
    if (thread_.joinable())
      thread_.join();
  }
  // Waits for the end of the sleep.
  bool was_woken() {
    if (thread_.joinable())
      thread_.join();
    return length_ < kLong;
  }

 private:
  std::atomic<bool> visible_{false};
  steady_clock::duration length_{};
  std::thread thread_;
};

// Two wires that have exchanged packets, so all connections exist.
struct WarmJob : Job {
  explicit WarmJob(const WireCase& wire) : Job(wire, 2) { warm_up(); }
  void warm_up() {
    wires[0]->send(1, atomic_packet(0, 0), nullptr);
    wires[1]->send(0, atomic_packet(1, 0), nullptr);
    EXPECT_TRUE(pump([&] { return sinks[0].count(What::kAtomic) == 1 && sinks[1].count(What::kAtomic) == 1; }));
    settle();
  }
  void ping() { wires[0]->send(1, atomic_packet(0, 1), nullptr); }
  // Polls until rank 1 has nothing left, so that the next try begins with nothing waiting.
  void clear() { settle(milliseconds(5)); }
};

inline bool once_in_many(const std::function<bool()>& attempt) {
  for (int i = 0; i < kTries; ++i) {
    if (attempt())
      return true;
  }
  return false;
}

TEST_P(WireContract, W5_AnArrivalWakesTheOwnerIfNoHelperSleeps) {
  WarmJob job(GetParam());
  EXPECT_TRUE(once_in_many([&] {
    OneSleep owner(*job.wires[1], Sleeper::kOwner);
    job.ping();
    const bool woken = owner.was_woken();
    job.clear();
    return woken;
  }));
}

TEST_P(WireContract, W5_TheOwnerSleepsOnIfAHelperWakes) {
  WarmJob job(GetParam());
  EXPECT_TRUE(once_in_many([&] {
    OneSleep owner(*job.wires[1], Sleeper::kOwner);
    OneSleep helper(*job.wires[1], Sleeper::kHelper, kLimit, [&] { job.poll(1); });
    job.ping();
    const bool helper_woken = helper.was_woken();
    const bool owner_woken = owner.was_woken();
    job.clear();
    return helper_woken && !owner_woken;
  }));
}

TEST_P(WireContract, W5_AnArrivalWakesNoThreadWhileOneAttends) {
  WarmJob job(GetParam());
  job.wires[1]->attend();
  OneSleep owner(*job.wires[1], Sleeper::kOwner);
  OneSleep helper(*job.wires[1], Sleeper::kHelper);
  job.ping();
  EXPECT_FALSE(helper.was_woken());
  EXPECT_FALSE(owner.was_woken());
  job.clear();
  job.wires[1]->leave();
}

TEST_P(WireContract, W5_TheLastThreadToLeaveHandsOverArrivals) {
  WarmJob job(GetParam());
  EXPECT_TRUE(once_in_many([&] {
    job.wires[1]->attend();
    job.wires[1]->attend();
    OneSleep owner(*job.wires[1], Sleeper::kOwner);
    job.ping();
    std::this_thread::sleep_for(milliseconds(5));
    job.wires[1]->leave();
    job.wires[1]->leave();
    const bool woken = owner.was_woken();
    job.clear();
    return woken;
  }));
}

TEST_P(WireContract, W5_WakeWakesAllOfItsKindAndNoneOfTheOther) {
  WarmJob job(GetParam());
  EXPECT_TRUE(once_in_many([&] {
    OneSleep owner(*job.wires[1], Sleeper::kOwner);
    OneSleep first(*job.wires[1], Sleeper::kHelper);
    OneSleep second(*job.wires[1], Sleeper::kHelper);
    job.wires[1]->wake(Sleeper::kHelper);
    const bool helpers = first.was_woken() && second.was_woken();
    return helpers && !owner.was_woken();
  }));
  EXPECT_TRUE(once_in_many([&] {
    OneSleep owner(*job.wires[1], Sleeper::kOwner);
    OneSleep helper(*job.wires[1], Sleeper::kHelper);
    job.wires[1]->wake(Sleeper::kOwner);
    const bool woken = owner.was_woken();
    return woken && !helper.was_woken();
  }));
}

TEST_P(WireContract, W5_SleepEndsAtOnceIfThereIsSomethingToDo) {
  WarmJob job(GetParam());
  const auto length = [&](milliseconds timeout, const Wire::Idle& idle = {}) {
    const steady_clock::time_point start = steady_clock::now();
    job.wires[1]->sleep(Sleeper::kHelper, timeout, idle);
    return steady_clock::now() - start;
  };
  // A packet waits.
  EXPECT_TRUE(once_in_many([&] {
    job.ping();
    const bool short_sleep = length(kLimit) < kLong;
    job.clear();
    return short_sleep;
  }));
  // idle() is false.
  EXPECT_TRUE(once_in_many([&] { return length(kLimit, [] { return false; }) < kLong; }));
  // The timeout is 0.
  EXPECT_TRUE(once_in_many([&] { return length(milliseconds(0)) < kLong; }));
  // The timeout is short.
  EXPECT_TRUE(once_in_many([&] {
    const auto slept = length(milliseconds(20));
    return slept >= milliseconds(20) && slept < kLong;
  }));
}

// A sleep this long means a lost wake-up.
inline constexpr seconds kForever{20};
inline constexpr seconds kMuchTooLong{15};

inline WireCase patient(WireCase wire) {
  wire.make = wire.make_patient;
  return wire;
}

// Returns whether the wake-up was lost.
inline bool sleep_for_ever(Wire& wire, Sleeper who) {
  const steady_clock::time_point start = steady_clock::now();
  wire.sleep(who, kForever);
  return steady_clock::now() - start > kMuchTooLong;
}

TEST_P(WireContract, W5_NoWakeupIsLostIfBothAlwaysSleep) {
  WarmJob job(patient(GetParam()));
  constexpr uint32_t kCount = 50000 / kSlow;
  std::atomic<int> lost{0};
  const auto play = [&](uint32_t rank) {
    const size_t before = job.sinks[rank].count(What::kAtomic);
    for (uint32_t i = 0; i < kCount && lost == 0; ++i) {
      if (rank == 0)
        job.wires[0]->send(1, atomic_packet(0, i), nullptr);
      while (job.sinks[rank].count(What::kAtomic) == before + i && lost == 0) {
        if (job.poll(rank) > 0)
          continue;
        const Sleeper who = i % 2 == 0 ? Sleeper::kHelper : Sleeper::kOwner;
        lost += sleep_for_ever(*job.wires[rank], who);
      }
      if (rank == 1)
        job.wires[1]->send(0, atomic_packet(1, i), nullptr);
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  EXPECT_EQ(lost, 0);
}

}  // namespace lanyard::wire_contract

#endif  // LANYARD_TESTS_WIRE_CONTRACT_SLEEP_H_
