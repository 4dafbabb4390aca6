#include "nicsim/fi/counter.h"

#include <sched.h>

#include <string>
#include <string_view>
#include <utility>

#include "transport/cxi/cxi_extension.h"

namespace lanyard::nicsim::fi {

namespace {

Status too_many(const char* bits) { return {Code::kInvalidArgument, std::string("a counter holds ") + bits}; }

}  // namespace

Counter::~Counter() {
  if (page_ != nullptr)
    unmap_registers(page_);
  domain_->progress();
  domain_->retire(id_);
}

// Reads the word from the NIC. The lock keeps an older value from replacing a newer one.
nic::CounterValue Counter::refresh() {
  const std::lock_guard lock(mutex_);
  if (const Result<nic::CounterValue> value = domain_->nic().read(id_); value.ok())
    word_ = value.value();
  return word_;
}

nic::CounterValue Counter::cached() {
  const std::lock_guard lock(mutex_);
  return word_;
}

nic::CounterValue Counter::read() {
  domain_->progress();
  if (domain_->settings().fresh_reads) {
    while (domain_->trigger_queue().stalled()) {
      if (domain_->nic().progress() == 0)
        sched_yield();
    }
    return refresh();
  }
  const nic::CounterValue before = cached();
  if (!domain_->trigger_queue().stalled())
    refresh();
  return before;
}

Status Counter::add(uint64_t value) {
  if (value > nic::kMaxSuccess)
    return too_many("48 bits of success");
  bell_.call(bell_.object, bell_.counter, value);
  return {};
}

Status Counter::add_error(uint64_t value) {
  if (value > nic::kMaxFailure)
    return too_many("7 bits of failure");
  return domain_->nic().add_error(id_, static_cast<uint32_t>(value));
}

Status Counter::set(uint64_t value) { return written_back(domain_->nic().set(id_, value)); }

Status Counter::set_error(uint64_t value) {
  if (value > nic::kMaxFailure)
    return too_many("7 bits of failure");
  return written_back(domain_->nic().set_error(id_, static_cast<uint32_t>(value)));
}

Status Counter::written_back(Status set) {
  if (set.ok()) {
    domain_->nic().progress();
    refresh();
  }
  return set;
}

int Counter::registers(void** address, size_t* bytes) {
  if (!domain_->settings().traps_stores)
    return -FI_ENOSYS;
  const std::lock_guard lock(mutex_);
  if (page_ == nullptr) {
    const Result<void*> page = map_registers(*this);
    if (!page.ok())
      return error_of(page.status(), FI_LOG_CNTR);
    page_ = page.value();
  }
  *address = page_;
  *bytes = sizeof(uint64_t);
  return 0;
}

namespace {

// fi_cntr_add() and the similar functions.
template <Status (Counter::*change)(uint64_t)>
int changed(struct fid_cntr* counter, uint64_t value) {
  return error_of((object_of<Counter>(counter)->*change)(value), FI_LOG_CNTR);
}

ofi::CxiCounterOps cxi_counter_ops = table_of<ofi::CxiCounterOps>([](auto& ops) {
  ops.get_mmio_addr = [](struct fid* fid, void** address, size_t* bytes) {
    return object_of<Counter>(fid)->registers(address, bytes);
  };
});

int open_counter_ops(struct fid*, const char* name, uint64_t, void** ops, void*) {
  if (std::string_view(name) != ofi::kCxiCounterOps)
    return -FI_EINVAL;
  *ops = &cxi_counter_ops;
  return 0;
}

fi_ops counter_fid_ops = fid_ops<Counter>(not_simulated, not_simulated, open_counter_ops);

fi_ops_cntr counter_ops = table_of<fi_ops_cntr>([](auto& ops) {
  ops.read = [](struct fid_cntr* counter) -> uint64_t { return object_of<Counter>(counter)->read().success; };
  ops.readerr = [](struct fid_cntr* counter) -> uint64_t { return object_of<Counter>(counter)->read().failure; };
  ops.add = changed<&Counter::add>;
  ops.set = changed<&Counter::set>;
  ops.adderr = changed<&Counter::add_error>;
  ops.seterr = changed<&Counter::set_error>;
});

}  // namespace

int open_counter(struct fid_domain* fid, struct fi_cntr_attr* attributes, struct fid_cntr** out, void* context) {
  if (attributes != nullptr) {
    if (attributes->events != FI_CNTR_EVENTS_COMP ||
        (attributes->wait_obj != FI_WAIT_NONE && attributes->wait_obj != FI_WAIT_UNSPEC))
      return -FI_ENOSYS;
    if (attributes->flags != 0)
      return -FI_EINVAL;
  }
  auto* domain = object_of<Domain>(fid);
  domain->close_retired();
  const Result<nic::CounterId> id = domain->nic().open_counter();
  if (!id.ok())
    return error_of(id.status(), FI_LOG_CNTR);
  const Result<nic::Doorbell> bell = domain->nic().doorbell(id.value(), nic::DoorbellKind::kHostCall);
  auto* counter = new Counter(*domain, id.value(), bell.value());
  counter->ops = &counter_ops;
  return hand_out(counter, FI_CLASS_CNTR, context, counter_fid_ops, out);
}

}  // namespace lanyard::nicsim::fi
