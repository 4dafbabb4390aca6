// FutexLock: a mutex in user space, for locks that are taken once or twice in every call of the hot path and hardly
// ever contended: an instruction or two each way where std::mutex takes some fifty. Meets Lockable but for try_lock().
#ifndef LANYARD_TRANSPORT_BASE_FUTEX_LOCK_H_
#define LANYARD_TRANSPORT_BASE_FUTEX_LOCK_H_

#include <atomic>
#include <cstdint>

#include "transport/base/futex.h"

namespace lanyard {

class FutexLock {
 public:
  // Sleeps while another thread holds it; whoever comes next gets it, in no order.
  void lock() {
    uint32_t free = kFree;
    if (!state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kWaitedFor) [[unlikely]]
      futex_wake(state_, 1);
  }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kHeld = 1;
  static constexpr uint32_t kWaitedFor = 2;  // held, and somebody may sleep

  // Whoever has waited holds it as one that is waited for: it cannot know whether it was the last who slept. Then at
  // most one wake-up is for nobody.
  [[gnu::noinline, gnu::cold]] void wait() {
    while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree)
      futex_wait(state_, kWaitedFor);
  }

  std::atomic<uint32_t> state_{kFree};
};

}  // namespace lanyard

#endif  // LANYARD_TRANSPORT_BASE_FUTEX_LOCK_H_
