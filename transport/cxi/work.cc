#include "transport/cxi/work.h"

#include "transport/cxi/ofi_status.h"
#include "transport/nic/descriptor.h"

namespace lanyard::ofi {

namespace {

uint64_t flags_of(const nic::Op& op) {
  // Deferred work makes no completion entry without this flag.
  return FI_COMPLETION | (op.level == nic::CompletionLevel::kDelivery ? FI_DELIVERY_COMPLETE : 0);
}

}  // namespace

void Work::prepare(const Fabric& fabric) {
  write_.ep = fabric.endpoint();
  write_.msg.msg_iov = &source_;
  write_.msg.iov_count = 1;
  write_.msg.rma_iov = &target_;
  write_.msg.rma_iov_count = 1;
  operand_.count = 1;
  atomic_target_.count = 1;
  atomic_.ep = fabric.endpoint();
  atomic_.msg.msg_iov = &operand_;
  atomic_.msg.iov_count = 1;
  atomic_.msg.rma_iov = &atomic_target_;
  atomic_.msg.rma_iov_count = 1;
  atomic_.msg.datatype = FI_UINT64;
  name_contexts();
}

void Work::describe(const Fabric& fabric, const nic::Op& op, std::byte* local, fid_cntr* completion) {
  use_->completion_cntr = completion;
  if (op.kind == nic::OpKind::kWrite)
    describe_write(fabric, op, local);
  else
    describe_atomic(fabric, op, local);
}

void Work::describe_write(const Fabric& fabric, const nic::Op& op, std::byte* local) {
  source_ = {local, op.bytes};
  target_ = {op.remote.offset, op.bytes, op.remote.key.value};
  write_.msg.addr = fabric.peer(op.remote.peer);
  write_.flags = flags_of(op);
  use_->op_type = FI_OP_WRITE;
  use_->op.rma = &write_;
}

void Work::describe_atomic(const Fabric& fabric, const nic::Op& op, std::byte* local) {
  operand_.addr = local;
  atomic_target_.addr = op.remote.offset;
  atomic_target_.key = op.remote.key.value;
  atomic_.msg.addr = fabric.peer(op.remote.peer);
  atomic_.flags = flags_of(op);
  atomic_.msg.op = op.atomic == nic::AtomicKind::kSum ? FI_SUM : FI_ATOMIC_WRITE;
  use_->op_type = FI_OP_ATOMIC;
  use_->op.atomic = &atomic_;
}

Code Work::note(int64_t returned) {
  found_unreachable_ = returned < 0 ? unreachable_error(static_cast<int>(-returned)) : 0;
  return ofi_code(returned);
}

void Work::name_contexts() {
  use_->abandoned = false;
  write_.msg.context = atomic_.msg.context = &use_->context;
}

void Work::abandon() {
  use_->abandoned = true;
  use_->op_context = op.context;
  use_->peer = op.remote.peer;
  use_ = use_ == uses_ + kUses - 1 ? uses_ : use_ + 1;
  name_contexts();
}

Code Work::start(const Fabric& fabric) {
  return note(use_->op_type == FI_OP_WRITE ? fi_writemsg(fabric.endpoint(), &write_.msg, write_.flags)
                                           : fi_atomicmsg(fabric.endpoint(), &atomic_.msg, atomic_.flags));
}

}  // namespace lanyard::ofi
