// Library: libfabric, loaded when the first NIC over it is opened, and its return codes as Status.
//
// It is not linked, so programs on the simulated NIC do not need it. Loading it has side effects:
// Debian's brings PSM, whose constructor takes over SIGSEGV unless IPATH_NO_BACKTRACE is set. Most
// of libfabric is inline calls through objects; we call only the functions below by name. Other
// functions in their place make another libfabric; nicsim/deterministic does that.
#ifndef LANYARD_TRANSPORT_CXI_LIBRARY_H_
#define LANYARD_TRANSPORT_CXI_LIBRARY_H_

#include <rdma/fabric.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "transport/base/status.h"

namespace lanyard::ofi {

// Plain pointers into the library. It stays loaded until the process ends, because providers leave
// threads and handlers behind. Threads: any.
struct Library {
  // kUnsupported if libfabric is not installed or lacks a function.
  static Result<Library> load();

  std::string version() const;  // for example "1.17"

  int (*getinfo)(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
                 fi_info** info) = nullptr;
  void (*freeinfo)(fi_info* info) = nullptr;
  fi_info* (*dupinfo)(const fi_info* info) = nullptr;  // dupinfo(nullptr) makes a new one
  int (*fabric)(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) = nullptr;
  uint32_t (*version_number)() = nullptr;
  void* context = nullptr;  // passed to fabric()
};

// ---- Return codes. Only these functions map FI_E* numbers.

// `returned`: a call's result, 0 or more for success, or -FI_E*. `what`: the call, for the
// message, as in "fi_domain: Invalid argument". kAgain for FI_EAGAIN, and for FI_ENOSPC: others
// hold the trigger entries.
Status ofi_status(int64_t returned, std::string_view what);

// Only the code, for hot paths.
Code ofi_code(int64_t returned);

// The code of a failed operation, from the positive `err` of fi_cq_err_entry (fi_cq(3)).
Code completion_code(int err);

// Returns `err` if it can only mean that the peer's process or NIC is gone, else 0.
int unreachable_error(int err);

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_LIBRARY_H_
