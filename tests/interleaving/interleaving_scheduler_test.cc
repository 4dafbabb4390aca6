// The scheduler of threads (tests/interleaving), by programs of a few lines whose faults are known.
#include <gtest/gtest.h>
#include <linux/futex.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/interleaving/primitives.h"
#include "tests/interleaving/scheduler.h"

namespace lanyard::interleaving {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// The first fault of many schedules; none where empty.
std::string first_fault(const std::function<void()>& body, const Rules& rules = {}) {
  Scheduler scheduler;
  for (uint64_t seed = 0; seed < 500; ++seed)
    if (const Outcome outcome = scheduler.run(seed, rules, body); !outcome.fault.empty())
      return outcome.fault;
  return "";
}

bool begins_with(const std::string& text, const char* beginning) { return text.rfind(beginning, 0) == 0; }

void sleep_on(Atomic<uint32_t>& word, uint32_t value, Nanoseconds limit) {
  const timespec time{.tv_sec = limit / std::chrono::seconds(1),
                      .tv_nsec = limit % std::chrono::seconds(1) / Nanoseconds(1)};
  futex(reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &time, nullptr, 0);
}
void wake_all(Atomic<uint32_t>& word) {
  futex(reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// Looks, and then sleeps on what it has read last: whoever wakes in between is missed.
void wait_for(Atomic<uint32_t>& word, bool reads_first, Nanoseconds limit) {
  while (true) {
    const uint32_t before = word.load();
    if (before != 0)
      return;
    sleep_on(word, reads_first ? before : word.load(), limit);
  }
}
std::function<void()> waiting(bool reads_first, Nanoseconds limit) {
  return [=] {
    Atomic<uint32_t> word{0};
    Scheduler::running()->set_off();
    Thread waiter("waiter", [&] { wait_for(word, reads_first, limit); });
    word.store(1);
    wake_all(word);
    waiter.join();
  };
}

TEST(Scheduler, FindsALostWakeUp) {
  EXPECT_TRUE(begins_with(first_fault(waiting(false, hours(1))), "asleep for ever: main at"));
  EXPECT_EQ(first_fault(waiting(true, hours(1))), "");
}

TEST(Scheduler, LetsNapsHideOneWhereTheyMay) {
  EXPECT_EQ(first_fault(waiting(false, milliseconds(1))), "");
  EXPECT_TRUE(begins_with(first_fault(waiting(false, milliseconds(1)), {.naps = false}), "goes on after a nap only"));
  EXPECT_EQ(first_fault(waiting(true, milliseconds(1)), {.naps = false}), "");
}

TEST(Scheduler, FindsWhatGoesOnForEver) {
  const auto body = [] {
    Atomic<bool> never{false};
    while (!never.load())
      yield();
  };
  EXPECT_EQ(first_fault(body), "goes on for ever");
}

// Data that is handed over by a flag: every schedule sees it whole, but only some orders make it so.
std::function<void()> handing_over(std::memory_order store, std::memory_order load) {
  return [=] {
    Atomic<bool> flag{false};
    uint32_t data = 0;
    Scheduler::running()->set_off();
    Thread other("other", [&] {
      touch(&data, "the data");
      data = 1;
      flag.store(true, store);
    });
    while (!flag.load(load))
      yield();
    touch(&data, "the data");
    other.join();
  };
}

TEST(Scheduler, FindsDataWithoutAnOrder) {
  constexpr const char* kFault = "two threads touch the data with no order between them";
  EXPECT_EQ(first_fault(handing_over(std::memory_order_release, std::memory_order_acquire)), "");
  EXPECT_EQ(first_fault(handing_over(std::memory_order_seq_cst, std::memory_order_seq_cst)), "");
  EXPECT_EQ(first_fault(handing_over(std::memory_order_relaxed, std::memory_order_acquire)), kFault);
  EXPECT_EQ(first_fault(handing_over(std::memory_order_release, std::memory_order_relaxed)), kFault);
}

TEST(Scheduler, GoesOnAfterAFault) {
  Scheduler scheduler;
  EXPECT_EQ(scheduler.run(1, {}, [] { Scheduler::running()->fail("a fault"); }).fault, "a fault");
  const Outcome outcome = scheduler.run(1, {}, [] { Thread("other", [] {}).join(); });
  EXPECT_EQ(outcome.fault, "");
  EXPECT_GT(outcome.steps, 2u);
}

}  // namespace
}  // namespace lanyard::interleaving
