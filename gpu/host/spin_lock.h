// A lock for sections of a few dozen instructions, which costs no system call unless it is
// contended.
#ifndef LANYARD_GPU_HOST_SPIN_LOCK_H_
#define LANYARD_GPU_HOST_SPIN_LOCK_H_

#include <sched.h>

#include <atomic>

namespace lanyard::gpu {

// Tells the processor that this is a spin loop.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Not fair and not recursive. Meets BasicLockable, for std::lock_guard. try_lock() makes it a role
// that is taken or not.
class SpinLock {
 public:
  bool try_lock() { return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire); }
  void lock() {
    // The owner may have been descheduled: more ranks than cores is the usual case on a
    // workstation.
    for (int tries = 1; !try_lock(); ++tries) {
      if (tries % kTriesPerYield == 0)
        sched_yield();
      else
        cpu_relax();
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kTriesPerYield = 64;
  std::atomic<bool> held_{false};
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_HOST_SPIN_LOCK_H_
