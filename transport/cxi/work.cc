#include "transport/cxi/work.h"

#include "transport/base/check.h"
#include "transport/cxi/ofi_counter.h"
#include "transport/cxi/ofi_region.h"
#include "transport/cxi/ofi_status.h"
#include "transport/nic/descriptor.h"

namespace lanyard::ofi {

namespace {

uint64_t flags_of(const nic::Op& op) {
  // Deferred work is not reported unless it asks for it. What fetches is delivered when its answer
  // is here.
  const bool delivery = op.level == nic::CompletionLevel::kDelivery && !nic::fetches(op);
  return FI_COMPLETION | (delivery ? FI_DELIVERY_COMPLETE : 0);
}

}  // namespace

Status Work::prepare(const Fabric& fabric) {
  write_.ep = fabric.endpoint();
  write_.msg.msg_iov = &source_;
  write_.msg.iov_count = 1;
  write_.msg.rma_iov = &target_;
  write_.msg.rma_iov_count = 1;
  operand_.count = result_.count = compare_operand_.count = 1;
  compare_operand_.addr = &compare_;
  atomic_target_.count = 1;
  atomic_.ep = fabric.endpoint();
  atomic_.msg.msg_iov = &operand_;
  atomic_.msg.iov_count = 1;
  atomic_.msg.rma_iov = &atomic_target_;
  atomic_.msg.rma_iov_count = 1;
  atomic_.msg.datatype = FI_UINT64;
  name_contexts();
  if (fabric.provider().reports_deferred_work)
    return {};
  Result<Fid<fid_cntr>> counter = open_provider_counter(fabric.domain());
  if (counter.ok())
    done_ = std::move(counter.value());
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
  write_.msg.addr = fabric.peer(op.remote.peer);
  write_.flags = flags_of(op);
  use().op_type = FI_OP_WRITE;
  use().op.rma = &write_;
}

void Work::describe_atomic(const Fabric& fabric, const nic::Op& op, std::byte* local, std::byte* fetch) {
  operand_.addr = local;
  atomic_target_.addr = op.remote.offset;
  atomic_target_.key = op.remote.key.value;
  atomic_.msg.addr = fabric.peer(op.remote.peer);
  atomic_.flags = flags_of(op);
  if (nic::fetches(op))
    return describe_fetching(op, fetch);
  atomic_.msg.op = op.atomic == nic::AtomicKind::kSum ? FI_SUM : FI_ATOMIC_WRITE;
  use().op_type = FI_OP_ATOMIC;
  use().op.atomic = &atomic_;
}

void Work::describe_fetching(const nic::Op& op, std::byte* fetch) {
  result_.addr = fetch;
  if (op.atomic == nic::AtomicKind::kFetchSum) {
    atomic_.msg.op = FI_SUM;
    fetch_ = {atomic_.ep, atomic_.msg, {&result_, nullptr, 1}, atomic_.flags};
    use().op_type = FI_OP_FETCH_ATOMIC;
    use().op.fetch_atomic = &fetch_;
    return;
  }
  compare_ = op.compare;
  atomic_.msg.op = FI_CSWAP;
  compare_swap_ = {atomic_.ep, atomic_.msg, {&result_, nullptr, 1}, {&compare_operand_, nullptr, 1}, atomic_.flags};
  use().op_type = FI_OP_COMPARE_ATOMIC;
  use().op.compare_atomic = &compare_swap_;
}

Code Work::post(const Fabric& fabric, fid_cntr* trigger, uint64_t threshold, fid_cntr* completion) {
  use().threshold = threshold;
  use().triggering_cntr = trigger;
  if (done_ == nullptr) {
    use().completion_cntr = completion;
    return note(fi_control(&fabric.domain()->fid, FI_QUEUE_WORK, &use()));
  }
  // The counter of its own only grows, so that it need not be set each time; far below what 31 bits hold.
  constexpr uint64_t kMostEnded = uint64_t{1} << 30;
  if (ended_ == kMostEnded) {
    (void)fi_cntr_set(done_.get(), 0);
    ended_ = 0;
  }
  use().completion_cntr = done_.get();
  const Code code = note(fi_control(&fabric.domain()->fid, FI_QUEUE_WORK, &use()));
  // Second, so that nothing is left behind where the first is refused; what is done by now adds at
  // once.
  if (code == Code::kOk && completion != nullptr)
    chain(fabric, completion);
  return code;
}

void Work::chain(const Fabric& fabric, fid_cntr* completion) {
  chain_ = {};
  chain_.threshold = ended_ + 1;
  chain_.triggering_cntr = done_.get();
  chain_.op_type = FI_OP_CNTR_ADD;
  chain_add_ = {completion, 1};
  chain_.op.cntr = &chain_add_;
  const int chained = fi_control(&fabric.domain()->fid, FI_QUEUE_WORK, &chain_);
  LANYARD_CHECK(chained == 0, "the provider took an operation, but not its completion");
}

Code Work::note(int64_t returned) {
  found_unreachable_ = returned < 0 && is_unreachable(static_cast<int>(-returned));
  return ofi_code(returned);
}

void Work::name_contexts() {
  use().given_up = false;
  write_.msg.context = atomic_.msg.context = &use().context;
}

void Work::give_up() {
  use().given_up = true;
  use().op_context = op.context;
  use().peer = op.remote.peer;
  current_ = (current_ + 1) % kUses;
  name_contexts();
}

Code Work::start(const Fabric& fabric) {
  switch (use().op_type) {
    case FI_OP_WRITE: return note(fi_writemsg(fabric.endpoint(), &write_.msg, write_.flags));
    case FI_OP_ATOMIC: return note(fi_atomicmsg(fabric.endpoint(), &atomic_.msg, atomic_.flags));
    case FI_OP_FETCH_ATOMIC:
      return note(fi_fetch_atomicmsg(fabric.endpoint(), &fetch_.msg, &result_, nullptr, 1, fetch_.flags));
    default:
      return note(fi_compare_atomicmsg(fabric.endpoint(), &compare_swap_.msg, &compare_operand_, nullptr, 1, &result_,
                                       nullptr, 1, compare_swap_.flags));
  }
}

bool Work::is_done() {
  if (fi_cntr_read(done_.get()) == ended_)
    return false;
  ++ended_;
  // The provider may still be on its way from the count to the chain; its lock on the counter lets
  // this call pass when it is not.
  (void)fi_cntr_add(done_.get(), 0);
  return true;
}

void Work::finish_failed() {
  (void)fi_cntr_add(done_.get(), 1);
  ++ended_;
}

}  // namespace lanyard::ofi
