#include "nicsim/deterministic/step_fabric.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

namespace {

// Beyond those of all deferred work: what is issued needs one too.
constexpr uint32_t kSpareSlots = 2;

}  // namespace

uint64_t StepFabric::unread_failures(uint64_t context) const {
  return static_cast<uint64_t>(std::count_if(events_.begin(), events_.end(), [context](const Event& event) {
    return event.owner == context && event.err != 0;
  }));
}

int StepFabric::refuse(int error) {
  refused_ = true;
  return -error;
}

int StepFabric::mistake(const std::string& what) {
  world_.find(Finding::kOrder, "driver", "rank " + std::to_string(rank_) + ": the driver " + what);
  return -FI_EINVAL;
}

// ---- Counters

int StepFabric::close_counter(fid_cntr& counter) {
  const auto& closing = static_cast<Counter&>(counter);
  if (closing.id.valid()) {
    nic_.drop_rings(closing.id);  // additions on their way get there first
    if (const Status status = nic_.close_counter(closing.id); !status.ok())
      (void)mistake("closes a counter: " + status.message());
    changed_ = true;
  }
  delete &closing;
  return 0;
}

uint64_t StepFabric::read(const fid_cntr& counter, bool failures) {
  const Result<nic::CounterValue> value = nic_.read(static_cast<const Counter&>(counter).id);
  if (!value.ok())
    return 0;
  return failures ? value.value().failure : value.value().success;
}

// A single one is what a doorbell brings, and has a way to go.
int StepFabric::add(const fid_cntr& counter, uint64_t value) {
  const nic::CounterId id = static_cast<const Counter&>(counter).id;
  if (value == 1 && world_.is_running()) {
    nic_.put_under_way(id.value);
    return 0;
  }
  nic_.model().ring(id, value);
  world_.process(rank_).shadow.succeeded(id.value, value);
  changed_ = true;
  return 0;
}

int StepFabric::add_error(const fid_cntr& counter, uint64_t value) {
  const nic::CounterId id = static_cast<const Counter&>(counter).id;
  const auto failures = static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX));
  if (const Status status = nic_.add_error(id, failures); !status.ok())
    return mistake("adds failures: " + status.message());
  world_.process(rank_).shadow.failed(id.value, failures);
  changed_ = true;
  return 0;
}

// ---- Regions

int StepFabric::bind_region(fid_mr& region, fid& to) {
  auto& binding = static_cast<Region&>(region);
  if (to.fclass == FI_CLASS_EP)
    binding.bound = enabled_;
  else if (to.fclass == FI_CLASS_CNTR && binding.bound)
    binding.counts = static_cast<Counter&>(reinterpret_cast<fid_cntr&>(to)).id;
  else
    return mistake("binds a region to a counter before the endpoint");
  return binding.bound ? 0 : mistake("binds a region to an endpoint that is not enabled");
}

int StepFabric::enable_region(fid_mr& region) {
  auto& enabling = static_cast<Region&>(region);
  if (!enabling.bound)
    return mistake("enables a region that is not bound");
  const Result<nic::RegionId> id =
      nic_.open_region(enabling.base, enabling.bytes, enabling.counts, {.key = enabling.key});
  if (!id.ok())
    return id.status().code() == Code::kExhausted ? -FI_ENOSPC : mistake("enables a region: " + id.status().message());
  enabling.id = id.value();
  regions_.resize(std::max<size_t>(regions_.size(), enabling.id.value + 1));
  regions_[enabling.id.value] = &enabling;
  changed_ = true;
  return 0;
}

int StepFabric::close_region(fid_mr& region) {
  const auto& closing = static_cast<Region&>(region);
  if (closing.id.valid()) {
    world_.finish_landing(rank_, closing.key);
    if (const Status status = nic_.deregister_region(closing.id); !status.ok())
      (void)mistake("closes a region: " + status.message());
    regions_[closing.id.value] = nullptr;
    changed_ = true;
  }
  delete &closing;
  return 0;
}

// ---- The endpoint

int StepFabric::name_endpoint(void* buffer, size_t* bytes) const {
  std::memcpy(buffer, &rank_, std::min(*bytes, sizeof rank_));
  *bytes = sizeof rank_;
  return 0;
}

int StepFabric::insert(std::span<const uint32_t> names, fi_addr_t* addresses) {
  for (const uint32_t name : names) {
    *addresses++ = peers_.size();
    peers_.push_back(name);
  }
  return static_cast<int>(names.size());
}

// ---- The queue

ssize_t StepFabric::read_queue(fi_cq_entry* entries, size_t count) {
  world_.act_meanwhile(rank_);
  if (events_.empty())
    return -FI_EAGAIN;
  if (events_.front().err != 0)
    return -FI_EAVAIL;
  uint32_t read = 0;
  for (; read < count && read < events_.size() && events_[read].err == 0; ++read)
    entries[read].op_context = events_[read].context;
  events_.erase(events_.begin(), events_.begin() + read);
  slots_held_ -= read;
  changed_ = true;
  return read;
}

ssize_t StepFabric::read_error(fi_cq_err_entry& entry) {
  if (events_.empty() || events_.front().err == 0)
    return -FI_EAGAIN;
  entry.op_context = events_.front().context;
  entry.err = events_.front().err;
  events_.erase(events_.begin());
  --slots_held_;
  changed_ = true;
  return 1;
}

void StepFabric::ended(const nic::Op& op, Code code, nic::CounterValue) {
  const bool gone = code != Code::kOk && world_.killed() == op.remote.peer;
  events_.push_back({.context = reinterpret_cast<void*>(op.value),
                     .owner = op.context,
                     .err = code == Code::kOk ? 0
                            : gone            ? FI_EHOSTUNREACH
                                              : FI_EIO});
  changed_ = true;
}

void StepFabric::canceled(const nic::Op&) { (void)mistake("takes work back, which nobody asked it for"); }

// ---- Making it

StepFabric::StepFabric(World& world, StepNic& nic, uint32_t rank)
    : world_(world), nic_(nic), rank_(rank), slots_(nic.caps().deferred_depth + kSpareSlots) {
  nic_.model().set_witness(this);
  fill_tables();
}

}  // namespace lanyard::nicsim
