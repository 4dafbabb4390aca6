// Deferred work: FI_QUEUE_WORK and FI_FLUSH_WORK of a domain.
#ifndef LANYARD_NICSIM_FI_WORK_H_
#define LANYARD_NICSIM_FI_WORK_H_

#include <rdma/fi_trigger.h>

#include "nicsim/fi/domain.h"

namespace lanyard::nicsim::fi {

// Copies the descriptor, as CXI does. -FI_EINVAL for what CXI refuses, -FI_ENOSYS for kinds of work
// that are not simulated, -FI_EAGAIN while the endpoint's transmit slots are all held, -FI_ENOSPC
// where entries are counted and none is left.
int queue_work(Domain& domain, const struct fi_deferred_work& work);

// Cancels every waiting entry of the domain, waits for what is under way, and pauses as CXI does.
int flush_work(Domain& domain);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_WORK_H_
