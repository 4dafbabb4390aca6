#include "nicsim/fi/endpoint.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "nicsim/fi/address_vector.h"
#include "nicsim/fi/counter.h"
#include "nicsim/fi/info.h"
#include "nicsim/fi/provider.h"
#include "nicsim/fi/queue.h"
#include "nicsim/fi/transfer.h"

namespace lanyard::nicsim::fi {

Endpoint::Endpoint(Domain& domain, const fi_info& info)
    : fid_ep(),
      domain_(domain),
      caps_(info.caps),
      slots_(info.tx_attr == nullptr || info.tx_attr->size == 0 ? kMaxTransmitSize : info.tx_attr->size) {}

int Endpoint::bind(struct fid& to, uint64_t flags) {
  if (enabled())
    return -FI_EOPBADSTATE;
  if (to.fclass == FI_CLASS_AV) {
    auto* vector = object_of<AddressVector, fid_av>(&to);
    if (&vector->domain() != &domain_ || vector_ != nullptr)
      return -FI_EINVAL;
    vector_ = vector;
    vector->endpoints.fetch_add(1);
    return 0;
  }
  if (to.fclass == FI_CLASS_CQ) {
    auto* queue = object_of<CompletionQueue, fid_cq>(&to);
    if (&queue->domain() != &domain_)
      return -FI_EINVAL;
    if ((flags & FI_TRANSMIT) == 0)
      return 0;  // receiving makes no events
    if (queue_ != nullptr)
      return -FI_EINVAL;
    queue_ = queue;
    selective_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
    queue->endpoints.fetch_add(1);
    return 0;
  }
  if (to.fclass != FI_CLASS_CNTR)
    return -FI_EINVAL;
  auto* counter = object_of<Counter, fid_cntr>(&to);
  if (&counter->domain() != &domain_)
    return -FI_EINVAL;
  // Like CXI, ignores other directions silently, FI_REMOTE_WRITE included.
  const auto count = [&](uint64_t direction, Counter*& place) {
    if ((flags & direction) == 0 || place != nullptr)
      return;
    place = counter;
    counter->bound.fetch_add(1);
  };
  count(FI_WRITE, write_counter_);
  count(FI_READ, read_counter_);
  return 0;
}

int Endpoint::enable() {
  if (vector_ == nullptr)
    return -FI_ENOAV;
  if (queue_ == nullptr)
    return -FI_ENOCQ;
  enabled_.store(true, std::memory_order_release);
  return 0;
}

int Endpoint::close() {
  if (regions.load() > 0)
    return -FI_EBUSY;
  domain_.forget(*this);
  if (vector_ != nullptr)
    vector_->endpoints.fetch_sub(1);
  if (queue_ != nullptr)
    queue_->endpoints.fetch_sub(1);
  if (write_counter_ != nullptr)
    write_counter_->bound.fetch_sub(1);
  if (read_counter_ != nullptr)
    read_counter_->bound.fetch_sub(1);
  return 0;
}

namespace {

Endpoint* endpoint_of(struct fid* fid) { return object_of<Endpoint, fid_ep>(fid); }

int close_endpoint(struct fid* fid) {
  Endpoint* endpoint = endpoint_of(fid);
  if (const int error = endpoint->close(); error != 0)
    return error;
  endpoint->domain().close_child();
  delete endpoint;
  return 0;
}

int bind_endpoint(struct fid* fid, struct fid* to, uint64_t flags) {
  return to == nullptr ? -FI_EINVAL : endpoint_of(fid)->bind(*to, flags);
}

int control_endpoint(struct fid* fid, int command, void*) {
  return command == FI_ENABLE ? endpoint_of(fid)->enable() : -FI_ENOSYS;
}

int name_of_endpoint(fid_t fid, void* buffer, size_t* bytes) {
  Endpoint* endpoint = endpoint_of(fid);
  if (!endpoint->enabled())
    return -FI_EOPBADSTATE;
  const nic::Address& address = endpoint->domain().peers().own();
  const size_t room = *bytes;
  *bytes = address.bytes.size();
  if (buffer != nullptr)
    std::memcpy(buffer, address.bytes.data(), std::min(room, *bytes));
  return room < *bytes ? -FI_ETOOSMALL : 0;
}

fi_ops endpoint_fid_ops = fid_ops(close_endpoint, bind_endpoint, control_endpoint);

fi_ops_ep endpoint_ops = {
    .size = sizeof(fi_ops_ep),
    .cancel = not_simulated,
    .getopt = not_simulated,
    .setopt = not_simulated,
    .tx_ctx = not_simulated,
    .rx_ctx = not_simulated,
    .rx_size_left = not_simulated,
    .tx_size_left = not_simulated,
};

fi_ops_cm name_ops = {
    .size = sizeof(fi_ops_cm),
    .setname = not_simulated,
    .getname = name_of_endpoint,
    .getpeer = not_simulated,
    .connect = not_simulated,
    .listen = not_simulated,
    .accept = not_simulated,
    .reject = not_simulated,
    .shutdown = not_simulated,
    .join = not_simulated,
};

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

}  // namespace

int open_endpoint(struct fid_domain* fid, struct fi_info* info, struct fid_ep** out, void* context) {
  if (info == nullptr || info->ep_attr == nullptr || info->ep_attr->type != FI_EP_RDM)
    return refuse(FI_EINVAL, FI_LOG_EP_CTRL, "the endpoint type must be FI_EP_RDM");
  auto* domain = &static_cast<Domain&>(*fid);
  auto* endpoint = new (std::nothrow) Endpoint(*domain, *info);
  if (endpoint == nullptr)
    return -FI_ENOMEM;
  endpoint->fid = {.fclass = FI_CLASS_EP, .context = context, .ops = &endpoint_fid_ops};
  endpoint->ops = &endpoint_ops;
  endpoint->cm = &name_ops;
  endpoint->msg = &message_ops;
  endpoint->tagged = &tagged_ops;
  endpoint->rma = &rma_ops;
  endpoint->atomic = &atomic_ops;
  domain->open_child();
  *out = endpoint;
  return 0;
}

}  // namespace lanyard::nicsim::fi
