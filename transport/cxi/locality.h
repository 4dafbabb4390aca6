// Locality: how near a network card is to the cores that this thread may run on.
#ifndef LANYARD_TRANSPORT_CXI_LOCALITY_H_
#define LANYARD_TRANSPORT_CXI_LOCALITY_H_

#include <rdma/fabric.h>

#include <string_view>

namespace lanyard::ofi {

// How many of the cores that the calling thread may run on are local to the device, as the kernel's
// PCI tree says. 0 where that is unknown: then every card is as near as any other.
int shared_cores(const fi_info& info);

// How many cores a list as in "0-3,8" shares with the calling thread's.
int cores_in(std::string_view list);

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_LOCALITY_H_
