// Locality: how near the devices of this machine are to one another and to the cores that this thread may run on, by
// hwloc. HWLOC_XMLFILE describes another machine.
#ifndef LANYARD_TRANSPORT_CXI_LOCALITY_H_
#define LANYARD_TRANSPORT_CXI_LOCALITY_H_

#include <rdma/fabric.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "transport/base/status.h"

struct hwloc_topology;

namespace lanyard::ofi {

struct PciAddress {
  uint32_t domain = 0, bus = 0, device = 0, function = 0;

  // Of "0000:c1:00.0", or without the domain, as GPU libraries write it too.
  static Result<PciAddress> parse(std::string_view text);
  // Where libfabric says it; nothing for a card that is no PCI device.
  static std::optional<PciAddress> of(const fi_info& info);
  std::string to_string() const;
  friend bool operator==(PciAddress, PciAddress) = default;
};

// Threads: any, once loaded.
class Locality {
 public:
  // Takes some milliseconds, on large machines a hundred. kFailed where hwloc finds nothing out.
  static Result<Locality> load();

  struct Place {
    std::string numa_nodes;     // "3", or "0-1" where no node is nearer than another
    std::string cores;          // "48-63": the cores that the device is attached to
    uint32_t shared_cores = 0;  // of these, how many the calling thread may run on
  };
  // Nothing where hwloc knows no such device.
  std::optional<Place> place_of(PciAddress device) const;

  // How many levels (machine, package, PCI bridges) two devices have in common: the more the nearer. 0 where one is
  // unknown.
  uint32_t levels_in_common(PciAddress one, PciAddress other) const;

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const;
  };
  explicit Locality(hwloc_topology* topology) : topology_(topology) {}

  std::unique_ptr<hwloc_topology, Destroy> topology_;
};

// The card of a list (getinfo's) that is nearest: to the device `near`, or without one, or where hwloc does not know
// it, to the calling thread's cores. The first of several that are equally near. Requires a list that is not empty.
const fi_info* nearest(const fi_info* list, const Locality& locality, std::optional<PciAddress> near);

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_LOCALITY_H_
