#include "transport/cxi/work.h"

#include "transport/base/check.h"
#include "transport/cxi/ofi_counter.h"
#include "transport/cxi/ofi_region.h"
#include "transport/cxi/ofi_status.h"

namespace lanyard::ofi {

namespace {

uint64_t flags_of(const nic::Op& op) {
  // Deferred work is not reported unless it asks for it. What fetches is delivered when its answer
  // is here.
  const bool delivery = op.level == nic::CompletionLevel::kDelivery && !Work::fetches(op);
  return FI_COMPLETION | (delivery ? FI_DELIVERY_COMPLETE : 0);
}

}  // namespace

Status Work::open_done(fid_domain* domain) {
  Result<Fid<fid_cntr>> counter = open_provider_counter(domain);
  if (counter.ok()) done_ = std::move(counter.value());
  return counter.status();
}

void Work::describe(const Fabric& fabric, const nic::Op& op, std::byte* local, std::byte* fetch) {
  if (op.kind == nic::OpKind::kWrite)
    describe_write(fabric, op, local);
  else
    describe_atomic(fabric, op, local, fetch);
}

void Work::describe_write(const Fabric& fabric, const nic::Op& op, std::byte* local) {
  source_ = {local, op.bytes};
  target_ = {op.remote.offset, op.bytes, op.remote.key.value};
  if (op.bytes == 0 && !fabric.provider().empty_writes) {
    source_ = {&nothing_, sizeof nothing_};
    target_ = {0, sizeof nothing_, KeyMaker::beside(op.remote.key).value};
  }
  write_ = {};
  write_.ep = fabric.endpoint();
  write_.msg.msg_iov = &source_;
  write_.msg.iov_count = 1;
  write_.msg.addr = fabric.peer(op.remote.peer);
  write_.msg.rma_iov = &target_;
  write_.msg.rma_iov_count = 1;
  write_.msg.context = &work_.context;
  write_.flags = flags_of(op);
  work_.op_type = FI_OP_WRITE;
  work_.op.rma = &write_;
}

void Work::describe_atomic(const Fabric& fabric, const nic::Op& op, std::byte* local,
                           std::byte* fetch) {
  operand_.addr = local;
  operand_.count = 1;
  result_.addr = fetch;
  result_.count = 1;
  compare_ = op.compare;
  compare_operand_.addr = &compare_;
  compare_operand_.count = 1;
  atomic_target_ = {op.remote.offset, 1, op.remote.key.value};
  fi_msg_atomic message{};
  message.msg_iov = &operand_;
  message.iov_count = 1;
  message.addr = fabric.peer(op.remote.peer);
  message.rma_iov = &atomic_target_;
  message.rma_iov_count = 1;
  message.datatype = FI_UINT64;
  message.context = &work_.context;
  switch (op.atomic) {
    case nic::AtomicKind::kSum:
    case nic::AtomicKind::kReplace:
      message.op = op.atomic == nic::AtomicKind::kSum ? FI_SUM : FI_ATOMIC_WRITE;
      atomic_ = {fabric.endpoint(), message, flags_of(op)};
      work_.op_type = FI_OP_ATOMIC;
      work_.op.atomic = &atomic_;
      return;
    case nic::AtomicKind::kFetchSum:
      message.op = FI_SUM;
      fetch_ = {fabric.endpoint(), message, {&result_, nullptr, 1}, flags_of(op)};
      work_.op_type = FI_OP_FETCH_ATOMIC;
      work_.op.fetch_atomic = &fetch_;
      return;
    case nic::AtomicKind::kCompareSwap:
      message.op = FI_CSWAP;
      compare_swap_ = {fabric.endpoint(),
                       message,
                       {&result_, nullptr, 1},
                       {&compare_operand_, nullptr, 1},
                       flags_of(op)};
      work_.op_type = FI_OP_COMPARE_ATOMIC;
      work_.op.compare_atomic = &compare_swap_;
      return;
  }
}

Status Work::post(const Fabric& fabric, fid_cntr* trigger, uint64_t threshold,
                  fid_cntr* completion) {
  work_.threshold = threshold;
  work_.triggering_cntr = trigger;
  work_.completion_cntr = done_ == nullptr ? completion : done_.get();
  if (done_ != nullptr) (void)fi_cntr_set(done_.get(), 0);
  LANYARD_RETURN_IF_ERROR(
      ofi_status(fi_control(&fabric.domain()->fid, FI_QUEUE_WORK, &work_), "FI_QUEUE_WORK"));
  if (done_ == nullptr || completion == nullptr) return {};
  // Second, so that nothing is left behind where the first is refused; what is done by now adds at
  // once.
  chain_ = {};
  chain_.threshold = 1;
  chain_.triggering_cntr = done_.get();
  chain_.op_type = FI_OP_CNTR_ADD;
  chain_add_ = {completion, 1};
  chain_.op.cntr = &chain_add_;
  const int chained = fi_control(&fabric.domain()->fid, FI_QUEUE_WORK, &chain_);
  LANYARD_CHECK(chained == 0, "the provider took an operation, but not its completion");
  return {};
}

Status Work::start(const Fabric& fabric) {
  switch (work_.op_type) {
    case FI_OP_WRITE:
      return ofi_status(fi_writemsg(fabric.endpoint(), &write_.msg, write_.flags), "fi_writemsg");
    case FI_OP_ATOMIC:
      return ofi_status(fi_atomicmsg(fabric.endpoint(), &atomic_.msg, atomic_.flags),
                        "fi_atomicmsg");
    case FI_OP_FETCH_ATOMIC:
      return ofi_status(
          fi_fetch_atomicmsg(fabric.endpoint(), &fetch_.msg, &result_, nullptr, 1, fetch_.flags),
          "fi_fetch_atomicmsg");
    default:
      return ofi_status(
          fi_compare_atomicmsg(fabric.endpoint(), &compare_swap_.msg, &compare_operand_, nullptr, 1,
                               &result_, nullptr, 1, compare_swap_.flags),
          "fi_compare_atomicmsg");
  }
}

bool Work::is_done() const {
  if (fi_cntr_read(done_.get()) == 0) return false;
  // The provider may still be on its way from the count to the chain; its lock on the counter lets
  // this call pass when it is not.
  (void)fi_cntr_add(done_.get(), 0);
  return true;
}

void Work::finish_failed() { (void)fi_cntr_add(done_.get(), 1); }

}  // namespace lanyard::ofi
