// The fabric: no state of its own, it opens domains.
#ifndef LANYARD_NICSIM_FI_FABRIC_H_
#define LANYARD_NICSIM_FI_FABRIC_H_

#include <rdma/fabric.h>

#include <atomic>

namespace lanyard::nicsim::fi {

class Fabric : public fid_fabric {
 public:
  std::atomic<int> domains{0};  // open
};

// As struct fi_provider's fabric. The fabric is closed by fi_close(): -FI_EBUSY while it has
// domains.
int open_fabric(struct fi_fabric_attr* attributes, struct fid_fabric** fabric, void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_FABRIC_H_
