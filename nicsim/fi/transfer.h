// Transfers: libfabric's messages as the NIC's operations, immediate or deferred.
#ifndef LANYARD_NICSIM_FI_TRANSFER_H_
#define LANYARD_NICSIM_FI_TRANSFER_H_

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <cstddef>
#include <cstdint>

#include "nicsim/fi/atomic_kind.h"
#include "nicsim/fi/endpoint.h"
#include "nicsim/fi/request.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

// Without completion counter and context, which are its user's to fill in.
struct Transfer {
  nic::Op op;
  Request request;

  bool fetches() const { return op.atomic == nic::AtomicKind::kFetchSum || op.atomic == nic::AtomicKind::kCompareSwap; }
};

// Beside the message: where old values go, and what they are compared with.
struct AtomicOperands {
  const fi_ioc* result = nullptr;
  size_t result_count = 0;
  const fi_ioc* compare = nullptr;
  size_t compare_count = 0;
};

// kInvalidState where the endpoint is not enabled, kInvalidArgument for a message that no CXI
// takes, kUnsupported for one that a real one might. The flags and the endpoint's capabilities are
// the caller's to check: for deferred work nobody asks for FI_RMA or FI_ATOMIC.
Result<Transfer> write_of(Endpoint& endpoint, const fi_msg_rma& message, uint64_t flags);
Result<Transfer> atomic_of(Endpoint& endpoint, AtomicForm form, const fi_msg_atomic& message,
                           const AtomicOperands& operands, uint64_t flags);

// What a CXI finds wrong with a transfer at its initiator, deferred or not: a negative error number, or 0.
int objection(const Transfer& transfer, uint64_t flags);

// Whether it goes unordered, in packets that only optimized regions take (cxip_rma.c:
// cxip_rma_is_unrestricted()). Of writes.
bool is_restricted(Endpoint& endpoint, uint64_t key);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_TRANSFER_H_
