// Sleep and wake on a 32-bit word (futex(2)). Not std::atomic::wait, because that has no timeout,
// spins first and does not work across processes.
//
// If several processes share the word, every call must pass shared = true. The calls do not
// order memory.
#ifndef LANYARD_TRANSPORT_BASE_FUTEX_H_
#define LANYARD_TRANSPORT_BASE_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>

#include "transport/base/check.h"

namespace lanyard {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

// Sleeps while word == expected, at most for `timeout`. Without a timeout there is no limit; a
// timeout <= 0 returns at once. Returns false if the timeout passed, else true: woken, interrupted
// by a signal, or word != expected. The caller must check its condition again in every case.
// Blocks, does not allocate, preserves errno.
inline bool futex_wait(std::atomic<uint32_t>& word, uint32_t expected,
                       std::optional<std::chrono::nanoseconds> timeout = std::nullopt, bool shared = false) {
  timespec relative{};
  if (timeout.has_value()) {
    if (timeout->count() <= 0)
      return false;
    relative.tv_sec = static_cast<time_t>(timeout->count() / 1'000'000'000);
    relative.tv_nsec = static_cast<long>(timeout->count() % 1'000'000'000);
  }
  const int saved_errno = errno;
  const long result = ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE,
                                expected, timeout.has_value() ? &relative : nullptr, nullptr, 0);
  const int error = result == 0 ? 0 : errno;
  errno = saved_errno;
  LANYARD_CHECK(error == 0 || error == EAGAIN || error == EINTR || error == ETIMEDOUT,
                "futex_wait on an address that is none");
  return error != ETIMEDOUT;
}

// Wakes up to `count` sleepers of the word and returns how many it woke. Always a system call.
// Never blocks; preserves errno.
inline int futex_wake(std::atomic<uint32_t>& word, int count, bool shared = false) {
  const int saved_errno = errno;
  const long result = ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE,
                                count, nullptr, nullptr, 0);
  errno = saved_errno;
  LANYARD_CHECK(result >= 0, "futex_wake on an address that is none");
  return static_cast<int>(result);
}

}  // namespace lanyard

#endif  // LANYARD_TRANSPORT_BASE_FUTEX_H_
