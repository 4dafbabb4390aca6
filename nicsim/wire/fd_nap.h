// FdNap: attendance and sleep for a wire whose packets arrive on file descriptors, as bell.h for
// shared memory. An arrival wakes all sleeping helpers, not only one. A thread that the kernel
// wakes though another will poll parks (README.md).
#ifndef LANYARD_NICSIM_WIRE_FD_NAP_H_
#define LANYARD_NICSIM_WIRE_FD_NAP_H_

#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/wire.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

// Threads: any. Only sleep() blocks for long.
class FdNap {
 public:
  // kFailed with the system's error.
  static Result<std::unique_ptr<FdNap>> create();

  // The events of a descriptor that end a sleep. Closing the descriptor ends the watch.
  enum class Watch : uint32_t { kNothing = 0, kRead = EPOLLIN, kReadAndWrite = EPOLLIN | EPOLLOUT };
  void watch(int fd, Watch what) { control(EPOLL_CTL_ADD, fd, what); }
  void change(int fd, Watch what) { control(EPOLL_CTL_MOD, fd, what); }

  void attend() { attended_.fetch_add(1, std::memory_order_seq_cst); }
  void leave();
  // Returns when a descriptor is ready that this thread should serve, when woken, or after
  // `timeout`. Returns at once if idle(), called once the sleeper is visible to
  // wake(), is false.
  void sleep(Wire::Sleeper who, Wire::Nanoseconds timeout, const Wire::Idle& idle);
  // A system call only if a thread of that kind sleeps.
  void wake(Wire::Sleeper who);
  bool attended() const { return attended_.load(std::memory_order_seq_cst) > 0; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kParkTime{1000};
  // The time for a helper that has left sleep() to poll the packet that may have woken it.
  static constexpr std::chrono::microseconds kHelperTime{100};

  struct Seat {
    std::atomic<uint32_t> sleeping{0};  // threads in sleep()
    std::atomic<uint32_t> parked{0};    // of those, in futex_wait() on `word`
    std::atomic<uint32_t> word{0};
    std::atomic<uint32_t> wakes{0};              // calls of wake() that found a sleeper
    std::atomic<Clock::time_point> exit_time{};  // of the last thread that left sleep()
    FileDescriptor event;                        // readable from wake() until the last thread has left
    std::atomic<bool> raised{false};             // `event` may be readable
  };

  FdNap() = default;
  Seat& seat_of(Wire::Sleeper who) { return who == Wire::Sleeper::kOwner ? owner_ : helpers_; }
  void control(int operation, int fd, Watch what);
  void enter(Seat& seat);
  void exit(Seat& seat);
  Wire::Nanoseconds park_time(Wire::Sleeper who) const;
  bool park(Wire::Sleeper who, Wire::Nanoseconds limit);
  void unpark(Seat& seat);

  FileDescriptor epoll_;
  std::atomic<uint32_t> attended_{0};
  std::atomic<uint32_t> meeting_{0};
  std::mutex mutex_;  // held to enter and to leave
  Seat helpers_;
  Seat owner_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_FD_NAP_H_
