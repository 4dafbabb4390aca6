#include "transport/cxi/locality.h"

#include <sched.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <string>

namespace lanyard::ofi {

int cores_in(std::string_view list) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return 0;
  int shared = 0;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    int first = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc()) break;
    int last = first;
    if (read.ptr < end && *read.ptr == '-') {
      read = std::from_chars(read.ptr + 1, end, last);
      if (read.ec != std::errc()) break;
    }
    for (int core = first; core <= last && core < CPU_SETSIZE; ++core)
      shared += CPU_ISSET(core, &mine) != 0;
    at = read.ptr + 1;  // past the comma
  }
  return shared;
}

int shared_cores(const fi_info& info) {
  if (info.nic == nullptr || info.nic->bus_attr == nullptr ||
      info.nic->bus_attr->bus_type != FI_BUS_PCI)
    return 0;
  const fi_pci_attr& pci = info.nic->bus_attr->attr.pci;
  char path[128];
  std::snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.%x/local_cpulist",
                pci.domain_id, pci.bus_id, pci.device_id, pci.function_id);
  std::ifstream file(path);
  std::string list;
  return std::getline(file, list) ? cores_in(list) : 0;
}

}  // namespace lanyard::ofi
