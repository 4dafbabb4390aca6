// Locality: which network card is near. Fabric: one endpoint on one card, with its libfabric
// objects and the peers it can reach.
#ifndef LANYARD_TRANSPORT_CXI_FABRIC_H_
#define LANYARD_TRANSPORT_CXI_FABRIC_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/base/status.h"
#include "transport/cxi/library.h"
#include "transport/nic/nic.h"

struct hwloc_topology;

namespace lanyard::ofi {

struct PciAddress {
  uint32_t domain = 0, bus = 0, device = 0, function = 0;

  // From libfabric. Nothing for a NIC that is not a PCI device.
  static std::optional<PciAddress> of(const fi_info& info);
  std::string to_string() const;  // for example "0000:c1:00.0"
};

// How near this machine's devices are to the cores that this thread may run on, by hwloc.
// HWLOC_XMLFILE may describe another machine. Threads: any, once loaded.
class Locality {
 public:
  // Takes some milliseconds, on large machines a hundred. kFailed if hwloc fails.
  static Result<Locality> load();

  struct Place {
    std::string numa_nodes;     // "3", or "0-1" if no node is nearer than another
    std::string cores;          // "48-63": the cores that the device is attached to
    uint32_t shared_cores = 0;  // the calling thread may run on this many of them
  };
  // Nothing if hwloc does not know the device.
  std::optional<Place> place_of(PciAddress device) const;

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const;
  };
  explicit Locality(hwloc_topology* topology) : topology_(topology) {}

  std::unique_ptr<hwloc_topology, Destroy> topology_;
};

// Returns the NIC of a getinfo() list that is nearest to the calling thread's cores; the first of
// several that are equally near. Requires a list that is not empty.
const fi_info* nearest(const fi_info* list, const Locality& locality);

struct CloseFid {
  template <typename T>
  void operator()(T* object) const {
    (void)fi_close(&object->fid);  // a destructor cannot report an error
  }
};

// Owns a fid_domain, fid_cntr, ... Close whatever was opened through it first.
template <typename T>
using Fid = std::unique_ptr<T, CloseFid>;

struct FreeInfo {
  void (*free)(fi_info*) = nullptr;
  void operator()(fi_info* info) const { free(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// The only provider that the driver uses: HPE's, or the simulated one of the same name.
inline constexpr const char* kProvider = "cxi";

// The cards that the driver can use, a line each: "cxi0 at 0000:41:00.0, NUMA node 0, cores 0-15 (8
// of this process's)". Errors as Fabric::open().
Result<std::vector<std::string>> describe_cards();

// A counter of the provider at 0.
Result<Fid<fid_cntr>> open_provider_counter(fid_domain* domain);

// Must not be moved once open. Threads: one caller at a time, except address().
class Fabric {
 public:
  // Opens the domain named `domain` or, if that is empty, the one nearest to this thread.
  // `operations`: the most operations in flight at once. `device_memory`: asks for regions of GPU
  // memory, but accepts a card without them if there is no other. `library`: libfabric; null: the
  // installed one. kUnsupported names what is missing and the domains there are.
  static Result<std::unique_ptr<Fabric>> open(const std::string& domain, size_t operations, bool device_memory = false,
                                              const std::optional<Library>& library = {});

  const fi_info& info() const { return *info_; }
  std::string version() const { return library_.version(); }
  fid_domain* domain() const { return domain_.get(); }
  fid_ep* endpoint() const { return endpoint_.get(); }
  fid_cq* completions() const { return completions_.get(); }
  bool takes_device_memory() const { return (info_->caps & FI_HMEM) != 0; }
  // The deferred work that the card takes from all its users; 0 if the provider does not tell.
  uint32_t queried_depth() const;

  // Cancels what is still in flight. Afterwards only destroy the object.
  void close_endpoint() { endpoint_.reset(); }

  const nic::Address& address() const { return address_; }
  // As nic::Nic::set_peers(), without the checks of `self`. Changes nothing if it fails.
  Status set_peers(std::span<const nic::Address> peers);
  // As nic::Nic::add_peer(). The peer's address must not be known.
  Status add_peer(uint32_t peer, const nic::Address& address);
  fi_addr_t peer(uint32_t rank) const { return peers_[rank]; }

 private:
  explicit Fabric(Library library) : library_(library) {}
  Status choose(const std::string& domain, bool device_memory);
  Status open_endpoint(size_t operations);
  Status name_endpoint();
  Result<std::vector<fi_addr_t>> insert(std::span<const nic::Address> peers);

  const Library library_;
  Info info_;
  // Each uses those before it, so they are closed in the opposite order.
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
