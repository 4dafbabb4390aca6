#include "nicsim/wire/fd_nap.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "transport/base/check.h"
#include "transport/base/futex.h"

namespace lanyard::nicsim {

Result<std::unique_ptr<FdNap>> FdNap::create() {
  std::unique_ptr<FdNap> nap(new FdNap);
  nap->epoll_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  nap->helpers_.event = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  nap->owner_.event = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!nap->epoll_.valid() || !nap->helpers_.event.valid() || !nap->owner_.event.valid())
    return Status(Code::kFailed, std::string("epoll or eventfd: ") + std::strerror(errno));
  return nap;
}

void FdNap::control(int operation, int fd, Watch what) {
  epoll_event event{};
  event.events = static_cast<uint32_t>(what);
  const int result = ::epoll_ctl(epoll_.get(), operation, fd, &event);
  LANYARD_CHECK(result == 0, "a descriptor that epoll can watch, and a change of one that it watches");
}

void FdNap::leave() {
  if (attended_.fetch_sub(1, std::memory_order_seq_cst) != 1)
    return;
  if (helpers_.parked.load(std::memory_order_seq_cst) > 0) {
    unpark(helpers_);
  } else if (owner_.parked.load(std::memory_order_seq_cst) > 0) {
    unpark(owner_);
  }
}

void FdNap::wake(Wire::Sleeper who) {
  meeting_.fetch_add(1, std::memory_order_acq_rel);
  Seat& seat = seat_of(who);
  if (seat.sleeping.load(std::memory_order_seq_cst) == 0)
    return;
  seat.wakes.fetch_add(1, std::memory_order_seq_cst);
  const uint64_t one = 1;
  const ssize_t written = ::write(seat.event.get(), &one, sizeof one);
  LANYARD_CHECK(written == sizeof one || errno == EAGAIN, "an eventfd takes a write");
  seat.raised.store(true, std::memory_order_seq_cst);  // after the write: a stray event must be cleared
  unpark(seat);
}

void FdNap::sleep(Wire::Sleeper who, Wire::Nanoseconds timeout, const Wire::Idle& idle) {
  if (timeout.count() <= 0)
    return;
  timeout = std::min<Wire::Nanoseconds>(timeout, std::chrono::hours(1));
  const Clock::time_point deadline = Clock::now() + timeout;
  Seat& seat = seat_of(who);
  const uint32_t wakes = seat.wakes.load(std::memory_order_seq_cst);
  enter(seat);
  meeting_.fetch_add(1, std::memory_order_acq_rel);
  if (!idle || idle()) {
    while (seat.wakes.load(std::memory_order_seq_cst) == wakes) {
      const Wire::Nanoseconds left = deadline - Clock::now();
      if (left.count() <= 0)
        break;
      pollfd fds[2] = {{.fd = epoll_.get(), .events = POLLIN, .revents = 0},
                       {.fd = seat.event.get(), .events = POLLIN, .revents = 0}};
      const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
      const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
      const int ready = ::ppoll(fds, 2, &limit, nullptr);
      if (ready <= 0 || (fds[0].revents & POLLIN) == 0)
        break;
      if (!park(who, left))
        break;
    }
  }
  exit(seat);
}

void FdNap::enter(Seat& seat) {
  const std::lock_guard lock(mutex_);
  seat.sleeping.fetch_add(1, std::memory_order_seq_cst);
}

// The last thread clears the event. It cannot clear the wake-up of a later sleeper, because
// entering and clearing exclude each other.
void FdNap::exit(Seat& seat) {
  const std::lock_guard lock(mutex_);
  seat.exit_time.store(Clock::now(), std::memory_order_relaxed);
  if (seat.sleeping.fetch_sub(1, std::memory_order_seq_cst) != 1)
    return;
  if (!seat.raised.exchange(false, std::memory_order_seq_cst))
    return;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t bytes = ::read(seat.event.get(), &count, sizeof count);
}

// Zero if the caller should serve what has arrived, else how long to leave it to others. A helper
// that has just left sleep() may have been woken by the same arrival.
Wire::Nanoseconds FdNap::park_time(Wire::Sleeper who) const {
  if (attended())
    return kParkTime;
  if (who == Wire::Sleeper::kHelper)
    return {};
  if (helpers_.sleeping.load(std::memory_order_seq_cst) > 0)
    return kHelperTime;
  const auto since = Clock::now() - helpers_.exit_time.load(std::memory_order_relaxed);
  return since < kHelperTime ? kHelperTime : Wire::Nanoseconds{};
}

// Sleeps until unparked, at most as long as park_time() says. False, without sleep, if the caller
// should serve what has arrived. A leaver and a parker cannot miss each other (as 2 of README.md):
// `parked` is raised before `attended_` is read. Other events may be late by that time.
bool FdNap::park(Wire::Sleeper who, Wire::Nanoseconds limit) {
  Seat& seat = seat_of(who);
  const uint32_t word = seat.word.load(std::memory_order_seq_cst);
  seat.parked.fetch_add(1, std::memory_order_seq_cst);
  const Wire::Nanoseconds time = park_time(who);
  if (time.count() > 0)
    futex_wait(seat.word, word, std::min(time, limit));
  seat.parked.fetch_sub(1, std::memory_order_seq_cst);
  return time.count() > 0;
}

void FdNap::unpark(Seat& seat) {
  seat.word.fetch_add(1, std::memory_order_seq_cst);
  if (seat.parked.load(std::memory_order_seq_cst) > 0)
    futex_wake(seat.word, INT_MAX);
}

}  // namespace lanyard::nicsim
