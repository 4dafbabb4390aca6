// The memory region, in CXI's order: it is registered, bound to an enabled endpoint and perhaps to
// a counter, and enabled; only then is its key good, which its user has chosen.
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
  // The memory is the user's until the region is closed.
  Region(Domain& domain, const iovec& memory, uint64_t access)
      : fid_mr(), domain_(domain), memory_(memory), access_(access) {}

  Domain& domain() { return domain_; }

  // As fi_mr_bind() and fi_mr_enable(); -FI_EINVAL where the order is wrong.
  int bind(Endpoint& endpoint);
  int bind(Counter& counter, uint64_t flags);
  int enable();
  // Returns when the NIC touches the memory no more.
  void close();

 private:
  Domain& domain_;
  const iovec memory_;
  const uint64_t access_;
  std::mutex mutex_;  // guards what follows
  Endpoint* endpoint_ = nullptr;
  Counter* counter_ = nullptr;
  nic::RegionId id_;  // once enabled
};

// As struct fi_ops_mr's regattr.
int open_region(struct fid* domain, const struct fi_mr_attr* attributes, uint64_t flags, struct fid_mr** region);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_REGION_H_
