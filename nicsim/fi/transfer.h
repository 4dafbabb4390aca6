// Transfers: turns libfabric's messages into operations of the NIC, immediate or deferred.
#ifndef LANYARD_NICSIM_FI_TRANSFER_H_
#define LANYARD_NICSIM_FI_TRANSFER_H_

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include "nicsim/fi/domain.h"

namespace lanyard::nicsim::fi {

// FI_QUEUE_WORK. Copies the descriptor, as CXI does. -FI_EINVAL if CXI refuses it; -FI_ENOSYS if
// this kind of work is not simulated. -FI_EAGAIN while the endpoint has no free transmit slot;
// -FI_ENOSPC if no entry is free and the pool does not stall.
int queue_work(Domain& domain, const struct fi_deferred_work& work);
// FI_FLUSH_WORK: cancels every waiting entry of the domain, waits for operations in
// flight, and pauses as CXI does.
int flush_work(Domain& domain);

// An endpoint's tables for immediate operations. -FI_EAGAIN while the endpoint has no free
// transmit slot: read its queue.
extern fi_ops_rma rma_ops;
extern fi_ops_atomic atomic_ops;

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_TRANSFER_H_
