// OfiNic::Driving and OfiNic::push, for the two files that implement OfiNic.
#ifndef LANYARD_TRANSPORT_CXI_DRIVING_H_
#define LANYARD_TRANSPORT_CXI_DRIVING_H_

#include <sched.h>

#include "transport/cxi/ofi_nic.h"

namespace lanyard::ofi {

// The right to drive, from construction to destruction. Whatever was posted or done before counts
// by then.
class OfiNic::Driving {
 public:
  explicit Driving(OfiNic& nic) : nic_(nic) {
    while (!nic_.try_drive())
      sched_yield();
    (void)nic_.drive();
  }
  ~Driving() {
    nic_.stop_driving();
    nic_.progress();  // whatever the call made ready
  }
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;

 private:
  OfiNic& nic_;
};

// Rings are not limited by credits, so that the queue can be full; then the pusher helps to empty
// it.
template <typename Fill>
void OfiNic::push(Fill fill) {
  while (!commands_.push_filled(fill))
    if (progress() == 0)
      sched_yield();
}

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_DRIVING_H_
