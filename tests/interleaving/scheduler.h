// Scheduler: runs a program of several threads on one thread, in an order that a seed decides. Each
// thread is a fiber. It may hand over before every operation that other threads can see
// (primitives.h), and after every write. The strategy chooses the next fiber, so that a seed always
// gives the same schedule.
//
// Time is virtual. Each read of the clock moves it a little, sometimes a lot. It moves to the end
// of a nap (a sleep of at most kLongestNap) when no thread can run. A longer limit never passes: a
// thread that needs it has lost its wake-up, which is a fault. A standstill that only a nap ends is
// a fault too, unless Rules::naps is true.
//
// What it cannot find: memory is sequentially consistent, so that a store never passes a later load
// (two threads that miss each other's flags without memory_order_seq_cst). Missing acquire and
// release orders are found only for data marked by touch().
#ifndef LANYARD_TESTS_INTERLEAVING_SCHEDULER_H_
#define LANYARD_TESTS_INTERLEAVING_SCHEDULER_H_

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "nicsim/deterministic/chooser.h"

namespace lanyard::interleaving {

// Strategy: chooses the thread that runs next, and where a spurious failure occurs, all
// from one seed.
//
// A seed also draws the kind of strategy, because no single kind finds every mistake soon:
// - a random walk that changes threads at one step in 1, 4, 16 or 64
// - random priorities that change at up to four steps (Burckhardt et al., ASPLOS 2010)
class Strategy {
 public:
  static constexpr uint32_t kMostThreads = 16;

  explicit Strategy(uint64_t seed)
      : random_(seed),
        spurious_(random_.below(2) == 0),
        leaping_(random_.below(4) != 0),
        has_priorities_(random_.below(3) == 0),
        calm_(1u << (2 * random_.below(4))) {
    for (uint64_t& priority : priorities_)
      priority = kMiddle + random_.below(UINT32_MAX);
    // The schedule's length is not known in advance: guess 32 to 1,024 steps.
    const uint32_t length = 32u << random_.below(6);
    const uint32_t count = 1 + random_.below(static_cast<uint32_t>(changes_.size()));
    for (uint32_t i = 0; i < changes_.size(); ++i)
      changes_[i] = i < count ? 1 + random_.below(length) : 0;
  }
  // Returns one of `able`, which is in rising order and not empty. `running` may be among them.
  // `gives_way`: the running thread yields.
  uint32_t next(std::span<const uint32_t> able, uint32_t running, bool gives_way) {
    ++taken_;
    return has_priorities_ ? highest(able, running, gives_way) : walk(able, running, gives_way);
  }
  uint32_t below(uint32_t n) { return random_.below(n); }
  // Whether a weak compare-exchange fails now, or a sleep ends, without a reason.
  bool is_spurious() { return spurious_ && random_.below(32) == 0; }
  // Whether the clock leaps now.
  bool leaps() { return leaping_ && random_.below(2) == 0; }

 private:
  // A program may spin until another thread runs; strict priorities would never let that one run.
  static constexpr uint32_t kPatience = 300;
  static constexpr uint64_t kMiddle = uint64_t{1} << 32;  // priorities start above it and fall below it

  uint32_t walk(std::span<const uint32_t> able, uint32_t running, bool gives_way) {
    const bool can_stay = std::find(able.begin(), able.end(), running) != able.end();
    if (can_stay && !gives_way && calm_ > 1 && random_.below(calm_) != 0)
      return running;
    return able[random_.below(static_cast<uint32_t>(able.size()))];
  }
  uint32_t highest(std::span<const uint32_t> able, uint32_t running, bool gives_way) {
    const bool changes = std::find(changes_.begin(), changes_.end(), taken_) != changes_.end();
    if (running < kMostThreads && (gives_way || changes || in_a_row_ > kPatience))
      priorities_[running] = --lowest_;
    const uint32_t next = *std::max_element(able.begin(), able.end(),
                                            [&](uint32_t a, uint32_t b) { return priorities_[a] < priorities_[b]; });
    in_a_row_ = next == running ? in_a_row_ + 1 : 0;
    return next;
  }

  nicsim::Random random_;
  const bool spurious_;
  const bool leaping_;
  const bool has_priorities_;
  const uint32_t calm_;  // a walk changes threads at one step in this many
  std::array<uint64_t, kMostThreads> priorities_{};
  std::array<uint32_t, 4> changes_{};  // steps at which the running thread gets the lowest priority
  uint64_t lowest_ = kMiddle;          // lowest priority so far
  uint32_t taken_ = 0;
  uint32_t in_a_row_ = 0;
};

// HappensBefore: which steps the program's own memory orders put before which others. Data that two
// threads touch without such an order is a fault, even if this schedule happened to order them
// (vector clocks: Mattern 1988; as in FastTrack, PLDI 2009).
class HappensBefore {
 public:
  HappensBefore() {
    for (uint32_t i = 0; i < clocks_.size(); ++i)
      clocks_[i][i] = 1;
  }

  // All later steps of thread `to` come after all steps of `from` so far.
  void order(uint32_t from, uint32_t to) {
    join(clocks_[to], clocks_[from]);
    ++clocks_[from][from];
  }
  void load(uint32_t thread, const void* atomic, std::memory_order order) {
    if (acquires(order))
      join(clocks_[thread], released_[atomic]);
  }
  void store(uint32_t thread, const void* atomic, std::memory_order order) {
    Clock& released = released_[atomic];
    released = releases(order) ? clocks_[thread] : Clock{};
    ++clocks_[thread][thread];
  }
  // Continues the release sequence of the value that it reads.
  void modify(uint32_t thread, const void* atomic, std::memory_order order) {
    load(thread, atomic, order);
    if (releases(order))
      join(released_[atomic], clocks_[thread]);
    ++clocks_[thread][thread];
  }
  // The thread touches data that only one thread at a time may touch. True if the last touch is
  // ordered before this one.
  bool touch(uint32_t thread, const void* data) {
    Touch& last = touched_[data];
    const bool ordered = last.when <= clocks_[thread][last.thread];
    last = {.thread = thread, .when = clocks_[thread][thread]};
    return ordered;
  }

 private:
  using Clock = std::array<uint32_t, Strategy::kMostThreads>;
  struct Touch {
    uint32_t thread = 0;
    uint32_t when = 0;
  };

  static bool acquires(std::memory_order order) {
    return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
  }
  static bool releases(std::memory_order order) {
    return order == std::memory_order_release || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
  }
  static void join(Clock& into, const Clock& other) {
    std::transform(into.begin(), into.end(), other.begin(), into.begin(),
                   [](uint32_t a, uint32_t b) { return std::max(a, b); });
  }

  std::array<Clock, Strategy::kMostThreads> clocks_{};
  std::unordered_map<const void*, Clock> released_;  // by atomic: the clock that its last release sequence publishes
  std::unordered_map<const void*, Touch> touched_;
};

using Nanoseconds = std::chrono::nanoseconds;
inline constexpr Nanoseconds kLongestNap = std::chrono::milliseconds(10);

// A place in the sources. As a default argument it is the caller's place.
struct Where {
  const char* file;
  int line;
  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

enum class Act : uint8_t { kLoad, kStore, kModify, kYield, kClock, kLock, kSleep, kWake, kSettle, kStart, kJoin, kEnd };

struct Rules {
  bool naps = true;              // the program may need a nap to end
  uint64_t most_steps = 60'000;  // a program with more steps never ends: a fault
  bool tells = false;            // print every step
};

// How a schedule ended.
struct Outcome {
  std::string fault;  // empty: no fault
  uint64_t steps = 0;
  uint64_t hash = 0xcbf29ce484222325;  // of every step's thread, act and place
};

// At most one runs in a process at a time. After a fault its fibers are leaked with all
// that they own.
class Scheduler {
 public:
  Scheduler();
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Runs body() as the first thread. Returns when every thread has ended, or at a fault.
  Outcome run(uint64_t seed, const Rules& rules, std::function<void()> body);

  // The scheduler of the calling fiber; null outside a schedule.
  static Scheduler* running();
  // The number of the running fiber.
  uint32_t thread() const { return current_; }

  // ---- For the running fiber
  // Other threads may run here.
  void step(Act act, Where where);
  // Ends the schedule with a fault.
  [[noreturn]] void fail(const std::string& fault);
  // Starts a thread; returns its number.
  uint32_t start(const char* name, std::function<void()> body, Where where);
  void join(uint32_t thread, Where where);
  // Sleeps until wake(). False if the limit passed first.
  bool sleep(const void* key, std::optional<Nanoseconds> limit, Where where);
  // Wakes up to `count` sleepers whose key satisfies is_key(), in random order. Returns how many.
  int wake(const std::function<bool(const void*)>& is_key, int count);
  // From here on threads may be switched at any step. Before, a program sets itself up undisturbed.
  void set_off() { set_off_ = true; }
  // Sleeps until all other threads sleep (or nap) or have ended.
  void settle(Where where) { wait_for_others(/*naps_end=*/false, where); }
  // The same, but naps end first: sleeps until no other thread naps.
  void rest(Where where) { wait_for_others(/*naps_end=*/true, where); }
  Nanoseconds now(Where where);
  bool is_spurious() { return strategy_->is_spurious(); }
  // True by chance, once in n calls.
  bool one_in(uint32_t n) { return strategy_->below(n) == 0; }

  // ---- Memory orders of the running fiber's operations
  void loaded(const void* atomic, std::memory_order order) { before_->load(current_, atomic, order); }
  void stored(const void* atomic, std::memory_order order) { before_->store(current_, atomic, order); }
  void modified(const void* atomic, std::memory_order order) { before_->modify(current_, atomic, order); }
  // The running fiber touches data that needs an order between threads. Fails without one.
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
  std::vector<uint32_t> able_;                  // threads that can run, rising
  std::vector<std::byte*> stacks_;              // not in use
  Nanoseconds now_{};
  uint32_t current_ = 0;
  uint32_t living_ = 0;
  bool set_off_ = false;
};

}  // namespace lanyard::interleaving

#endif  // LANYARD_TESTS_INTERLEAVING_SCHEDULER_H_
