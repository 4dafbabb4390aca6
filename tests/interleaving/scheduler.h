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

#include "nicsim/deterministic/random.h"

namespace lanyard::interleaving {

// Strategy: which of the threads that can go on does, and where bad luck strikes; all of it from one seed.
//
// A seed also draws the kind of strategy, because no single one finds every mistake soon:
//   a random walk that changes threads at one step in 1, 4, 16 or 64, or
//   random priorities that change at up to four steps (Burckhardt et al., ASPLOS 2010).
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
    // How long the schedule will be is not known: from 32 steps to 1,024.
    const uint32_t length = 32u << random_.below(6);
    const uint32_t count = 1 + random_.below(static_cast<uint32_t>(changes_.size()));
    for (uint32_t i = 0; i < changes_.size(); ++i)
      changes_[i] = i < count ? 1 + random_.below(length) : 0;
  }
  // One of `able`, in rising order and not empty. `running` may be among them; `gives_way`: it would rather not go on.
  uint32_t next(std::span<const uint32_t> able, uint32_t running, bool gives_way) {
    ++taken_;
    return has_priorities_ ? highest(able, running, gives_way) : walk(able, running, gives_way);
  }
  uint32_t below(uint32_t n) { return random_.below(n); }
  // Whether a weak compare-exchange fails now, or a sleep ends, without a reason.
  bool is_spurious() { return spurious_ && random_.below(32) == 0; }
  // Whether the clock is found to have gone on by far more than it takes to read it twice.
  bool leaps() { return leaping_ && random_.below(2) == 0; }

 private:
  // Programs may spin where somebody else is sure to go on; under strict priorities nobody would.
  static constexpr uint32_t kPatience = 300;
  static constexpr uint64_t kMiddle = uint64_t{1} << 32;  // priorities are drawn above it, and fall below it

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
  const uint32_t calm_;  // a walk changes at one step in so many
  std::array<uint64_t, kMostThreads> priorities_{};
  std::array<uint32_t, 4> changes_{};  // at which steps the running thread falls behind all others
  uint64_t lowest_ = kMiddle;          // so far
  uint32_t taken_ = 0;
  uint32_t in_a_row_ = 0;
};

// HappensBefore: which of a schedule's steps come before which by the program's own memory orders, and not only by the
// schedule's chance. So data that two threads touch with too weak an order between them is a fault, though every
// schedule runs under sequential consistency (vector clocks: Mattern 1988; as in FastTrack, PLDI 2009).
class HappensBefore {
 public:
  HappensBefore() {
    for (uint32_t i = 0; i < clocks_.size(); ++i)
      clocks_[i][i] = 1;
  }

  // What thread `to` does from now on comes after what `from` has done.
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
  // Continues the release sequence that it finds.
  void modify(uint32_t thread, const void* atomic, std::memory_order order) {
    load(thread, atomic, order);
    if (releases(order))
      join(released_[atomic], clocks_[thread]);
    ++clocks_[thread][thread];
  }
  // The thread touches data that only one thread at a time may. Returns whether who touched it last came before.
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
  std::unordered_map<const void*, Clock> released_;  // by atomic: what its last release sequence brings
  std::unordered_map<const void*, Touch> touched_;
};

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
