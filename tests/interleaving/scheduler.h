// Scheduler: runs a program of several threads on one, in an order that a seed decides. Its threads are fibers. Each
// hands over before every operation that others can see (primitives.h), and after every write, and the strategy says
// who goes on; so a seed is a schedule, and runs again as it ran.
//
// Time is virtual. It goes on a little at every look at the clock, sometimes by a leap, and to the end of a nap once
// nobody can go on. A nap is a sleep of at most kLongestNap. Longer limits never pass: whoever needs them to has lost
// its wake-up, and that is a fault. So is a nap that ends a program's standstill where Rules::naps says that none need.
//
// What it cannot find: memory is sequentially consistent. A store that passes a later load (two threads that miss each
// other for want of memory_order_seq_cst) never happens; what acquire and release lack is found where data says that it
// is touched (touch()).
#ifndef LANYARD_TESTS_INTERLEAVING_SCHEDULER_H_
#define LANYARD_TESTS_INTERLEAVING_SCHEDULER_H_

#include <ucontext.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/interleaving/happens_before.h"
#include "tests/interleaving/strategy.h"

namespace lanyard::interleaving {

using Nanoseconds = std::chrono::nanoseconds;
inline constexpr Nanoseconds kLongestNap = std::chrono::milliseconds(10);

// A place in the sources, where it is the default of a parameter: the caller's.
struct Where {
  const char* file;
  int line;
  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

enum class Act : uint8_t { kLoad, kStore, kModify, kYield, kClock, kLock, kSleep, kWake, kSettle, kStart, kJoin, kEnd };

struct Rules {
  bool naps = true;              // whether the program may need a nap to go on
  uint64_t most_steps = 60'000;  // more are a program that goes on for ever
  bool tells = false;            // prints every step
};

// How a schedule ended.
struct Outcome {
  std::string fault;  // none where empty
  uint64_t steps = 0;
  uint64_t hash = 0xcbf29ce484222325;  // of all steps: who, what and where
};

// One at a time in a process. After a fault its fibers are left where they are, with all that they own.
class Scheduler {
 public:
  Scheduler();
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Runs body() as the first thread until every thread has ended, or there is a fault.
  Outcome run(uint64_t seed, const Rules& rules, std::function<void()> body);

  // The one that runs the calling fiber; null outside.
  static Scheduler* running();
  // The number of the running fiber.
  uint32_t thread() const { return current_; }

  // ---- For the running fiber
  // Others may go on here.
  void step(Act act, Where where);
  // Ends the schedule.
  [[noreturn]] void fail(const std::string& fault);
  // Starts a thread; returns its number.
  uint32_t start(const char* name, std::function<void()> body, Where where);
  void join(uint32_t thread, Where where);
  // Sleeps until wake(); false where the time was over first.
  bool sleep(const void* key, std::optional<Nanoseconds> limit, Where where);
  // Wakes up to `count` of those for whose key is_key() is true, in any order; returns how many.
  int wake(const std::function<bool(const void*)>& is_key, int count);
  // Nobody goes on in place of one who can before this call: a program is set up as it stands there.
  void set_off() { set_off_ = true; }
  // Sleeps until all others sleep or have ended; who naps, sleeps.
  void settle(Where where) { wait_for_others(/*naps_end=*/false, where); }
  // The same, but that their naps end, until nobody has one.
  void rest(Where where) { wait_for_others(/*naps_end=*/true, where); }
  Nanoseconds now(Where where);
  bool is_spurious() { return strategy_->is_spurious(); }
  // By chance.
  bool one_in(uint32_t n) { return strategy_->below(n) == 0; }

  // ---- Memory orders, of the running fiber
  void loaded(const void* atomic, std::memory_order order) { before_->load(current_, atomic, order); }
  void stored(const void* atomic, std::memory_order order) { before_->store(current_, atomic, order); }
  void modified(const void* atomic, std::memory_order order) { before_->modify(current_, atomic, order); }
  // It touches data that two threads may not touch without an order between them.
  void touch(const void* data, const char* name);

 private:
  struct Fiber;

  static void enter();
  std::unique_ptr<Fiber> make_fiber(const char* name, std::function<void()> body);
  void note(Act act, Where where);
  void switch_to(uint32_t thread);
  void dispatch();
  void wait_for_others(bool naps_end, Where where);
  void end_a_nap();
  void set_able(uint32_t thread);
  [[noreturn]] void end();
  [[noreturn]] void go_home();
  std::string asleep() const;

  ucontext_t home_{};
  Rules rules_;
  Outcome outcome_;
  std::optional<Strategy> strategy_;
  std::optional<HappensBefore> before_;
  std::vector<std::unique_ptr<Fiber>> fibers_;  // by number
  std::vector<uint32_t> able_;                  // those that can go on, rising
  std::vector<std::byte*> stacks_;              // of no fiber
  Nanoseconds now_{};
  uint32_t current_ = 0;
  uint32_t living_ = 0;
  bool set_off_ = false;
};

}  // namespace lanyard::interleaving

#endif  // LANYARD_TESTS_INTERLEAVING_SCHEDULER_H_
