// The address vector: fi_addr_t is a place in it.
#ifndef LANYARD_NICSIM_FI_ADDRESS_VECTOR_H_
#define LANYARD_NICSIM_FI_ADDRESS_VECTOR_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "nicsim/fi/address.h"
#include "nicsim/fi/domain.h"

namespace lanyard::nicsim::fi {

class AddressVector : public fid_av {
 public:
  explicit AddressVector(Domain& domain) : fid_av(), domain_(domain) {}

  Domain& domain() { return domain_; }

  // The place of the new address, FI_ADDR_NOTAVAIL for what is no address of this provider's.
  fi_addr_t insert(const EndpointAddress& address);
  void remove(fi_addr_t place);
  std::optional<EndpointAddress> address(fi_addr_t place) const;
  // What the NIC calls the owner of that address.
  std::optional<uint32_t> peer(fi_addr_t place) const;

  std::atomic<int> endpoints{0};  // bound

 private:
  struct Entry {
    EndpointAddress address;
    uint32_t peer = 0;
    bool removed = false;
  };

  const Entry* find(fi_addr_t place) const;

  Domain& domain_;
  mutable std::mutex mutex_;  // guards entries_
  std::vector<Entry> entries_;
};

// As struct fi_ops_domain's av_open. Closed by fi_close(): -FI_EBUSY while endpoints are bound.
int open_address_vector(struct fid_domain* domain, struct fi_av_attr* attributes, struct fid_av** vector,
                        void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_ADDRESS_VECTOR_H_
