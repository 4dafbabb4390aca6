// ThreadedNic::Driving, for the files that implement ThreadedNic.
#ifndef LANYARD_NICSIM_THREADED_DRIVING_H_
#define LANYARD_NICSIM_THREADED_DRIVING_H_

#include "nicsim/threaded/threaded_nic.h"
#include "transport/base/thread_annotations.h"

namespace lanyard::nicsim {

// The right to drive, from construction to destruction. Whatever was posted before counts by then.
class LANYARD_SCOPED_CAPABILITY ThreadedNic::Driving {
 public:
  // kLittle: what has arrived is left to others, where nothing else is to be done. For calls that make and name things,
  // of which a program makes thousands in a row.
  enum class Afterwards { kAll, kLittle };

  explicit Driving(ThreadedNic& nic, Afterwards afterwards = Afterwards::kAll) LANYARD_ACQUIRE(nic.right_)
      : nic_(nic), afterwards_(afterwards) {
    nic_.right_.take();
    nic_.publish(nic_.run_all_commands());  // what was posted before this call counts
  }
  ~Driving() LANYARD_RELEASE() {
    const bool all = afterwards_ == Afterwards::kAll || nic_.has_made_ready();
    nic_.right_.give_back();
    // A command of a thread that found this one driving is this one's to run.
    if (all || !nic_.commands_.empty())
      nic_.progress();  // whatever the call made ready
  }
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;

 private:
  ThreadedNic& nic_;
  const Afterwards afterwards_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_DRIVING_H_
