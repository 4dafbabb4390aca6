// DriveRight: the right to drive a NIC. One thread holds it at a time. A thread that waits, posts
// or rings takes it if it is free; otherwise the holder does that thread's work. The hot path never
// waits for it.
#ifndef LANYARD_TRANSPORT_NIC_DRIVE_RIGHT_H_
#define LANYARD_TRANSPORT_NIC_DRIVE_RIGHT_H_

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/base/thread_annotations.h"

namespace lanyard::nic {

class LANYARD_CAPABILITY("the right to drive") DriveRight {
 public:
  bool try_take() LANYARD_TRY_ACQUIRE(true) {
    return !driven_.load(std::memory_order_seq_cst) && !driven_.exchange(true, std::memory_order_seq_cst);
  }
  // Waits until the current holder gives it back.
  void take() LANYARD_ACQUIRE() {
    while (!try_take())
      sched_yield();
  }
  // Tells clang's analysis that the right is held, in a callback where it cannot see that.
  void assert_held() const LANYARD_ASSERT_CAPABILITY(this) {}
  void give_back() LANYARD_RELEASE() { driven_.store(false, std::memory_order_seq_cst); }

 private:
  std::atomic<bool> driven_{false};
};

// Pushes a command into the NIC's queue (MpscRing). While it is full, calls progress() to drain it.
template <typename Commands, typename Fill, typename Progress>
void push_command(Commands& commands, Fill fill, Progress progress) {
  while (!commands.push_filled(fill)) {
    if (progress() == 0)
      sched_yield();
  }
}

// For the thread that drives: calls run() until every command pushed before this call has run. It
// also waits for a producer that has taken its place in the queue and not yet filled it. Returns
// the sum of run()'s results.
template <typename Commands, typename Run>
size_t run_all_before(const Commands& commands, Run run) {
  const uint64_t next = commands.next();
  size_t done = 0;
  while (commands.oldest() < next) {
    const size_t ran = run();
    if (ran == 0)
      sched_yield();
    done += ran;
  }
  return done;
}

// Takes so many of what is free, or none.
inline bool take(std::atomic<uint32_t>& free, size_t wanted) {
  uint32_t seen = free.load(std::memory_order_relaxed);
  do {
    if (seen < wanted) [[unlikely]]
      return false;
  } while (!free.compare_exchange_weak(seen, seen - static_cast<uint32_t>(wanted), std::memory_order_relaxed));
  return true;
}

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_DRIVE_RIGHT_H_
