// OfiNic::Driving, for the files that implement OfiNic.
#ifndef LANYARD_TRANSPORT_CXI_DRIVING_H_
#define LANYARD_TRANSPORT_CXI_DRIVING_H_

#include "transport/base/thread_annotations.h"
#include "transport/cxi/ofi_nic.h"

namespace lanyard::ofi {

// The right to drive, from construction to destruction. Whatever was posted or done before counts by then.
class LANYARD_SCOPED_CAPABILITY OfiNic::Driving {
 public:
  explicit Driving(OfiNic& nic) LANYARD_ACQUIRE(nic.right_) : nic_(nic) {
    nic_.right_.take();
    (void)nic_.run_all_commands();
    (void)nic_.drive();
  }
  ~Driving() LANYARD_RELEASE() {
    nic_.right_.give_back();
    nic_.progress();  // whatever the call made ready
  }
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;

 private:
  OfiNic& nic_;
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_DRIVING_H_
