// The peers of a NIC (README.md, "Addresses"): PeerTable gives each inserted address its index in
// the table of the wires, AddressVector is libfabric's view of it.
#ifndef LANYARD_NICSIM_FI_ADDRESS_VECTOR_H_
#define LANYARD_NICSIM_FI_ADDRESS_VECTOR_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "nicsim/fi/provider.h"
#include "nicsim/threaded/threaded_nic.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

class Domain;

// This process's number in its job and the size of the job. 0 processes: the launcher does
// not number them.
struct Numbering {
  uint32_t number = 0;
  uint32_t processes = 0;
};

// Threads: any.
class PeerTable {
 public:
  // The NIC outlives the table.
  PeerTable(ThreadedNic& nic, const Numbering& numbering);

  // This NIC's address: the wire's address and the process's number.
  const nic::Address& own() const { return own_; }
  // Returns the NIC's index, which never changes. kInvalidState for a new address in a complete
  // table; errors as Nic::add_peer().
  Result<uint32_t> add(const nic::Address& address);
  // Completes the table. kInvalidState if this NIC's own address is missing;
  // errors as Nic::set_peers().
  Status complete() { return complete_if_whole(0); }
  // As complete(), but does nothing unless this NIC's own and at least `nics` > 0 addresses are
  // there.
  Status complete_if_whole(size_t nics);
  // This NIC's index. The table must be complete.
  uint32_t self() const { return self_; }

 private:
  static constexpr uint32_t kNoNumber = UINT32_MAX;

  Result<uint32_t> add_numbered(const nic::Address& address);
  Status complete_locked();

  ThreadedNic& nic_;
  const Numbering numbering_;
  const nic::Address own_;
  std::atomic<bool> complete_{false};
  std::mutex mutex_;  // guards the members below
  std::vector<nic::Address> peers_;
  uint32_t self_ = UINT32_MAX;
};

// A fi_addr_t is an index in it. Its users are the bound endpoints.
class AddressVector : public Object<fid_av> {
 public:
  explicit AddressVector(Domain& domain);
  ~AddressVector();

  Domain& domain() { return *domain_; }

  // Returns the new address's index, FI_ADDR_NOTAVAIL if it cannot be added.
  fi_addr_t insert(const nic::Address& address);
  void remove(fi_addr_t place);
  // The NIC's peer number for the address at `place`; none if it has been removed.
  std::optional<uint32_t> peer(fi_addr_t place) const;

 private:
  const Used<Domain> domain_;
  mutable std::mutex mutex_;                    // guards the member below
  std::vector<std::optional<uint32_t>> peers_;  // by fi_addr_t; none if removed
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_ADDRESS_VECTOR_H_
