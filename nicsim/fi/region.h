// The memory region, in CXI's order: it is registered, bound to an enabled endpoint and perhaps to
// a counter, and enabled. A key that its user chose it has from the start, one of the provider's
// only then, and none where nobody else reaches it.
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
  Region(Domain& domain, const fi_mr_attr& attributes, uint64_t flags);

  Domain& domain() { return domain_; }

  // Whether others reach it at all: else it needs no key.
  bool is_remote() const { return (access_ & (FI_REMOTE_WRITE | FI_REMOTE_READ)) != 0; }
  // Requires that it is remote and its user chooses keys: -FI_EKEYREJECTED, -FI_ENOKEY where it is another's.
  int claim_key();

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
  const uint64_t requested_key_;
  const bool wants_events_;  // FI_RMA_EVENT
  const bool match_events_;
  bool key_is_claimed_ = false;
  std::mutex mutex_;  // guards what follows
  Endpoint* endpoint_ = nullptr;
  Counter* counter_ = nullptr;
  nic::RegionId id_;  // once enabled

  uint64_t provider_key() const;
};

// As struct fi_ops_mr's reg, regv and regattr.
int open_region(struct fid* domain, const void* base, size_t bytes, uint64_t access, uint64_t offset,
                uint64_t requested_key, uint64_t flags, struct fid_mr** region, void* context);
int open_region_of_vector(struct fid* domain, const struct iovec* memory, size_t count, uint64_t access,
                          uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr** region,
                          void* context);
int open_region_of_attributes(struct fid* domain, const struct fi_mr_attr* attributes, uint64_t flags,
                              struct fid_mr** region);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_REGION_H_
