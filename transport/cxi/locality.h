// Locality: how near this machine's devices are to the cores that this thread may run on, by hwloc.
// HWLOC_XMLFILE may describe another machine.
#ifndef LANYARD_TRANSPORT_CXI_LOCALITY_H_
#define LANYARD_TRANSPORT_CXI_LOCALITY_H_

#include <rdma/fabric.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/base/status.h"

struct hwloc_topology;

namespace lanyard::ofi {

struct PciAddress {
  uint32_t domain = 0, bus = 0, device = 0, function = 0;

  // From libfabric. Nothing for a NIC that is not a PCI device.
  static std::optional<PciAddress> of(const fi_info& info);
  std::string to_string() const;  // for example "0000:c1:00.0"
};

// Threads: any, once loaded.
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

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_LOCALITY_H_
