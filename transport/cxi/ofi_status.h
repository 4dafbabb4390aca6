// Converts libfabric's return codes to Status. Only this file maps FI_E* numbers.
#ifndef LANYARD_TRANSPORT_CXI_OFI_STATUS_H_
#define LANYARD_TRANSPORT_CXI_OFI_STATUS_H_

#include <cstdint>
#include <string_view>

#include "transport/base/status.h"

namespace lanyard::ofi {

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

#endif  // LANYARD_TRANSPORT_CXI_OFI_STATUS_H_
