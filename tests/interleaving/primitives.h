// Replacements for the standard library's threads in the copied sources (substitute.awk). Names and
// meanings are the same as far as those sources use them; each operation is a step of the
// scheduler. Outside a schedule they work for a single thread.
#ifndef LANYARD_TESTS_INTERLEAVING_PRIMITIVES_H_
#define LANYARD_TESTS_INTERLEAVING_PRIMITIVES_H_

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "tests/interleaving/scheduler.h"
#include "transport/base/status.h"

namespace lanyard::interleaving {

// Like std::atomic, but other threads may run before each operation and after each write. The
// second switch matters where the thread's next action is not an atomic operation.
template <typename T>
class Atomic {
 public:
  static constexpr bool is_always_lock_free = std::atomic<T>::is_always_lock_free;

  Atomic() = default;
  constexpr Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst, Where where = Where::here()) const {
    Scheduler* scheduler = Scheduler::running();
    if (scheduler != nullptr) {
      scheduler->step(Act::kLoad, where);
      scheduler->loaded(this, order);
    }
    return value_;
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst, Where where = Where::here()) {
    Scheduler* scheduler = Scheduler::running();
    if (scheduler == nullptr) {
      value_ = value;
      return;
    }
    scheduler->step(Act::kStore, where);
    value_ = value;
    scheduler->stored(this, order);
    scheduler->step(Act::kStore, where);
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst, Where where = Where::here()) {
    return modify([&](T) { return value; }, order, where);
  }
  T fetch_add(T value, std::memory_order order = std::memory_order_seq_cst, Where where = Where::here()) {
    return modify([&](T old) { return static_cast<T>(old + value); }, order, where);
  }
  T fetch_sub(T value, std::memory_order order = std::memory_order_seq_cst, Where where = Where::here()) {
    return modify([&](T old) { return static_cast<T>(old - value); }, order, where);
  }
  T fetch_or(T value, std::memory_order order = std::memory_order_seq_cst, Where where = Where::here()) {
    return modify([&](T old) { return static_cast<T>(old | value); }, order, where);
  }
  T fetch_and(T value, std::memory_order order = std::memory_order_seq_cst, Where where = Where::here()) {
    return modify([&](T old) { return static_cast<T>(old & value); }, order, where);
  }
  bool compare_exchange_strong(T& expected, T value, std::memory_order order = std::memory_order_seq_cst,
                               Where where = Where::here()) {
    return compare_exchange(expected, value, order, false, where);
  }
  // Sometimes fails without a reason.
  bool compare_exchange_weak(T& expected, T value, std::memory_order order = std::memory_order_seq_cst,
                             Where where = Where::here()) {
    return compare_exchange(expected, value, order, true, where);
  }

 private:
  template <typename Change>
  T modify(Change change, std::memory_order order, Where where) {
    Scheduler* scheduler = Scheduler::running();
    if (scheduler != nullptr)
      scheduler->step(Act::kModify, where);
    const T old = value_;
    value_ = change(old);
    if (scheduler != nullptr) {
      scheduler->modified(this, order);
      scheduler->step(Act::kModify, where);
    }
    return old;
  }
  bool compare_exchange(T& expected, T value, std::memory_order order, bool weak, Where where) {
    Scheduler* scheduler = Scheduler::running();
    if (scheduler != nullptr)
      scheduler->step(Act::kModify, where);
    if (value_ != expected || (weak && scheduler != nullptr && scheduler->is_spurious())) {
      expected = value_;
      if (scheduler != nullptr)
        scheduler->loaded(this, order);
      return false;
    }
    value_ = value;
    if (scheduler != nullptr) {
      scheduler->modified(this, order);
      scheduler->step(Act::kModify, where);
    }
    return true;
  }

  T value_;  // no other member: processes share some of these
};

// Replaces sched_yield().
inline void yield(Where where = Where::here()) {
  if (Scheduler::running() != nullptr)
    Scheduler::running()->step(Act::kYield, where);
}

// Replaces std::chrono::steady_clock.
struct VirtualClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<VirtualClock>;
  static constexpr bool is_steady = true;
  static time_point now(Where where = Where::here()) {
    return time_point(Scheduler::running() == nullptr ? duration(0) : Scheduler::running()->now(where));
  }
};

// Replaces std::mutex.
class Mutex {
 public:
  void lock(Where where = Where::here());
  void unlock(Where where = Where::here());

 private:
  bool locked_ = false;
};

// Replaces std::thread. Use it only inside a schedule.
class Thread {
 public:
  Thread() = default;
  Thread(const char* name, std::function<void()> body, Where where = Where::here())
      : number_(Scheduler::running()->start(name, std::move(body), where)), joinable_(true) {}
  Thread(Thread&& other) noexcept : number_(other.number_), joinable_(std::exchange(other.joinable_, false)) {}
  Thread& operator=(Thread&& other) noexcept {
    number_ = other.number_;
    joinable_ = std::exchange(other.joinable_, false);
    return *this;
  }

  bool joinable() const { return joinable_; }
  void join(Where where = Where::here()) {
    Scheduler::running()->join(number_, where);
    joinable_ = false;
  }

 private:
  uint32_t number_ = 0;
  bool joinable_ = false;
};

// Replaces futex(2) for FUTEX_WAIT and FUTEX_WAKE. A word may be mapped twice. Sets
// errno on failure.
long futex(uint32_t* word, int operation, uint32_t value, const timespec* limit, const void*, int,
           Where where = Where::here());

// A doorbell word: a device adds to it, the NIC reads it.
inline uint64_t load_word(const uint64_t* word, Where where = Where::here()) {
  if (Scheduler::running() != nullptr)
    Scheduler::running()->step(Act::kLoad, where);
  return *static_cast<const volatile uint64_t*>(word);
}
inline void add_to_word(uint64_t* word, uint64_t value, Where where = Where::here()) {
  Scheduler::running()->step(Act::kModify, where);
  *word += value;
  Scheduler::running()->step(Act::kModify, where);
}

// Marks data without atomics that only one thread at a time may touch, each ordered after the last.
inline void touch(const void* data, const char* name) {
  if (Scheduler::running() != nullptr)
    Scheduler::running()->touch(data, name);
}

}  // namespace lanyard::interleaving

namespace lanyard {

// Replaces transport/base/service_thread.cc: starts a thread of the schedule.
inline Result<interleaving::Thread> start_service_thread(const char* name, std::function<void()> body) {
  return interleaving::Thread(name, std::move(body));
}

}  // namespace lanyard

#endif  // LANYARD_TESTS_INTERLEAVING_PRIMITIVES_H_
