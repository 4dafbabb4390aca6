// Immediate operations: the endpoint's tables of functions for remote memory access and atomics.
#ifndef LANYARD_NICSIM_FI_IMMEDIATE_H_
#define LANYARD_NICSIM_FI_IMMEDIATE_H_

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

namespace lanyard::nicsim::fi {

// -FI_EAGAIN while the endpoint's transmit slots are all held: read its queue. Reads of remote
// memory are not simulated.
fi_ops_rma& rma_ops();
fi_ops_atomic& atomic_ops();

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_IMMEDIATE_H_
