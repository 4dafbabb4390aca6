// The address vector of the simulated provider. A fi_addr_t is an index in it.
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

  // Returns the new address's index, FI_ADDR_NOTAVAIL if it cannot be added (peer_table.h).
  fi_addr_t insert(const nic::Address& address);
  void remove(fi_addr_t place);
  // The NIC's peer number for the address at `place`; none if it has been removed.
  std::optional<uint32_t> peer(fi_addr_t place) const;

  std::atomic<int> endpoints{0};  // number of bound endpoints

 private:
  Domain& domain_;
  mutable std::mutex mutex_;                    // guards the member below
  std::vector<std::optional<uint32_t>> peers_;  // by fi_addr_t; none if removed
};

// As av_open in struct fi_ops_domain. fi_close() returns -FI_EBUSY while endpoints are bound.
int open_address_vector(struct fid_domain* domain, struct fi_av_attr* attributes, struct fid_av** vector,
                        void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_ADDRESS_VECTOR_H_
