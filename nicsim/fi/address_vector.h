// The address vector: fi_addr_t is a place in it.
#ifndef LANYARD_NICSIM_FI_ADDRESS_VECTOR_H_
#define LANYARD_NICSIM_FI_ADDRESS_VECTOR_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "nicsim/fi/domain.h"

namespace lanyard::nicsim::fi {

class AddressVector : public fid_av {
 public:
  explicit AddressVector(Domain& domain) : fid_av(), domain_(domain) {}

  Domain& domain() { return domain_; }

  // The place of the new address, FI_ADDR_NOTAVAIL where there is no room for it (peer_table.h).
  fi_addr_t insert(const nic::Address& address);
  void remove(fi_addr_t place);
  // What the NIC calls the owner of that address.
  std::optional<uint32_t> peer(fi_addr_t place) const;

  std::atomic<int> endpoints{0};  // bound

 private:
  Domain& domain_;
  mutable std::mutex mutex_;                    // guards what follows
  std::vector<std::optional<uint32_t>> peers_;  // by place; nothing where it has been removed
};

// As struct fi_ops_domain's av_open. Closed by fi_close(): -FI_EBUSY while endpoints are bound.
int open_address_vector(struct fid_domain* domain, struct fi_av_attr* attributes, struct fid_av** vector,
                        void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_ADDRESS_VECTOR_H_
