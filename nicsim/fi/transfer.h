// Transfers: libfabric's messages as the NIC's operations, immediate or deferred.
#ifndef LANYARD_NICSIM_FI_TRANSFER_H_
#define LANYARD_NICSIM_FI_TRANSFER_H_

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include "nicsim/fi/domain.h"

namespace lanyard::nicsim::fi {

// FI_QUEUE_WORK of a domain. Copies the descriptor, as CXI does. -FI_EINVAL for what CXI refuses, -FI_ENOSYS for kinds
// of work that are not simulated, -FI_EAGAIN while the endpoint's transmit slots are all held, -FI_ENOSPC where entries
// are counted and none is left.
int queue_work(Domain& domain, const struct fi_deferred_work& work);
// FI_FLUSH_WORK: cancels every waiting entry of the domain, waits for what is under way, and pauses as CXI does.
int flush_work(Domain& domain);

// An endpoint's tables for immediate operations. -FI_EAGAIN while its transmit slots are all held: read its queue.
extern fi_ops_rma rma_ops;
extern fi_ops_atomic atomic_ops;

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_TRANSFER_H_
