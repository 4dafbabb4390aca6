#include "transport/cxi/locality.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace lanyard::ofi {

namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// For example "0-3,8".
std::string list_of(hwloc_const_bitmap_t bitmap) {
  char* text = nullptr;
  if (bitmap == nullptr || hwloc_bitmap_list_asprintf(&text, bitmap) < 0)
    return {};
  std::string list(text);
  std::free(text);
  return list;
}

// Asks the system: hwloc does not if it describes another machine.
Bitmap cores_of_this_thread() {
  Bitmap mine(hwloc_bitmap_alloc());
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (mine == nullptr || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return mine;
  for (unsigned core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed))
      hwloc_bitmap_set(mine.get(), core);
  return mine;
}

}  // namespace

std::optional<PciAddress> PciAddress::of(const fi_info& info) {
  if (info.nic == nullptr || info.nic->bus_attr == nullptr || info.nic->bus_attr->bus_type != FI_BUS_PCI)
    return std::nullopt;
  const fi_pci_attr& pci = info.nic->bus_attr->attr.pci;
  return PciAddress{pci.domain_id, pci.bus_id, pci.device_id, pci.function_id};
}

std::string PciAddress::to_string() const {
  char text[48];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bus, device, function);
  return text;
}

void Locality::Destroy::operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }

Result<Locality> Locality::load() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0)
    return Status(Code::kFailed, "hwloc cannot be initialized");
  Locality locality(topology);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(topology) != 0)
    return Status(Code::kFailed, "hwloc cannot load this machine's topology");
  return locality;
}

std::optional<Locality::Place> Locality::place_of(PciAddress device) const {
  hwloc_obj_t object =
      hwloc_get_pcidev_by_busid(topology_.get(), device.domain, device.bus, device.device, device.function);
  if (object == nullptr)
    return std::nullopt;
  object = hwloc_get_non_io_ancestor_obj(topology_.get(), object);
  Place place{.numa_nodes = list_of(object->nodeset), .cores = list_of(object->cpuset)};
  if (const Bitmap mine = cores_of_this_thread(); mine != nullptr && object->cpuset != nullptr) {
    hwloc_bitmap_and(mine.get(), mine.get(), object->cpuset);
    place.shared_cores = static_cast<uint32_t>(std::max(hwloc_bitmap_weight(mine.get()), 0));
  }
  return place;
}

const fi_info* nearest(const fi_info* list, const Locality& locality) {
  const auto nearness = [&](const fi_info& info) -> uint32_t {
    const std::optional<PciAddress> card = PciAddress::of(info);
    const std::optional<Locality::Place> place = card ? locality.place_of(*card) : std::nullopt;
    return place ? place->shared_cores : 0;
  };
  const fi_info* best = list;
  for (const fi_info* info = list->next; info != nullptr; info = info->next)
    if (nearness(*info) > nearness(*best))
      best = info;
  return best;
}

}  // namespace lanyard::ofi
