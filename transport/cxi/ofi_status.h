// The seam where libfabric's return codes become Lanyard's Status: nothing behind it knows FI_E*
// numbers.
#ifndef LANYARD_TRANSPORT_CXI_OFI_STATUS_H_
#define LANYARD_TRANSPORT_CXI_OFI_STATUS_H_

#include <cstdint>
#include <string_view>

#include "transport/base/status.h"

namespace lanyard::ofi {

// What a call returned: 0 or more is success, less is -FI_E*. `what` is the call, for the message,
// as in "fi_domain: Invalid argument". kAgain where the provider asks to come back (FI_EAGAIN, and
// FI_ENOSPC: trigger entries that others hold).
Status ofi_status(int64_t returned, std::string_view what);

// The code alone, for hot paths.
Code ofi_code(int64_t returned);

// The code of an operation that failed, by the positive `err` of fi_cq_err_entry (fi_cq(3)).
Code completion_code(int err);

// Such an `err` where it can only mean that the peer's process or card is not there, else 0.
int unreachable_error(int err);

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_OFI_STATUS_H_
