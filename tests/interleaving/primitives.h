// What takes the place of the standard library's threads in the copies of the shipped sources (substitute.awk): the
// same names and meanings as far as those sources use them, each a step of the scheduler. Outside a schedule they work
// too, for one thread.
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

// As std::atomic, but that others may go on before each operation, and after each that writes: what its thread does
// next need not be an operation on an atomic.
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
  // Fails for no reason now and then.
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

  T value_;  // nothing else: processes share some of them
};

// Instead of sched_yield().
inline void yield(Where where = Where::here()) {
  if (Scheduler::running() != nullptr)
    Scheduler::running()->step(Act::kYield, where);
}

// Instead of std::chrono::steady_clock.
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

// As std::mutex.
class Mutex {
 public:
  void lock(Where where = Where::here());
  void unlock(Where where = Where::here());

 private:
  bool locked_ = false;
};

// As std::thread. Only within a schedule.
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

// As the system call futex(2), for FUTEX_WAIT and FUTEX_WAKE of words that may be mapped twice; errno says what fails.
long futex(uint32_t* word, int operation, uint32_t value, const timespec* limit, const void*, int,
           Where where = Where::here());

// A word that a device adds to, and the card reads.
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

// Data without atomics that one thread at a time may touch, each after the last.
inline void touch(const void* data, const char* name) {
  if (Scheduler::running() != nullptr)
    Scheduler::running()->touch(data, name);
}

}  // namespace lanyard::interleaving

namespace lanyard {

// Instead of transport/base/service_thread.cc: a thread of the schedule.
inline Result<interleaving::Thread> start_service_thread(const char* name, std::function<void()> body) {
  return interleaving::Thread(name, std::move(body));
}

}  // namespace lanyard

#endif  // LANYARD_TESTS_INTERLEAVING_PRIMITIVES_H_
