// Bell: which threads of one NIC poll and which sleep, so that a sender in another process wakes
// the right one. It lies in memory that the senders share. README.md proves that no wake-up is
// lost.
//
// Callers keep one rule: a thread that returns from sleep() polls, or attends and leaves, before it
// does anything else. If it has no reason to (timeout, or its condition is met), sleep() looks for
// it and rings again.
#ifndef LANYARD_NICSIM_WIRE_BELL_H_
#define LANYARD_NICSIM_WIRE_BELL_H_

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#include "nicsim/wire/wire.h"
#include "transport/base/futex.h"

namespace lanyard::nicsim {

// Shared between processes. Any process may call ring(); only the NIC's owner calls the rest. Any
// thread may call any function. Only sleep() blocks; none allocates.
class Bell {
 public:
  // Call after publishing with a sequentially consistent store. If a thread sleeps and none
  // attends, wakes one helper, else the owner. Only then makes a system call.
  void ring() {
    if (attended_.load(std::memory_order_seq_cst) > 0)
      return;
    if (!rouse_one(helpers_))
      rouse_one(owner_);
  }

  // Wakes the owner, unless a thread attends, for work that no packet will ring for.
  void hand_over() {
    if (attended_.load(std::memory_order_seq_cst) == 0)
      rouse_one(owner_);
  }

  // Wakes all sleepers of that kind. A system call only if one sleeps and is not roused yet.
  void wake(Wire::Sleeper who) {
    meeting_.fetch_add(1, std::memory_order_acq_rel);
    Seat& seat = seat_of(who);
    uint32_t seen = seat.state.load(std::memory_order_relaxed);
    while ((seen & kCount) > 0 && (seen & kAllRoused) == 0) {
      if (seat.state.compare_exchange_weak(seen, seen | kAllRoused))
        return call(seat, INT_MAX);
    }
  }

  void attend() { attended_.fetch_add(1, std::memory_order_seq_cst); }

  // `waiting()` returns whether something waits to be polled, by sequentially consistent loads.
  template <typename Waiting>
  void leave(Waiting&& waiting) {
    if (attended_.fetch_sub(1, std::memory_order_seq_cst) == 1 && waiting())
      ring();
  }

  // Sleeps until woken, at most `timeout`; may return early. `waiting()` is as for leave(),
  // `idle()` is the sleeper's own condition. Both are called once the sleeper is visible. It sleeps
  // only if nothing waits and idle() is true.
  template <typename Waiting, typename Idle>
  void sleep(Wire::Sleeper who, Wire::Nanoseconds timeout, Waiting&& waiting, Idle&& idle) {
    if (timeout.count() <= 0)
      return;
    Seat& seat = seat_of(who);
    const uint32_t word = seat.word.load(std::memory_order_seq_cst);
    move(seat, +1);
    bool in_time = true;
    if (!waiting() && idle())
      in_time = futex_wait(seat.word, word, timeout, /*shared=*/true);
    move(seat, -1);
    if (who == Wire::Sleeper::kHelper && waiting() && (!in_time || !idle()))
      ring();
  }

  // System calls made by any process to wake a thread here. For tests and diagnosis.
  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kOneRoused = 1u << 30;
  static constexpr uint32_t kAllRoused = 1u << 31;
  static constexpr uint32_t kCount = kOneRoused - 1;

  struct Seat {
    std::atomic<uint32_t> state{0};  // number of threads in sleep(), and the roused bits
    std::atomic<uint32_t> word{0};   // the futex word
  };

  Seat& seat_of(Wire::Sleeper who) { return who == Wire::Sleeper::kOwner ? owner_ : helpers_; }

  // Takes (+1) or leaves (-1) a seat and clears the roused bits.
  void move(Seat& seat, int by) {
    uint32_t seen = seat.state.load(std::memory_order_relaxed);
    while (!seat.state.compare_exchange_weak(seen, (seen & kCount) + static_cast<uint32_t>(by),
                                             std::memory_order_seq_cst)) {
    }
    meeting_.fetch_add(1, std::memory_order_acq_rel);
  }

  // Returns whether a thread sits there; it is then awake or being woken.
  bool rouse_one(Seat& seat) {
    uint32_t seen = seat.state.load(std::memory_order_seq_cst);
    while ((seen & kCount) > 0) {
      if ((seen & (kOneRoused | kAllRoused)) != 0)
        return true;
      if (seat.state.compare_exchange_weak(seen, seen | kOneRoused, std::memory_order_seq_cst)) {
        call(seat, 1);
        return true;
      }
    }
    return false;
  }

  void call(Seat& seat, int count) {
    seat.word.fetch_add(1, std::memory_order_seq_cst);
    calls_.fetch_add(1, std::memory_order_relaxed);
    futex_wake(seat.word, count, /*shared=*/true);
  }

  // Senders read the first cache line with every packet; it changes only
  // when a thread comes or goes.
  alignas(64) std::atomic<uint32_t> attended_{0};
  Seat helpers_;
  Seat owner_;
  std::atomic<uint64_t> calls_{0};
  alignas(64) std::atomic<uint32_t> meeting_{0};  // used only by the owning process
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_BELL_H_
