// Attendance and sleep of one NIC: who polls, who sleeps, and how a sender in another process
// finds out whom to wake.
//
// A Bell lies in memory that the senders share. "Attended" means that a thread polls in a loop, so
// nobody need be woken. "Roused" means that somebody has been woken and is on the way: more packets
// make no more system calls until it has got there.
//
// Why no wake-up is lost. Three pairs of threads could miss each other, and each pair is Dekker's:
// either writes its own word first and reads the other's then, so that at least one sees the other.
//   1. Sender and sleeper. The sender publishes a packet, then reads the seat (ring()). The sleeper
//      takes its seat, then looks for packets (waiting() in sleep()). All four are sequentially
//      consistent operations on the atomics themselves, so they have one order, and whoever comes
//      second sees what the first wrote.
//   2. Sender and leaver. The sender publishes, then reads `attended_`. The leaver lowers it, then
//      looks for packets (waiting() in leave()); where it was the last and one waits, it rings in
//      the sender's place.
//   3. Waker and sleeper. The waker has changed something of the engine's, with whatever memory
//      order, then reads the seat (wake()); the sleeper takes its seat, then asks idle(). Between
//      the two either passes through a read-modify-write of `meeting_`: the second of them there
//      synchronises with the first.
// Between its last look and the futex call a sleeper is covered by the futex word: the sleeper has
// read it before it took its seat, a waker changes it before the system call, and so the kernel
// refuses to put the sleeper to sleep.
//
// Whoever takes a seat clears the roused bits, so they speak of nobody but those who were seated
// when they were set, and all of those leave their seats soon. Whoever leaves a seat clears them
// too, and looks for packets afterwards: a sender that made no call because of the bit published
// before that. So the one rule for callers: a thread that comes out of sleep() looks (polls, or
// attends and leaves) before it goes elsewhere. Where it has no reason to (its time is over, its
// condition is met), sleep() looks in its place and rings on.
#ifndef LANYARD_NICSIM_WIRE_BELL_H_
#define LANYARD_NICSIM_WIRE_BELL_H_

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#include "nicsim/wire/wire.h"
#include "transport/base/futex.h"

namespace lanyard::nicsim {

// Shared between processes. ring() is for everybody, the rest for the process that owns the NIC.
// Every function may be called by any thread; only sleep() blocks; none allocates.
class Bell {
 public:
  // Call after publishing with a sequentially consistent store. Wakes one helper, else the owner,
  // where somebody sleeps and nobody attends; only then makes a system call.
  void ring() {
    if (attended_.load(std::memory_order_seq_cst) > 0)
      return;
    if (!rouse_one(helpers_))
      rouse_one(owner_);
  }

  // Work is left here that no packet will ring for: wakes the owner, unless somebody attends.
  void hand_over() {
    if (attended_.load(std::memory_order_seq_cst) == 0)
      rouse_one(owner_);
  }

  // Wakes everybody of that kind; a system call only where somebody sleeps that is not roused yet.
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

  // `waiting()` says whether something waits to be polled, by sequentially consistent loads.
  template <typename Waiting>
  void leave(Waiting&& waiting) {
    if (attended_.fetch_sub(1, std::memory_order_seq_cst) == 1 && waiting())
      ring();
  }

  // Sleeps until woken, at most `timeout` (early returns happen). `waiting()` as for leave();
  // `idle()` is the sleeper's own condition. Both are asked once the sleeper is visible; it sleeps
  // only where nothing waits and idle() is true.
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

  // System calls made to wake somebody here, by any process. For tests and diagnosis.
  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kOneRoused = 1u << 30;
  static constexpr uint32_t kAllRoused = 1u << 31;
  static constexpr uint32_t kCount = kOneRoused - 1;

  struct Seat {
    std::atomic<uint32_t> state{0};  // how many are in sleep(), and the roused bits
    std::atomic<uint32_t> word{0};   // what they sleep on
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

  // Whether somebody sits there, who then is on the way.
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

  // Senders read the first line with every packet; it changes only when somebody comes or goes.
  alignas(64) std::atomic<uint32_t> attended_{0};
  Seat helpers_;
  Seat owner_;
  std::atomic<uint64_t> calls_{0};
  alignas(64) std::atomic<uint32_t> meeting_{0};  // of the owning process alone
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_BELL_H_
