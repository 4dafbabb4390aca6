#include "nicsim/fi/endpoint.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <cstring>

namespace lanyard::nicsim::fi {

Endpoint::Endpoint(Domain& domain, const fi_info& info)
    : domain_(use(domain)),
      caps_(info.caps),
      slots_(info.tx_attr == nullptr || info.tx_attr->size == 0 ? kMaxTransmitSize : info.tx_attr->size) {}

int Endpoint::bind(struct fid& to, uint64_t flags) {
  if (enabled())
    return -FI_EOPBADSTATE;
  if (to.fclass == FI_CLASS_AV) {
    auto* vector = object_of<AddressVector>(&to);
    if (&vector->domain() != domain_.get() || vector_ != nullptr)
      return -FI_EINVAL;
    vector_ = use(*vector);
    return 0;
  }
  if (to.fclass == FI_CLASS_CQ) {
    auto* queue = object_of<CompletionQueue>(&to);
    if (&queue->domain() != domain_.get())
      return -FI_EINVAL;
    if ((flags & FI_TRANSMIT) == 0)
      return 0;  // receiving makes no events
    if (queue_ != nullptr)
      return -FI_EINVAL;
    queue_ = use(*queue);
    selective_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
    return 0;
  }
  if (to.fclass != FI_CLASS_CNTR)
    return -FI_EINVAL;
  auto* counter = object_of<Counter>(&to);
  if (&counter->domain() != domain_.get())
    return -FI_EINVAL;
  // Like CXI, ignores other directions silently, FI_REMOTE_WRITE included.
  if ((flags & FI_WRITE) != 0 && write_counter_ == nullptr)
    write_counter_ = use(*counter);
  if ((flags & FI_READ) != 0 && read_counter_ == nullptr)
    read_counter_ = use(*counter);
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

namespace {

int bind_endpoint(struct fid* fid, struct fid* to, uint64_t flags) {
  return to == nullptr ? -FI_EINVAL : object_of<Endpoint>(fid)->bind(*to, flags);
}

int control_endpoint(struct fid* fid, int command, void*) {
  return command == FI_ENABLE ? object_of<Endpoint>(fid)->enable() : -FI_ENOSYS;
}

int name_of_endpoint(fid_t fid, void* buffer, size_t* bytes) {
  auto* endpoint = object_of<Endpoint>(fid);
  if (!endpoint->enabled())
    return -FI_EOPBADSTATE;
  const nic::Address& address = endpoint->domain().peers().own();
  const size_t room = *bytes;
  *bytes = address.bytes.size();
  if (buffer != nullptr)
    std::memcpy(buffer, address.bytes.data(), std::min(room, *bytes));
  return room < *bytes ? -FI_ETOOSMALL : 0;
}

fi_ops endpoint_fid_ops = fid_ops<Endpoint>(bind_endpoint, control_endpoint);

fi_ops_ep endpoint_ops = table_of<fi_ops_ep>();
fi_ops_cm name_ops = table_of<fi_ops_cm>([](auto& ops) { ops.getname = name_of_endpoint; });
fi_ops_msg message_ops = table_of<fi_ops_msg>();
fi_ops_tagged tagged_ops = table_of<fi_ops_tagged>();

}  // namespace

int open_endpoint(struct fid_domain* fid, struct fi_info* info, struct fid_ep** out, void* context) {
  if (info == nullptr || info->ep_attr == nullptr || info->ep_attr->type != FI_EP_RDM)
    return refuse(FI_EINVAL, FI_LOG_EP_CTRL, "the endpoint type must be FI_EP_RDM");
  auto* endpoint = new Endpoint(*object_of<Domain>(fid), *info);
  endpoint->ops = &endpoint_ops;
  endpoint->cm = &name_ops;
  endpoint->msg = &message_ops;
  endpoint->tagged = &tagged_ops;
  endpoint->rma = &rma_ops;
  endpoint->atomic = &atomic_ops;
  return hand_out(endpoint, FI_CLASS_EP, context, endpoint_fid_ops, out);
}

}  // namespace lanyard::nicsim::fi
