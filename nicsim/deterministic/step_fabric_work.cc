// The part of StepFabric that takes operations: from libfabric's descriptors to the model's.
#include <rdma/fi_errno.h>

#include "nicsim/deterministic/step_fabric.h"
#include "nicsim/deterministic/world.h"
#include "transport/cxi/work.h"

namespace lanyard::nicsim {

namespace {

Status bad(const char* why) { return {Code::kInvalidArgument, why}; }

nic::CompletionLevel level_of(uint64_t flags) {
  return (flags & FI_DELIVERY_COMPLETE) != 0 ? nic::CompletionLevel::kDelivery : nic::CompletionLevel::kTransmit;
}

}  // namespace

// What libfabric is not told, the driver's own note says: whose operation it is, and which of the regions that there
// are at that address it reads. `value`, which only counter operations use, takes libfabric's context.
Result<nic::Op> StepFabric::name(nic::Op op, void* context, const void* local, fi_addr_t peer) const {
  const nic::Op& asked = ofi::Work::use_of(context).work->op;
  const uint32_t region = asked.local.region.value;
  if (region >= regions_.size() || regions_[region] == nullptr)
    return bad("it reads memory that is not registered");
  if (peer >= peers_.size())
    return bad("no such address");
  op.local.region = asked.local.region;
  op.local.offset = reinterpret_cast<uintptr_t>(local) - reinterpret_cast<uintptr_t>(regions_[region]->base);
  op.remote.peer = peers_[peer];
  op.context = asked.context;
  op.value = reinterpret_cast<uintptr_t>(context);
  return op;
}

Result<nic::Op> StepFabric::lower(const fi_msg_rma& message, uint64_t flags) const {
  if (message.iov_count != 1 || message.rma_iov_count != 1 || message.msg_iov->iov_len != message.rma_iov->len)
    return bad("a write has one local and one remote piece of its length");
  nic::Op op;
  op.level = level_of(flags);
  op.bytes = message.msg_iov->iov_len;
  op.remote.key = {message.rma_iov->key};
  op.remote.offset = message.rma_iov->addr;
  return name(op, message.context, message.msg_iov->iov_base, message.addr);
}

Result<nic::Op> StepFabric::lower(const fi_msg_atomic& message, uint64_t flags) const {
  if (message.iov_count != 1 || message.rma_iov_count != 1 || message.msg_iov->count != 1 ||
      message.rma_iov->count != 1 || message.datatype != FI_UINT64 || message.op != FI_SUM)
    return bad("atomics are sums of one 64-bit integer");
  nic::Op op;
  op.kind = nic::OpKind::kAtomic;
  op.level = level_of(flags);
  op.remote.key = {message.rma_iov->key};
  op.remote.offset = message.rma_iov->addr;
  return name(op, message.context, message.msg_iov->addr, message.addr);
}

int StepFabric::queue(const fi_deferred_work& work) {
  const bool atomic = work.op_type == FI_OP_ATOMIC;
  if (!atomic && work.op_type != FI_OP_WRITE)
    return mistake("queues work that is neither a write nor a plain atomic");
  const uint64_t flags = atomic ? work.op.atomic->flags : work.op.rma->flags;
  if (work.triggering_cntr == nullptr || (flags & FI_COMPLETION) == 0)
    return mistake("queues work that nothing fires, or of whose end it does not hear");
  const Result<nic::Op> op = atomic ? lower(work.op.atomic->msg, flags) : lower(work.op.rma->msg, flags);
  if (!op.ok())
    return mistake("queues work, but " + op.status().message());
  if (slots_held_ == slots_)
    return refuse(FI_EAGAIN);
  nic::DeferredOp deferred{op.value(), static_cast<const Counter*>(work.triggering_cntr)->id, work.threshold};
  if (work.completion_cntr != nullptr)
    deferred.op.completion = static_cast<const Counter*>(work.completion_cntr)->id;
  const Status status = nic_.post({&deferred, 1});
  if (status.code() == Code::kAgain) {
    refused_falsely_ = refused_falsely_ || nic_.free_entries() > 0;
    return refuse(FI_ENOSPC);
  }
  if (!status.ok())
    return mistake("queues work, but " + status.message());
  ++slots_held_;
  changed_ = true;
  return 0;
}

ssize_t StepFabric::write_now(const fi_msg_rma& message, uint64_t flags) { return start(lower(message, flags)); }
ssize_t StepFabric::atomic_now(const fi_msg_atomic& message, uint64_t flags) { return start(lower(message, flags)); }

ssize_t StepFabric::start(const Result<nic::Op>& op) {
  if (!op.ok())
    return mistake("starts an operation, but " + op.status().message());
  if (slots_held_ == slots_)
    return refuse(FI_EAGAIN);
  ++slots_held_;  // what fails at once is in the queue on return
  const Status status = nic_.issue(op.value());
  changed_ = true;
  if (status.ok())
    return 0;
  --slots_held_;
  return status.code() == Code::kAgain ? refuse(FI_EAGAIN) : mistake("starts an operation, but " + status.message());
}

}  // namespace lanyard::nicsim
