// Fabric: one endpoint on one network card, with all that it stands on, and the peers it can reach.
#ifndef LANYARD_TRANSPORT_CXI_FABRIC_H_
#define LANYARD_TRANSPORT_CXI_FABRIC_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/base/status.h"
#include "transport/cxi/library.h"
#include "transport/cxi/locality.h"
#include "transport/nic/nic.h"

namespace lanyard::ofi {

struct CloseFid {
  template <typename T>
  void operator()(T* object) const {
    (void)fi_close(&object->fid);  // in a destructor there is nobody to tell
  }
};

// Owns a fid_domain, fid_cntr, ... Whatever was opened through it must be gone before it.
template <typename T>
using Fid = std::unique_ptr<T, CloseFid>;

struct FreeInfo {
  void (*free)(fi_info*) = nullptr;
  void operator()(fi_info* info) const { free(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// The only provider that the driver runs on: HPE's, or the simulated one of that name.
inline constexpr const char* kProvider = "cxi";

// The cards that the driver could run on, a line each: "cxi0 at 0000:41:00.0, NUMA node 0, cores 0-15 (8 of
// this process's)". Errors as Fabric::open().
Result<std::vector<std::string>> describe_cards();

// A bare counter of the provider's at 0.
Result<Fid<fid_cntr>> open_provider_counter(fid_domain* domain);

// Not to be moved once opened. Threads: one caller at a time, but for address().
class Fabric {
 public:
  // Opens the domain of that name; where it is empty, the one nearest to this thread. `operations` is how many can be
  // under way at once. kUnsupported says what is missing, and which domains there are.
  // `device_memory`: asks for regions of GPU
  // memory; takes a card that cannot have any where there is no other.
  // `library`: libfabric, where it is not the one that is installed.
  static Result<std::unique_ptr<Fabric>> open(const std::string& domain, size_t operations, bool device_memory = false,
                                              const std::optional<Library>& library = {});

  const fi_info& info() const { return *info_; }
  std::string version() const { return library_.version(); }
  fid_domain* domain() const { return domain_.get(); }
  fid_ep* endpoint() const { return endpoint_.get(); }
  fid_cq* completions() const { return completions_.get(); }
  bool takes_device_memory() const { return (info_->caps & FI_HMEM) != 0; }
  // How much deferred work the card takes, from everybody; 0 where the provider does not say.
  uint32_t queried_depth() const;

  // What still goes on comes to nothing. Only to be followed by the end.
  void close_endpoint() { endpoint_.reset(); }

  const nic::Address& address() const { return address_; }
  // As nic::Nic::set_peers, but for what is asked of `self`. Changes nothing where it fails.
  Status set_peers(std::span<const nic::Address> peers);
  // As nic::Nic::add_peer. Requires a peer that is not known.
  Status add_peer(uint32_t peer, const nic::Address& address);
  size_t peer_count() const { return peers_.size(); }
  fi_addr_t peer(uint32_t rank) const { return peers_[rank]; }

 private:
  explicit Fabric(Library library) : library_(library) {}
  Status choose(const std::string& domain, bool device_memory);
  Status open_endpoint(size_t operations);
  Status name_endpoint();
  Result<std::vector<fi_addr_t>> insert(std::span<const nic::Address> peers);

  const Library library_;
  Info info_;
  // In the order in which one stands on the other; they go in the opposite one.
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
  Fid<fid_av> addresses_;
  Fid<fid_cq> completions_;
  Fid<fid_cntr> transfers_;
  Fid<fid_ep> endpoint_;
  nic::Address address_;
  std::vector<fi_addr_t> peers_;
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_FABRIC_H_
