#include "nicsim/fi/endpoint.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_tagged.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

namespace lanyard::nicsim::fi {

using std::chrono::steady_clock;

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

// ---- Transfers: libfabric's messages as operations of the NIC

namespace {

constexpr uint64_t kFlags = FI_MORE | FI_COMPLETION | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
// How long a flush waits for operations in flight: a peer may never answer.
constexpr std::chrono::seconds kFlushTime{5};

// An operation and its request. The user fills in completion counter and context.
struct Transfer {
  nic::Op op;
  Request request;
};

Status bad(const char* why) { return {Code::kInvalidArgument, why}; }

// Fills in the target, the level and the report. kInvalidState: the endpoint is not enabled;
// kInvalidArgument: no CXI accepts this; kUnsupported: a real one might.
template <typename Message>
Result<Transfer> transfer_of(Endpoint& endpoint, uint64_t kind, const Message& message, uint64_t flags) {
  const uint64_t offset = message.rma_iov[0].addr;
  Domain& domain = endpoint.domain();
  if ((flags & ~kFlags) != 0)
    return bad("an operation flag is not simulated");
  if (!endpoint.enabled())
    return Status(Code::kInvalidState, "the endpoint is not enabled");
  if ((endpoint.caps() & kind) != kind)
    return Status(Code::kUnsupported, "the endpoint was opened without FI_RMA, or FI_ATOMIC for an atomic");
  LANYARD_RETURN_IF_ERROR(domain.peers().complete());
  const std::optional<uint32_t> peer = endpoint.vector().peer(message.addr);
  if (!peer.has_value())
    return bad("the address is not in the endpoint's address vector");
  Transfer transfer;
  nic::Op& op = transfer.op;
  const bool delivers = (flags & FI_DELIVERY_COMPLETE) != 0;
  op.level = delivers ? nic::CompletionLevel::kDelivery : nic::CompletionLevel::kTransmit;
  op.remote = {.peer = *peer, .key = {message.rma_iov[0].key}, .offset = offset};
  // Tells a target with late data to deliver first (LateWire).
  if (domain.settings().late_data && *peer != domain.peers().self()) {
    if ((offset & kDeliveryMark) != 0)
      return bad("the remote offset is 2^63 or more");
    op.remote.offset |= delivers ? kDeliveryMark : 0;
  }
  transfer.request = {
      .endpoint = &endpoint, .context = message.context, .flags = kind | FI_WRITE, .visible = endpoint.reports(flags)};
  return transfer;
}

Result<Transfer> write_of(Endpoint& endpoint, const fi_msg_rma& message, uint64_t flags) {
  if (message.iov_count > 1 || (message.iov_count == 1 && message.msg_iov == nullptr) || message.rma_iov == nullptr ||
      message.rma_iov_count != 1)
    return bad("a write must have exactly one remote piece and at most one local one");
  LANYARD_ASSIGN_OR_RETURN(Transfer transfer, transfer_of(endpoint, FI_RMA, message, flags));
  nic::Op& op = transfer.op;
  op.kind = nic::OpKind::kWrite;
  op.local = endpoint.domain().local(&transfer);  // for a write of 0 bytes
  if (message.iov_count == 1 && message.msg_iov[0].iov_len > 0) {
    op.bytes = transfer.request.bytes = message.msg_iov[0].iov_len;
    op.local = endpoint.domain().local(message.msg_iov[0].iov_base);
  }
  return transfer;
}

// The NIC has only the 64-bit atomics of nic.h.
Result<Transfer> atomic_of(Endpoint& endpoint, const fi_msg_atomic& message, uint64_t flags) {
  if ((message.datatype != FI_UINT64 && message.datatype != FI_INT64) ||
      (message.op != FI_SUM && message.op != FI_ATOMIC_WRITE))
    return Status(Code::kUnsupported, "only FI_SUM and FI_ATOMIC_WRITE of 64-bit integers are simulated");
  if (message.msg_iov == nullptr || message.iov_count != 1 || message.msg_iov[0].count != 1 ||
      message.rma_iov == nullptr || message.rma_iov_count != 1 || message.rma_iov[0].count != 1)
    return bad("an atomic must have one operand and one target");
  LANYARD_ASSIGN_OR_RETURN(Transfer transfer, transfer_of(endpoint, FI_ATOMIC, message, flags));
  nic::Op& op = transfer.op;
  op.kind = nic::OpKind::kAtomic;
  op.atomic = message.op == FI_SUM ? nic::AtomicKind::kSum : nic::AtomicKind::kReplace;
  op.local = endpoint.domain().local(message.msg_iov[0].addr);
  transfer.request.bytes = sizeof(uint64_t);
  return transfer;
}

// Begins a request and passes its operation to the NIC with `hand`.
template <typename Hand>
int begin(Domain& domain, Transfer& transfer, Hand hand) {
  const std::optional<uint64_t> number = domain.begin(transfer.request);
  if (!number.has_value())
    return -FI_EAGAIN;
  transfer.op.context = *number;
  if (const Status status = hand(transfer.op); !status.ok()) {
    domain.drop(*number);
    return error_of(status, FI_LOG_DOMAIN);
  }
  domain.nic().progress();  // if the threshold is reached already, it fires now
  return 0;
}

// An immediate operation, made by `lower` from a message.
template <typename Message, Result<Transfer> (*lower)(Endpoint&, const Message&, uint64_t)>
ssize_t begin_now(struct fid_ep* fid, const Message* message, uint64_t flags) {
  if (message == nullptr)
    return -FI_EINVAL;
  Endpoint& endpoint = *object_of<Endpoint>(fid);
  Result<Transfer> transfer = lower(endpoint, *message, flags);
  if (!transfer.ok())
    return error_of(transfer.status(), FI_LOG_EP_DATA);
  if (Counter* counter = endpoint.write_counter())
    transfer.value().op.completion = counter->id();
  Domain& domain = endpoint.domain();
  return begin(domain, transfer.value(), [&](const nic::Op& op) { return domain.nic().issue(op); });
}

int queue_transfer(Domain& domain, const struct fi_deferred_work& work, Result<Transfer> lowered) {
  if (!lowered.ok())
    return error_of(lowered.status(), FI_LOG_DOMAIN);
  Transfer& transfer = lowered.value();
  Endpoint& endpoint = *transfer.request.endpoint;
  if (&endpoint.domain() != &domain || (endpoint.caps() & FI_TRIGGER) == 0)
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "deferred work needs an endpoint of its domain, opened with FI_TRIGGER");
  if (transfer.op.kind == nic::OpKind::kAtomic && (endpoint.write_counter() == nullptr || !endpoint.counts_reads()))
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "deferred atomics need an endpoint with counters for FI_WRITE and FI_READ");
  if (work.completion_cntr != nullptr)
    transfer.op.completion = object_of<Counter>(work.completion_cntr)->id();
  return begin(domain, transfer, [&](const nic::Op& op) {
    return domain.trigger_queue().post(
        {.op = op, .trigger = object_of<Counter>(work.triggering_cntr)->id(), .threshold = work.threshold});
  });
}

}  // namespace

int queue_work(Domain& domain, const struct fi_deferred_work& work) {
  const auto is_ours = [&](struct fid_cntr* counter) { return &object_of<Counter>(counter)->domain() == &domain; };
  if (work.triggering_cntr == nullptr || !is_ours(work.triggering_cntr) ||
      (work.completion_cntr != nullptr && !is_ours(work.completion_cntr)))
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "deferred work needs a triggering counter of its domain");
  if (work.op.rma == nullptr)
    return -FI_EINVAL;
  const auto lowered = [](auto lower, const auto& op) { return lower(*object_of<Endpoint>(op.ep), op.msg, op.flags); };
  if (work.op_type == FI_OP_WRITE)
    return queue_transfer(domain, work, lowered(write_of, *work.op.rma));
  if (work.op_type == FI_OP_ATOMIC)
    return queue_transfer(domain, work, lowered(atomic_of, *work.op.atomic));
  return refuse(FI_ENOSYS, FI_LOG_DOMAIN, "this kind of deferred work is not simulated");
}

int flush_work(Domain& domain) {
  for (const nic::Op& op : domain.trigger_queue().take_back())
    domain.drop(op.context);
  if (const Status status = domain.nic().flush(); !status.ok())
    return error_of(status, FI_LOG_DOMAIN);
  const steady_clock::time_point end = steady_clock::now() + kFlushTime;
  domain.progress();
  while (domain.in_flight() > 0 && steady_clock::now() < end) {
    if (domain.nic().progress() == 0)
      sched_yield();
  }
  std::this_thread::sleep_for(domain.settings().flush_pause);
  domain.read_all_events();
  return 0;
}

// ---- libfabric's interface

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
fi_ops_rma rma_ops = table_of<fi_ops_rma>([](auto& ops) { ops.writemsg = begin_now<fi_msg_rma, write_of>; });
fi_ops_atomic atomic_ops =
    table_of<fi_ops_atomic>([](auto& ops) { ops.writemsg = begin_now<fi_msg_atomic, atomic_of>; });

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
