// Attendance and sleep for a wire whose packets arrive on file descriptors: what bell.h is for
// shared memory.
//
// The driver registers the descriptors; sleepers wait for any of them in ppoll(2). A descriptor
// stays ready until the driver has read it, so an arrival cannot be missed; wakers and sleepers
// meet as in bell.h, 3.
//
// The kernel wakes everybody who waits for a descriptor, but rule W5 wants nobody woken while a
// thread attends, and not the owner while a helper sleeps. So who is woken by the kernel and finds
// that somebody else will poll parks: it sleeps without looking at the descriptors until the last
// attending thread leaves, at most kParkTime. sleep() does not return meanwhile. All sleeping
// helpers are woken by an arrival, not only one.
#ifndef LANYARD_NICSIM_WIRE_FD_NAP_H_
#define LANYARD_NICSIM_WIRE_FD_NAP_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/wire.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

// Any function may be called by any thread; only sleep() blocks for long.
class FdNap {
 public:
  // kFailed with the system's reason.
  static Result<std::unique_ptr<FdNap>> create();

  // What of a descriptor ends a sleep. Closing it ends the watch.
  enum class Watch { kNothing, kRead, kReadAndWrite };
  void watch(int fd, Watch what);
  void change(int fd, Watch what);

  void attend() { attended_.fetch_add(1, std::memory_order_seq_cst); }
  void leave();
  // Returns when a descriptor is ready that is this thread's to look after, when woken, or after
  // `timeout`; at once where idle(object) is false once the sleeper is visible to wake().
  void sleep(Wire::Sleeper who, Wire::Nanoseconds timeout, bool (*idle)(void*), void* object);
  // A system call only where somebody of that kind sleeps.
  void wake(Wire::Sleeper who);
  bool attended() const { return attended_.load(std::memory_order_seq_cst) > 0; }

 private:
  static constexpr std::chrono::microseconds kParkTime{1000};
  // How long a helper that has come out is given to poll what may have woken it.
  static constexpr std::chrono::microseconds kHelperTime{100};

  struct Seat {
    std::atomic<uint32_t> sleeping{0};  // threads in sleep()
    std::atomic<uint32_t> parked{0};    // of those, in futex_wait() on `word`
    std::atomic<uint32_t> word{0};
    std::atomic<uint32_t> wakes{0};     // calls of wake() that found somebody
    std::atomic<int64_t> exit_time{0};  // when somebody came out last, on the steady clock
    FileDescriptor event;               // readable from wake() until the last one has come out
    std::atomic<bool> raised{false};    // `event` may be readable
  };

  FdNap() = default;
  Seat& seat_of(Wire::Sleeper who) { return who == Wire::Sleeper::kOwner ? owner_ : helpers_; }
  void enter(Seat& seat);
  void exit(Seat& seat);
  Wire::Nanoseconds park_time(Wire::Sleeper who) const;
  bool park(Wire::Sleeper who, Wire::Nanoseconds limit);
  void unpark(Seat& seat);

  FileDescriptor epoll_;
  std::atomic<uint32_t> attended_{0};
  std::atomic<uint32_t> meeting_{0};
  std::mutex mutex_;  // entering and coming out
  Seat helpers_;
  Seat owner_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_FD_NAP_H_
