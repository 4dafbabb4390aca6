// KernelWatch: for how long the kernels at the heads of the streams have been seen to run. A stream keeps no time
// itself: that would cost every kernel a look at the clock.
#ifndef LANYARD_API_KERNEL_WATCH_H_
#define LANYARD_API_KERNEL_WATCH_H_

#include <chrono>
#include <cstdint>
#include <map>

#include "api/context_lock.h"

struct lanyard_queue;

namespace lanyard::api {

class Context;

class KernelWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // Looks at every queue. Called every so often.
  void look(Context& context) LANYARD_REQUIRES(context_locked);
  // Since when item number `item` has been seen at the head of that queue's stream; zero where it is new.
  std::chrono::milliseconds seen(const lanyard_queue& queue, uint64_t item) const LANYARD_REQUIRES(context_locked);

 private:
  struct Sight {
    uint64_t item = 0;
    Clock::time_point since;
  };
  std::map<const lanyard_queue*, Sight> sights_ LANYARD_GUARDED_BY(context_locked);
};

}  // namespace lanyard::api

#endif  // LANYARD_API_KERNEL_WATCH_H_
