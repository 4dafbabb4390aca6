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

// Up to three entries that fire one after the other, posted as one.
class Entries {
 public:
  Entries(nic::CounterId trigger, uint64_t threshold) : trigger_(trigger), threshold_(threshold) {}

  void add(const nic::Op& op) { entries_[count_++] = {op, trigger_, threshold_}; }
  // An entry that is there and does nothing.
  void add_idle() { add(idle(RequestTable::kNobody)); }
  // An entry that writes the triggering counter back, one step later.
  void add_writeback() { entries_[count_++] = {idle(RequestTable::kWriteback), trigger_, threshold_ + 1}; }
  std::span<const nic::DeferredOp> all() const { return {entries_.data(), count_}; }

 private:
  nic::Op idle(uint64_t context) const { return counter_op(nic::OpKind::kCounterAdd, trigger_, 0, context); }

  const nic::CounterId trigger_;
  const uint64_t threshold_;
  std::array<nic::DeferredOp, 3> entries_;
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
  if (change == nullptr || change->cntr == nullptr || work.completion_cntr != nullptr)
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "counter work names a counter and completes nowhere");
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
  if (&endpoint.domain() != &domain || (endpoint.caps() & FI_TRIGGER) == 0)
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "the endpoint is another domain's, or has no FI_TRIGGER");
  if (transfer.op.kind == nic::OpKind::kAtomic && domain.settings().amo_needs_counters &&
      (endpoint.write_counter() == nullptr || endpoint.read_counter() == nullptr))
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "deferred atomics need an endpoint with counters for FI_WRITE and FI_READ");
  if (work.completion_cntr != nullptr)
    transfer.op.completion = counter_of(work.completion_cntr)->id();

  const std::optional<uint64_t> number = domain.begin(transfer.request);
  if (!number.has_value())
    return -FI_EAGAIN;
  transfer.op.context = *number;
  Entries entries(counter_of(work.triggering_cntr)->id(), work.threshold);
  entries.add(transfer.op);
  // What costs two entries on the card costs two here.
  if (transfer.fetches() && transfer.op.level == nic::CompletionLevel::kDelivery)
    entries.add_idle();
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
  if (work.triggering_cntr == nullptr || &counter_of(work.triggering_cntr)->domain() != &domain ||
      (work.completion_cntr != nullptr && &counter_of(work.completion_cntr)->domain() != &domain))
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "deferred work needs a triggering counter of its domain");
  if (work.op.rma == nullptr)
    return -FI_EINVAL;
  const auto endpoint = [](struct fid_ep* ep) -> Endpoint& { return *static_cast<Endpoint*>(ep); };
  switch (work.op_type) {
    case FI_OP_WRITE: {
      const fi_op_rma& op = *work.op.rma;
      return queue_transfer(domain, work, write_of(endpoint(op.ep), op.msg, op.flags), op.flags);
    }
    case FI_OP_ATOMIC: {
      const fi_op_atomic& op = *work.op.atomic;
      return queue_transfer(domain, work, atomic_of(endpoint(op.ep), AtomicForm::kPlain, op.msg, {}, op.flags),
                            op.flags);
    }
    case FI_OP_FETCH_ATOMIC: {
      const fi_op_fetch_atomic& op = *work.op.fetch_atomic;
      const AtomicOperands operands{.result = op.fetch.msg_iov, .result_count = op.fetch.iov_count};
      return queue_transfer(domain, work, atomic_of(endpoint(op.ep), AtomicForm::kFetch, op.msg, operands, op.flags),
                            op.flags);
    }
    case FI_OP_COMPARE_ATOMIC: {
      const fi_op_compare_atomic& op = *work.op.compare_atomic;
      const AtomicOperands operands{.result = op.fetch.msg_iov,
                                    .result_count = op.fetch.iov_count,
                                    .compare = op.compare.msg_iov,
                                    .compare_count = op.compare.iov_count};
      return queue_transfer(domain, work, atomic_of(endpoint(op.ep), AtomicForm::kCompare, op.msg, operands, op.flags),
                            op.flags);
    }
    case FI_OP_CNTR_ADD: return queue_counter_op(domain, work, nic::OpKind::kCounterAdd);
    case FI_OP_CNTR_SET: return queue_counter_op(domain, work, nic::OpKind::kCounterSet);
    default: return unsupported(work);
  }
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
