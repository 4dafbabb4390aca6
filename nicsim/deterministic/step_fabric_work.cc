// The part of StepFabric that takes operations: from libfabric's descriptors to the model's.
#include <rdma/fi_errno.h>

#include <algorithm>

#include "nicsim/deterministic/step_fabric.h"
#include "nicsim/deterministic/world.h"
#include "transport/cxi/objects.h"

namespace lanyard::nicsim {

namespace {

Status bad(const char* why) { return {Code::kInvalidArgument, why}; }

nic::CompletionLevel level_of(uint64_t flags) {
  return (flags & FI_DELIVERY_COMPLETE) != 0 ? nic::CompletionLevel::kDelivery : nic::CompletionLevel::kTransmit;
}

}  // namespace

// What libfabric is not told, the driver's own note says: whose operation it is, and which of the regions that there
// are at that address it reads. `start`, which the model does not use, takes libfabric's context.
Result<nic::Op> StepFabric::name(nic::Op op, void* context, const void* local, fi_addr_t peer) const {
  const ofi::Work& work = *ofi::Work::use_of(context).work;
  const Result<nic::LocalSpan> span = find_local(work.op.local.region, local);
  if (!span.ok())
    return span.status();
  if (peer >= peers_.size())
    return bad("no such address");
  op.local = span.value();
  op.remote.peer = peers_[peer];
  op.context = work.op.context;
  op.start = reinterpret_cast<uintptr_t>(context);
  return op;
}

// The address in memory of the driver's region.
Result<nic::LocalSpan> StepFabric::find_local(nic::RegionId asked, const void* local) const {
  const Result<nic::RemoteKey> key = world_.process(rank_).card().key(asked);
  const auto region = std::find_if(regions_.begin(), regions_.end(),
                                   [&key](const Region* each) { return key.ok() && each->key == key.value().value; });
  if (region == regions_.end())
    return bad("it names memory that is not registered");
  return nic::LocalSpan{(*region)->id,
                        reinterpret_cast<uintptr_t>(local) - reinterpret_cast<uintptr_t>((*region)->base)};
}

Result<nic::Op> StepFabric::lower(const fi_deferred_work& work) const {
  switch (work.op_type) {
    case FI_OP_ATOMIC: return lower(work.op.atomic->msg, work.op.atomic->flags);
    default: return lower(work.op.rma->msg, work.op.rma->flags);
  }
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
  uint64_t flags = 0;
  switch (work.op_type) {
    case FI_OP_WRITE: flags = work.op.rma->flags; break;
    case FI_OP_ATOMIC: flags = work.op.atomic->flags; break;
    default: return mistake("queues work that is neither a write nor an atomic");
  }
  if (work.triggering_cntr == nullptr || (flags & FI_COMPLETION) == 0)
    return mistake("queues work that nothing fires, or of whose end it does not hear");
  const Result<nic::Op> op = lower(work);
  if (!op.ok())
    return mistake("queues work, but " + op.status().message());
  if (slots_held_ == slots_)
    return refuse(FI_EAGAIN);
  nic::DeferredOp deferred{op.value(), static_cast<const Counter*>(work.triggering_cntr)->id, work.threshold};
  const nic::CounterId completion = ofi::Work::use_of(reinterpret_cast<void*>(op.value().start)).work->op.completion;
  if (refuses(op.value()))
    return doom({op.value(), completion, deferred.trigger, deferred.threshold});
  if (work.completion_cntr != nullptr)
    deferred.op.completion = static_cast<const Counter*>(work.completion_cntr)->id;
  const Status status = nic_.post({&deferred, 1});
  if (status.code() == Code::kAgain) {
    refused_falsely_ = refused_falsely_ || nic_.free_entries() > 0;
    return refuse(FI_ENOSPC);
  }
  if (!status.ok())
    return mistake("queues work, but " + status.message());
  given_.push_back({op.value(), completion});
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
  const ofi::Work& work = *ofi::Work::use_of(reinterpret_cast<void*>(op.value().start)).work;
  if (refuses(op.value()))
    return doom({op.value(), work.op.completion, work.trigger, work.threshold});
  // What fails at once is in the queue on return.
  ++slots_held_;
  given_.push_back({op.value(), work.op.completion});
  const Status status = nic_.issue(op.value());
  changed_ = true;
  if (status.ok())
    return 0;
  given_.pop_back();
  --slots_held_;
  return status.code() == Code::kAgain ? refuse(FI_EAGAIN) : mistake("starts an operation, but " + status.message());
}

}  // namespace lanyard::nicsim
