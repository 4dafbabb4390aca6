#include "transport/cxi/objects.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "transport/cxi/library.h"
#include "transport/nic/driver.h"

namespace lanyard::ofi {

using nic::kMaxFailure;
using nic::kMaxSuccess;

Status OfiCounter::open(fid_domain* domain) {
  LANYARD_ASSIGN_OR_RETURN(fid_, open_provider_counter(domain));
  uses = 0;
  open_.store(true, std::memory_order_release);
  return {};
}

void OfiCounter::close() {
  open_.store(false, std::memory_order_release);
  fid_.reset();
}

nic::CounterValue OfiCounter::read() const {
  return {.success = fi_cntr_read(fid_.get()) & kMaxSuccess,
          .failure = static_cast<uint32_t>(std::min<uint64_t>(fi_cntr_readerr(fid_.get()), kMaxFailure))};
}

void OfiCounter::add(uint64_t success) { (void)fi_cntr_add(fid_.get(), success); }

void OfiCounter::add_error(uint32_t failures) {
  const uint64_t room = kMaxFailure - std::min<uint64_t>(fi_cntr_readerr(fid_.get()), kMaxFailure);
  if (const uint64_t added = std::min<uint64_t>(failures, room); added > 0)
    (void)fi_cntr_adderr(fid_.get(), added);
}

// On Slingshot, setting 0 is a register write. Any other value would need room in a command queue.
void OfiCounter::reset() {
  (void)fi_cntr_seterr(fid_.get(), 0);
  (void)fi_cntr_set(fid_.get(), 0);
}

namespace {

constexpr unsigned kFlagBits = 2;
constexpr uint32_t kLastGeneration = UINT32_MAX >> kFlagBits;

}  // namespace

Result<nic::RemoteKey> KeyMaker::next(const void* base) {
  if (generation_ == kLastGeneration)
    return Status(Code::kExhausted, "this process has used all of its memory keys, and a key is never reused");
  ++generation_;
  const uint32_t flags = reinterpret_cast<uintptr_t>(base) % sizeof(uint64_t) == 0 ? 0 : 1;
  return nic::RemoteKey{generation_ << kFlagBits | flags};
}

Result<MemoryKind> MemoryKind::of_device(const DeviceMemory& memory, int device) {
  const std::string_view kind = memory.kind();
  if (kind == "cuda")
    return MemoryKind{FI_HMEM_CUDA, device};
  if (kind == "hip")
    return MemoryKind{FI_HMEM_ROCR, device};
  return Status(Code::kInvalidArgument, "libfabric knows no device memory of kind \"" + std::string(kind) + "\"");
}

fi_mr_attr region_attributes(const iovec& piece, uint64_t key, MemoryKind kind) {
  fi_mr_attr attributes{};
  attributes.mr_iov = &piece;
  attributes.iov_count = 1;
  attributes.access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  attributes.requested_key = key;
  attributes.iface = kind.iface;
  if (kind.iface == FI_HMEM_CUDA)
    attributes.device.cuda = kind.device;
  else if (kind.iface != FI_HMEM_SYSTEM)
    attributes.device.reserved = static_cast<uint64_t>(kind.device);  // ROCm has no own field
  return attributes;
}

// In the order that the CXI provider requires: endpoint, counter, enable.
// Only then is the key valid.
Status OfiRegion::open(const Fabric& fabric, const MemoryRange& range, nic::RemoteKey key, OfiCounter* remote_write) {
  const iovec piece{range.base, range.bytes};
  const fi_mr_attr attributes = region_attributes(piece, key.value, range.kind);
  fid_mr* opened = nullptr;
  LANYARD_RETURN_IF_ERROR(
      ofi_status(fi_mr_regattr(fabric.domain(), &attributes, remote_write != nullptr ? FI_RMA_EVENT : 0, &opened),
                 "fi_mr_regattr"));
  Fid<fid_mr> memory(opened);
  LANYARD_RETURN_IF_ERROR(ofi_status(fi_mr_bind(opened, &fabric.endpoint()->fid, 0), "fi_mr_bind(endpoint)"));
  if (remote_write != nullptr)
    LANYARD_RETURN_IF_ERROR(
        ofi_status(fi_mr_bind(opened, &remote_write->fid()->fid, FI_REMOTE_WRITE), "fi_mr_bind(counter)"));
  LANYARD_RETURN_IF_ERROR(ofi_status(fi_mr_enable(opened), "fi_mr_enable"));
  if (fi_mr_key(opened) != key.value)
    return Status(Code::kUnsupported, "the provider does not use the requested key");
  memory_ = std::move(memory);
  base_ = static_cast<std::byte*>(range.base);
  bytes_ = range.bytes;
  key_ = key;
  remote_write_ = remote_write;
  uses = 0;
  open_.store(true, std::memory_order_release);
  return {};
}

void OfiRegion::close() {
  open_.store(false, std::memory_order_release);
  memory_.reset();
  remote_write_ = nullptr;
}

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
  if (op.kind == nic::OpKind::kWrite) {
    source_ = {local, op.bytes};
    target_ = {op.remote.offset, op.bytes, op.remote.key.value};
    write_.msg.addr = fabric.peer(op.remote.peer);
    write_.flags = flags_of(op);
    use_->op_type = FI_OP_WRITE;
    use_->op.rma = &write_;
  } else {
    operand_.addr = local;
    atomic_target_.addr = op.remote.offset;
    atomic_target_.key = op.remote.key.value;
    atomic_.msg.addr = fabric.peer(op.remote.peer);
    atomic_.flags = flags_of(op);
    atomic_.msg.op = op.atomic == nic::AtomicKind::kSum ? FI_SUM : FI_ATOMIC_WRITE;
    use_->op_type = FI_OP_ATOMIC;
    use_->op.atomic = &atomic_;
  }
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
