// DriveRight: the right to drive a NIC, which one thread has at a time: whoever waits, posts or rings takes it where it
// is free, and leaves its work to the holder where it is not. Never waited for on the hot path.
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
  // Waits for as long as somebody else drives.
  void take() LANYARD_ACQUIRE() {
    while (!try_take())
      sched_yield();
  }
  // Tells the compiler what it cannot see, in a function that another one calls back.
  void assert_held() const LANYARD_ASSERT_CAPABILITY(this) {}
  void give_back() LANYARD_RELEASE() { driven_.store(false, std::memory_order_seq_cst); }

 private:
  std::atomic<bool> driven_{false};
};

// Puts a command into the NIC's queue (MpscRing); where that is full, helps to empty it by `progress`.
template <typename Commands, typename Fill, typename Progress>
void push_command(Commands& commands, Fill fill, Progress progress) {
  while (!commands.push_filled(fill)) {
    if (progress() == 0)
      sched_yield();
  }
}

// For who drives: runs by `run` what has been put there before this call, behind another's command that is only about
// to be there, too. Returns the sum of what `run` does.
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

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_DRIVE_RIGHT_H_
