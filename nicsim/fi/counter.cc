#include "nicsim/fi/counter.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "nicsim/fi/cxi_ext.h"
#include "nicsim/fi/endpoint.h"
#include "nicsim/fi/provider.h"
#include "nicsim/fi/queue.h"
#include "nicsim/fi/request.h"

namespace lanyard::nicsim::fi {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr int kFailureShift = kWritebackFailureShift;
constexpr milliseconds kLongestNap{1};

uint64_t word_of(nic::CounterValue value) {
  return value.success | uint64_t{value.failure} << kFailureShift | kWritebackValid;
}

nic::CounterValue value_of(uint64_t word) {
  return {.success = word & nic::kMaxSuccess,
          .failure = static_cast<uint32_t>(word >> kFailureShift) & nic::kMaxFailure};
}

Status too_many(const char* bits) { return {Code::kInvalidArgument, std::string("a counter holds ") + bits}; }

}  // namespace

void Counter::write_back(nic::CounterValue value) {
  const uint64_t word = word_of(value);
  word_.store(word, std::memory_order_release);
  if (buffer_ != nullptr)
    std::atomic_ref<uint64_t>(*buffer_).store(word, std::memory_order_release);
  written_.fetch_add(1, std::memory_order_acq_rel);
}

// Asks the NIC for the word.
void Counter::refresh() {
  while (true) {
    const uint64_t written = written_.load(std::memory_order_acquire);
    const Result<nic::CounterValue> value = domain_.nic().read(id_);
    if (!value.ok())
      return;
    const std::lock_guard lock(domain_.events_mutex());
    // What the NIC has written by itself meanwhile may be newer than what was read.
    if (written_.load(std::memory_order_acquire) != written)
      continue;
    return write_back(value.value());
  }
}

void Counter::bind(Endpoint& endpoint) {
  bound.fetch_add(1);
  const std::lock_guard lock(domain_.events_mutex());
  endpoints_.push_back(&endpoint);
}

void Counter::unbind(const Endpoint& endpoint) {
  {
    const std::lock_guard lock(domain_.events_mutex());
    endpoints_.erase(std::find(endpoints_.begin(), endpoints_.end(), &endpoint));
  }
  bound.fetch_sub(1);
}

// cxip_cntr.c: cxip_cntr_progress()
void Counter::progress() {
  domain_.progress();
  const std::lock_guard lock(domain_.events_mutex());
  for (Endpoint* endpoint : endpoints_) {
    if (endpoint->enabled())
      endpoint->queue()->read_events_of(*endpoint);
  }
}

nic::CounterValue Counter::read() {
  progress();
  if (!options_.cached) {
    while (domain_.trigger_queue().stalled()) {
      if (domain_.nic().progress() == 0)
        sched_yield();
    }
    refresh();
    return value_of(word_.load(std::memory_order_acquire));
  }
  const uint64_t cached = word_.load(std::memory_order_acquire);
  if (!domain_.trigger_queue().stalled())
    refresh();
  return value_of(cached);
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
  const Result<nic::CounterValue> before = domain_.nic().read(id_);
  LANYARD_RETURN_IF_ERROR(domain_.nic().add_error(id_, static_cast<uint32_t>(value)));
  if (before.ok() && before.value().failure == 0 && value > 0)
    refresh();
  return {};
}

Status Counter::set(uint64_t value) {
  LANYARD_RETURN_IF_ERROR(domain_.nic().set(id_, value));
  domain_.nic().progress();
  refresh();
  return {};
}

Status Counter::set_error(uint64_t value) {
  if (value > nic::kMaxFailure)
    return too_many("7 bits of failure");
  LANYARD_RETURN_IF_ERROR(domain_.nic().set_error(id_, static_cast<uint32_t>(value)));
  domain_.nic().progress();
  refresh();
  return {};
}

// cxip_cntr.c: cxip_cntr_wait(), cxip_cntr_emit_trig_event_cmd(), which knows of no limit of entries.
int Counter::wait(uint64_t threshold, int timeout) {
  if (!options_.waiting || threshold > nic::kMaxSuccess)
    return refuse(FI_EINVAL, FI_LOG_CNTR, "the counter has no FI_WAIT_NONE, and no more than 48 bits");
  ThreadedNic& nic = domain_.nic();
  const uint32_t failures = value_of(word_.load(std::memory_order_acquire)).failure;
  const nic::DeferredOp entry{counter_op(nic::OpKind::kCounterAdd, id_, 0, RequestTable::kWriteback), id_, threshold};
  if (const Status status = domain_.trigger_queue().post_or_wait({&entry, 1}); !status.ok())
    return error_of(status, FI_LOG_CNTR);
  const steady_clock::time_point end = steady_clock::now() + milliseconds(std::max(timeout, 0));
  while (true) {
    const uint64_t seen = nic.activity();
    progress();
    const nic::CounterValue now = value_of(word_.load(std::memory_order_acquire));
    if (now.success >= threshold)
      return 0;
    if (now.failure != failures)
      return -FI_EAVAIL;
    if (timeout >= 0 && steady_clock::now() >= end)
      return -FI_ETIMEDOUT;
    nic.wait_since(seen, kLongestNap);
  }
}

int Counter::set_writeback_buffer(void* buffer, size_t bytes) {
  if (buffer == nullptr || bytes < sizeof(uint64_t) || reinterpret_cast<uintptr_t>(buffer) % sizeof(uint64_t) != 0)
    return -FI_EINVAL;
  {
    const std::lock_guard lock(domain_.events_mutex());
    buffer_ = static_cast<uint64_t*>(buffer);
  }
  // cxip_cntr.c: cxip_set_wb_buffer() asks for a first word.
  if (!domain_.trigger_queue().stalled())
    refresh();
  return 0;
}

int Counter::registers(void** address, size_t* bytes) {
  if (domain_.settings().mmio == Settings::Mmio::kRefused)
    return -FI_ENOSYS;
  if (address == nullptr || bytes == nullptr)
    return -FI_EINVAL;
  const std::lock_guard lock(domain_.events_mutex());
  if (page_ == nullptr) {
    Result<std::unique_ptr<MmioPage>> page = MmioPage::map(*this);
    if (!page.ok())
      return error_of(page.status(), FI_LOG_CNTR);
    page_ = std::move(page.value());
  }
  *address = page_->address();
  *bytes = sizeof(uint64_t);
  return 0;
}

namespace {

Counter* counter_of(struct fid_cntr* counter) { return static_cast<Counter*>(counter); }
Counter* counter_of(struct fid* fid) { return object_of<Counter, fid_cntr>(fid); }

int close_counter(struct fid* fid) {
  Counter* counter = counter_of(fid);
  Domain& domain = counter->domain();
  if (counter->bound.load() > 0)
    return -FI_EBUSY;
  domain.progress();
  domain.remove_counter(*counter);
  domain.retire(counter->id());
  domain.close_child();
  delete counter;
  return 0;
}

uint64_t read(struct fid_cntr* counter) { return counter_of(counter)->read().success; }
uint64_t read_error(struct fid_cntr* counter) { return counter_of(counter)->read().failure; }
int add(struct fid_cntr* counter, uint64_t value) { return error_of(counter_of(counter)->add(value), FI_LOG_CNTR); }
int set(struct fid_cntr* counter, uint64_t value) { return error_of(counter_of(counter)->set(value), FI_LOG_CNTR); }
int add_error(struct fid_cntr* counter, uint64_t value) {
  return error_of(counter_of(counter)->add_error(value), FI_LOG_CNTR);
}
int set_error(struct fid_cntr* counter, uint64_t value) {
  return error_of(counter_of(counter)->set_error(value), FI_LOG_CNTR);
}
int wait(struct fid_cntr* counter, uint64_t threshold, int timeout) {
  return counter_of(counter)->wait(threshold, timeout);
}

CxiCounterOps cxi_counter_ops = {
    .set_wb_buffer = [](struct fid* fid, void* buffer,
                        size_t bytes) { return counter_of(fid)->set_writeback_buffer(buffer, bytes); },
    .get_mmio_addr = [](struct fid* fid, void** address,
                        size_t* bytes) { return counter_of(fid)->registers(address, bytes); },
};

int open_counter_ops(struct fid*, const char* name, uint64_t, void** ops, void*) {
  if (name == nullptr || ops == nullptr || std::string_view(name) != kCounterOpsName)
    return -FI_EINVAL;
  *ops = &cxi_counter_ops;
  return 0;
}

fi_ops counter_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_counter,
    .bind = not_simulated,
    .control = not_simulated,
    .ops_open = open_counter_ops,
    .tostr = nullptr,
    .ops_set = nullptr,
};

fi_ops_cntr counter_ops = {
    .size = sizeof(fi_ops_cntr),
    .read = read,
    .readerr = read_error,
    .add = add,
    .set = set,
    .wait = wait,
    .adderr = add_error,
    .seterr = set_error,
};

}  // namespace

int open_counter(struct fid_domain* fid, struct fi_cntr_attr* attributes, struct fid_cntr** out, void* context) {
  if (out == nullptr)
    return -FI_EINVAL;
  auto* domain = &static_cast<Domain&>(*fid);
  Counter::Options options{.cached = domain->settings().counter_read == Settings::CounterRead::kCached};
  // cxip_cntr.c: cxip_cntr_verify_attr()
  if (attributes != nullptr) {
    // Of bytes: what the endpoint's direction counts are messages; others count events all the same.
    if (attributes->events != FI_CNTR_EVENTS_COMP && attributes->events != kCountBytes)
      return -FI_ENOSYS;
    if (attributes->wait_obj != FI_WAIT_NONE && attributes->wait_obj != FI_WAIT_UNSPEC &&
        attributes->wait_obj != FI_WAIT_YIELD)
      return -FI_ENOSYS;
    const uint64_t known = domain->settings().like == Settings::Like::k2 ? kCachedCounter : 0;
    if ((attributes->flags & ~known) != 0)
      return -FI_ENOSYS;
    options.waiting = attributes->wait_obj != FI_WAIT_NONE;
    options.cached |= attributes->flags != 0;
  }
  domain->close_retired();
  const Result<nic::CounterId> id = domain->nic().open_counter();
  if (!id.ok())
    return error_of(id.status(), FI_LOG_CNTR);
  const Result<nic::Doorbell> bell = domain->nic().doorbell(id.value(), nic::DoorbellKind::kHostCall);
  auto* counter = bell.ok() ? new (std::nothrow) Counter(*domain, id.value(), bell.value(), options) : nullptr;
  if (counter == nullptr) {
    static_cast<void>(domain->nic().close_counter(id.value()).ok());
    return -FI_ENOMEM;
  }
  counter->fid = {.fclass = FI_CLASS_CNTR, .context = context, .ops = &counter_fid_ops};
  counter->ops = &counter_ops;
  domain->add_counter(*counter);
  domain->open_child();
  *out = counter;
  return 0;
}

}  // namespace lanyard::nicsim::fi
