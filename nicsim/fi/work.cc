#include "nicsim/fi/work.h"

#include <sched.h>

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <thread>

#include "nicsim/fi/counter.h"
#include "nicsim/fi/cxi_ext.h"
#include "nicsim/fi/endpoint.h"
#include "nicsim/fi/provider.h"
#include "nicsim/fi/request.h"
#include "nicsim/fi/transfer.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

using std::chrono::steady_clock;

namespace {

constexpr uint64_t kFlags =
    FI_MORE | FI_COMPLETION | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | kCounterWriteback;
// How long a flush waits for operations under way; a peer that never answers must not hold it for
// ever.
constexpr std::chrono::seconds kSettleTime{5};

Counter* counter_of(struct fid_cntr* counter) { return static_cast<Counter*>(counter); }
bool counts_at(struct fid_cntr* counter, const Domain& domain) {
  return counter != nullptr && counter->fid.fclass == FI_CLASS_CNTR && &counter_of(counter)->domain() == &domain;
}

// Null where it is none of the domain's.
Endpoint* endpoint_of(struct fid_ep* fid, const Domain& domain) {
  if (fid == nullptr || fid->fid.fclass != FI_CLASS_EP)
    return nullptr;
  auto* endpoint = static_cast<Endpoint*>(fid);
  return &endpoint->domain() == &domain ? endpoint : nullptr;
}

// The classes that the card tells apart: all others travel as best effort (cxip_cmdq.c: cxip_ofi_to_cxi_tc()).
uint32_t card_class(uint32_t traffic_class) {
  const bool own =
      traffic_class == FI_TC_BULK_DATA || traffic_class == FI_TC_DEDICATED_ACCESS || traffic_class == FI_TC_LOW_LATENCY;
  return own ? traffic_class : uint32_t{FI_TC_BEST_EFFORT};
}

// Two entries that fire one after the other, posted as one.
class Entries {
 public:
  Entries(nic::CounterId trigger, uint64_t threshold) : trigger_(trigger), threshold_(threshold) {}

  void add(const nic::Op& op) { entries_[count_++] = {op, trigger_, threshold_}; }
  // An entry that writes the triggering counter back, one step later.
  void add_writeback() { entries_[count_++] = {idle(RequestTable::kWriteback), trigger_, threshold_ + 1}; }
  std::span<const nic::DeferredOp> all() const { return {entries_.data(), count_}; }

 private:
  nic::Op idle(uint64_t context) const { return counter_op(nic::OpKind::kCounterAdd, trigger_, 0, context); }

  const nic::CounterId trigger_;
  const uint64_t threshold_;
  std::array<nic::DeferredOp, 2> entries_;
  size_t count_ = 0;
};

int post(Domain& domain, const Entries& entries) {
  const Status status = domain.trigger_queue().post(entries.all());
  if (!status.ok())
    return error_of(status, FI_LOG_DOMAIN);
  domain.nic().progress();  // what is met already fires at once
  return 0;
}

int queue_counter_op(Domain& domain, const struct fi_deferred_work& work, nic::OpKind kind) {
  const struct fi_op_cntr* change = work.op.cntr;
  if (!counts_at(change->cntr, domain) || work.completion_cntr != nullptr)
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "counter work names a counter of its domain and completes nowhere");
  Entries entries(counter_of(work.triggering_cntr)->id(), work.threshold);
  entries.add(counter_op(kind, counter_of(change->cntr)->id(), change->value, RequestTable::kNobody));
  return post(domain, entries);
}

int queue_transfer(Domain& domain, const struct fi_deferred_work& work, Result<Transfer> lowered, uint64_t flags) {
  if ((flags & ~kFlags) != 0)
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "deferred work does not take these flags");
  if (!lowered.ok())
    return error_of(lowered.status(), FI_LOG_DOMAIN);
  Transfer& transfer = lowered.value();
  Endpoint& endpoint = *transfer.request.endpoint;
  if (const int error = objection(transfer, flags); error != 0)
    return error;
  // cxip_dom.c: cxip_domain_dwq_emit_validate(): all deferred work leaves by one command queue, which is of the
  // domain's class and, until 2.0 mended it, carries no unordered writes.
  if (card_class(endpoint.traffic_class()) != card_class(domain.traffic_class()))
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "deferred work is of its domain's traffic class");
  if (transfer.op.kind == nic::OpKind::kWrite && domain.settings().like != Settings::Like::k2 &&
      is_restricted(endpoint, transfer.op.remote.key.value))
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "no deferred writes without FI_ORDER_RMA_WAW to this region before 2.0");
  // cxip_dom.c: cxip_domain_dwq_emit_amo() takes a command queue with room for one without.
  if (transfer.fetches() && (flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)) != 0)
    return -FI_EAGAIN;
  if (transfer.op.kind == nic::OpKind::kAtomic && domain.settings().amo_needs_counters &&
      (endpoint.write_counter() == nullptr || endpoint.read_counter() == nullptr))
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "deferred atomics need an endpoint with counters for FI_WRITE and FI_READ");
  if (work.completion_cntr != nullptr)
    transfer.op.completion = counter_of(work.completion_cntr)->id();
  // cxip_dom.c: cxip_dom_dwq_op_rma() and its like: the work's own flags alone say whether it is reported.
  transfer.request.visible = (flags & FI_COMPLETION) != 0;

  const std::optional<uint64_t> number = domain.begin(transfer.request);
  if (!number.has_value())
    return -FI_EAGAIN;
  transfer.op.context = *number;
  Entries entries(counter_of(work.triggering_cntr)->id(), work.threshold);
  entries.add(transfer.op);
  if ((flags & kCounterWriteback) != 0)
    entries.add_writeback();
  const int error = post(domain, entries);
  if (error != 0)
    domain.drop(*number);
  return error;
}

int unsupported(const struct fi_deferred_work& work) {
  const bool receives = work.op_type == FI_OP_RECV || work.op_type == FI_OP_TRECV;
  if (receives && work.threshold > 0)
    return -FI_EINVAL;  // nor can CXI
  return refuse(FI_ENOSYS, FI_LOG_DOMAIN, "this kind of deferred work is not simulated");
}

}  // namespace

int queue_work(Domain& domain, const struct fi_deferred_work& work) {
  if (!counts_at(work.triggering_cntr, domain) ||
      (work.completion_cntr != nullptr && !counts_at(work.completion_cntr, domain)))
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "deferred work needs a triggering counter of its domain");
  if (work.op.rma == nullptr)
    return -FI_EINVAL;
  switch (work.op_type) {
    case FI_OP_WRITE: {
      const fi_op_rma& op = *work.op.rma;
      if (op.msg.msg_iov == nullptr)
        return refuse(FI_EINVAL, FI_LOG_DOMAIN, "deferred work names its piece, be it empty");
      if (Endpoint* endpoint = endpoint_of(op.ep, domain))
        return queue_transfer(domain, work, write_of(*endpoint, op.msg, op.flags), op.flags);
      break;
    }
    case FI_OP_ATOMIC: {
      const fi_op_atomic& op = *work.op.atomic;
      if (Endpoint* endpoint = endpoint_of(op.ep, domain))
        return queue_transfer(domain, work, atomic_of(*endpoint, AtomicForm::kPlain, op.msg, {}, op.flags), op.flags);
      break;
    }
    case FI_OP_FETCH_ATOMIC: {
      const fi_op_fetch_atomic& op = *work.op.fetch_atomic;
      const AtomicOperands operands{.result = op.fetch.msg_iov, .result_count = op.fetch.iov_count};
      if (Endpoint* endpoint = endpoint_of(op.ep, domain))
        return queue_transfer(domain, work, atomic_of(*endpoint, AtomicForm::kFetch, op.msg, operands, op.flags),
                              op.flags);
      break;
    }
    case FI_OP_COMPARE_ATOMIC: {
      const fi_op_compare_atomic& op = *work.op.compare_atomic;
      const AtomicOperands operands{.result = op.fetch.msg_iov,
                                    .result_count = op.fetch.iov_count,
                                    .compare = op.compare.msg_iov,
                                    .compare_count = op.compare.iov_count};
      if (Endpoint* endpoint = endpoint_of(op.ep, domain))
        return queue_transfer(domain, work, atomic_of(*endpoint, AtomicForm::kCompare, op.msg, operands, op.flags),
                              op.flags);
      break;
    }
    case FI_OP_CNTR_ADD: return queue_counter_op(domain, work, nic::OpKind::kCounterAdd);
    case FI_OP_CNTR_SET: return queue_counter_op(domain, work, nic::OpKind::kCounterSet);
    default: return unsupported(work);
  }
  return refuse(FI_EINVAL, FI_LOG_DOMAIN, "deferred work names an endpoint of its domain");
}

int flush_work(Domain& domain) {
  for (const nic::Op& op : domain.trigger_queue().clear())
    domain.drop(op.context);
  if (const Status status = domain.nic().flush(); !status.ok())
    return error_of(status, FI_LOG_DOMAIN);
  const steady_clock::time_point end = steady_clock::now() + kSettleTime;
  domain.progress();
  while (domain.under_way() > 0 && steady_clock::now() < end) {
    if (domain.nic().progress() == 0)
      sched_yield();
  }
  std::this_thread::sleep_for(domain.settings().flush_pause);
  domain.read_all_events();
  return 0;
}

}  // namespace lanyard::nicsim::fi
