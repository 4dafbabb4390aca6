// The memory region, with CXI's order of calls: register, bind to an enabled endpoint and perhaps
// to a counter, enable. The user chooses the key; it is valid once the region is enabled.
#ifndef LANYARD_NICSIM_FI_REGION_H_
#define LANYARD_NICSIM_FI_REGION_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <cstdint>
#include <mutex>

#include "nicsim/fi/domain.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

class Counter;
class Endpoint;

class Region : public fid_mr {
 public:
  // The user owns the memory. It must live until the region is closed.
  Region(Domain& domain, const iovec& memory, uint64_t access)
      : fid_mr(), domain_(domain), memory_(memory), access_(access) {}

  Domain& domain() { return domain_; }

  // As fi_mr_bind() and fi_mr_enable(). -FI_EINVAL if the order is wrong.
  int bind(Endpoint& endpoint);
  int bind(Counter& counter, uint64_t flags);
  int enable();
  // Returns once the NIC no longer touches the memory.
  void close();

 private:
  Domain& domain_;
  const iovec memory_;
  const uint64_t access_;
  std::mutex mutex_;  // guards what follows
  Endpoint* endpoint_ = nullptr;
  Counter* counter_ = nullptr;
  nic::RegionId id_;  // valid once enabled
};

// As fi_ops_mr::regattr.
int open_region(struct fid* domain, const struct fi_mr_attr* attributes, uint64_t flags, struct fid_mr** region);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_REGION_H_
