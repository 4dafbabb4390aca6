// ThreadedNic::Driving, for the files that implement ThreadedNic.
#ifndef LANYARD_NICSIM_THREADED_DRIVING_H_
#define LANYARD_NICSIM_THREADED_DRIVING_H_

#include "nicsim/threaded/threaded_nic.h"
#include "transport/base/thread_annotations.h"

namespace lanyard::nicsim {

// The right to drive, from construction to destruction. Whatever was posted before counts by then.
class LANYARD_SCOPED_CAPABILITY ThreadedNic::Driving {
 public:
  explicit Driving(ThreadedNic& nic) LANYARD_ACQUIRE(nic.right_) : nic_(nic) {
    nic_.right_.take();
    nic_.publish(nic_.run_commands());  // what was posted before this call counts
  }
  ~Driving() LANYARD_RELEASE() {
    nic_.right_.give_back();
    nic_.progress();  // whatever the call made ready
  }
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;

 private:
  ThreadedNic& nic_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_DRIVING_H_
