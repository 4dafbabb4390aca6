// Spin: waits a little while without sleeping.
#ifndef LANYARD_GPU_HOST_SPIN_H_
#define LANYARD_GPU_HOST_SPIN_H_

#include <sched.h>

#include <chrono>

namespace lanyard::gpu {

// Tells the processor that this is a spin loop.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// A spin of bounded time that yields now and then: the thread that it waits for may need this core.
// Reads the clock only when it yields.
class Spin {
 public:
  using Clock = std::chrono::steady_clock;

  Spin(std::chrono::nanoseconds budget, int tries_per_yield) : budget_(budget), tries_per_yield_(tries_per_yield) {}

  // Pauses for an instant and returns true. Returns false at once if the budget is spent.
  bool once() {
    if (tries_ == kSpent)
      return false;
    if (tries_ == 0)
      end_ = Clock::now() + budget_;
    if (++tries_ % tries_per_yield_ != 0) {
      cpu_relax();
      return true;
    }
    sched_yield();
    if (Clock::now() >= end_)
      tries_ = kSpent;
    return true;
  }
  // Restores the whole budget, which starts with the next once().
  void renew() { tries_ = 0; }

 private:
  static constexpr int kSpent = -1;

  const std::chrono::nanoseconds budget_;
  const int tries_per_yield_;
  int tries_ = 0;
  Clock::time_point end_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_HOST_SPIN_H_
