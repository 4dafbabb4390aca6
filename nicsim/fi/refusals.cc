#include "nicsim/fi/refusals.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "nicsim/fi/provider.h"

namespace lanyard::nicsim::fi {

namespace {

fi_ops_msg message_ops = {
    .size = sizeof(fi_ops_msg),
    .recv = not_simulated,
    .recvv = not_simulated,
    .recvmsg = not_simulated,
    .send = not_simulated,
    .sendv = not_simulated,
    .sendmsg = not_simulated,
    .inject = not_simulated,
    .senddata = not_simulated,
    .injectdata = not_simulated,
};

fi_ops_tagged tagged_ops = {
    .size = sizeof(fi_ops_tagged),
    .recv = not_simulated,
    .recvv = not_simulated,
    .recvmsg = not_simulated,
    .send = not_simulated,
    .sendv = not_simulated,
    .sendmsg = not_simulated,
    .inject = not_simulated,
    .senddata = not_simulated,
    .injectdata = not_simulated,
};

fi_ops_rma rma_ops = {
    .size = sizeof(fi_ops_rma),
    .read = not_simulated,
    .readv = not_simulated,
    .readmsg = not_simulated,
    .write = not_simulated,
    .writev = not_simulated,
    .writemsg = not_simulated,
    .inject = not_simulated,
    .writedata = not_simulated,
    .injectdata = not_simulated,
};

fi_ops_atomic atomic_ops = {
    .size = sizeof(fi_ops_atomic),
    .write = not_simulated,
    .writev = not_simulated,
    .writemsg = not_simulated,
    .inject = not_simulated,
    .readwrite = not_simulated,
    .readwritev = not_simulated,
    .readwritemsg = not_simulated,
    .compwrite = not_simulated,
    .compwritev = not_simulated,
    .compwritemsg = not_simulated,
    .writevalid = not_simulated,
    .readwritevalid = not_simulated,
    .compwritevalid = not_simulated,
};

fi_ops_collective collective_ops = {
    .size = sizeof(fi_ops_collective),
    .barrier = not_simulated,
    .broadcast = not_simulated,
    .alltoall = not_simulated,
    .allreduce = not_simulated,
    .allgather = not_simulated,
    .reduce_scatter = not_simulated,
    .reduce = not_simulated,
    .scatter = not_simulated,
    .gather = not_simulated,
    .msg = not_simulated,
    .barrier2 = not_simulated,
};

}  // namespace

void refuse_transfers(struct fid_ep& endpoint) {
  endpoint.msg = &message_ops;
  endpoint.tagged = &tagged_ops;
  endpoint.rma = &rma_ops;
  endpoint.atomic = &atomic_ops;
  endpoint.collective = &collective_ops;
}

}  // namespace lanyard::nicsim::fi
