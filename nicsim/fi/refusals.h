// Tables of functions that all refuse with -FI_ENOSYS: no call of libfabric's ends in a null pointer.
//
// An endpoint has them before it is enabled, and afterwards for every kind of operation that it was not opened for
// (libfabric 1.22: prov/cxi/src/cxip_ep.c, cxip_ep_enable()). What comes to be simulated replaces its table here by
// one of its own.
#ifndef LANYARD_NICSIM_FI_REFUSALS_H_
#define LANYARD_NICSIM_FI_REFUSALS_H_

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

namespace lanyard::nicsim::fi {

// Sets all tables of operations that transfer data.
void refuse_transfers(struct fid_ep& endpoint);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_REFUSALS_H_
