// Library: libfabric itself, loaded when the first NIC over it is opened.
//
// Not linked: programs on the simulated NIC need no libfabric at run time and are spared what
// loading it does to them (Debian's brings PSM, whose constructor takes over SIGSEGV unless
// IPATH_NO_BACKTRACE is set before). Almost all of libfabric is inline calls through objects; the
// functions below are the only ones that the library exports to us. Who has others in their place has another
// libfabric: nicsim/deterministic does.
#ifndef LANYARD_TRANSPORT_CXI_LIBRARY_H_
#define LANYARD_TRANSPORT_CXI_LIBRARY_H_

#include <rdma/fabric.h>

#include <cstdint>
#include <string>

#include "transport/base/status.h"

namespace lanyard::ofi {

// Plain pointers into the library, which stays loaded until the process ends: providers leave
// threads and handlers behind that must not be unmapped. Threads: any.
struct Library {
  // kUnsupported where there is no libfabric or it lacks a function.
  static Result<Library> load();

  std::string version() const;  // "1.17"

  int (*getinfo)(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
                 fi_info** info) = nullptr;
  void (*freeinfo)(fi_info* info) = nullptr;
  fi_info* (*dupinfo)(const fi_info* info) = nullptr;  // of null: a fresh one
  int (*fabric)(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) = nullptr;
  uint32_t (*version_number)() = nullptr;
  void* context = nullptr;  // that fabric() is given
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_LIBRARY_H_
