#include "nicsim/deterministic/step_fabric.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

// Beyond those of all deferred work: what is issued needs one too.
constexpr uint32_t kSpareSlots = 2;

}  // namespace

uint64_t StepFabric::unread_failures() const {
  return static_cast<uint64_t>(
      std::count_if(events_.begin(), events_.end(), [](const Event& event) { return event.err != 0; }) +
      std::count_if(unsaid_.begin(), unsaid_.end(), [](const Doomed& failed) { return !is_said(failed); }));
}

uint64_t StepFabric::unread_failures(uint64_t context) const {
  return static_cast<uint64_t>(
      std::count_if(events_.begin(), events_.end(),
                    [context](const Event& event) { return event.owner == context && event.err != 0; }) +
      std::count_if(unsaid_.begin(), unsaid_.end(),
                    [context](const Doomed& failed) { return failed.op.context == context && !is_said(failed); }));
}

// The driver's note of it is free then, or another operation's.
bool StepFabric::is_said(const Doomed& failed) {
  const ofi::Work& work = *ofi::Work::use_of(reinterpret_cast<void*>(failed.op.start)).work;
  return work.state == ofi::Work::State::kFree || work.trigger != failed.trigger ||
         work.threshold != failed.threshold || work.op.context != failed.op.context;
}

std::optional<nic::Op> StepFabric::overdue() const {
  for (const Doomed& doomed : doomed_)
    if (const auto value = nic_.model().read(doomed.trigger); value.ok() && value.value().reached() >= doomed.threshold)
      return doomed.op;
  return std::nullopt;
}

nic::CounterValue StepFabric::caused(nic::CounterId counter) const {
  const nic::CounterValue& value = caused_[counter.value];
  return {.success = value.success & nic::kMaxSuccess, .failure = std::min(value.failure, nic::kMaxFailure)};
}

void StepFabric::caused_success(uint32_t counter, uint64_t times) { caused_[counter].success += times; }

// An operation has ended that is to be counted there.
void StepFabric::cause(nic::CounterId completion, Code code) {
  if (!completion.valid())
    return;
  caused_[completion.value].success += code == Code::kOk ? 1 : 0;
  caused_[completion.value].failure += code == Code::kOk ? 0 : 1;
}

// The driver is to say that what was refused has failed: now, or at another look, if that one shows it an old value.
void StepFabric::fails(const Doomed& doomed) {
  std::erase_if(unsaid_, is_said);
  unsaid_.push_back(doomed);
  cause(doomed.completion, Code::kFailed);
  world_.failed_refused(rank_, doomed.op);
  changed_ = true;
}

// The driver has read what the counter has reached: what waits for that fails.
void StepFabric::tell_due(nic::CounterId counter, uint64_t reached) {
  for (size_t i = 0; i < doomed_.size();) {
    if (doomed_[i].trigger != counter || reached < doomed_[i].threshold) {
      ++i;
      continue;
    }
    const Doomed doomed = doomed_[i];
    doomed_.erase(doomed_.begin() + static_cast<ptrdiff_t>(i));
    fails(doomed);
  }
}

// Whether it has no memory for the operation, or no way to its peer: a failure like others.
bool StepFabric::refuses(const nic::Op& op) const {
  return (world_.options().failures || world_.is_killed(op.remote.peer)) && world_.chance(ChoiceKind::kFailure);
}

// Refuses it for good: it fails when it is due.
int StepFabric::doom(const Doomed& doomed) {
  if (doomed.trigger.valid())
    doomed_.push_back(doomed);
  else
    fails(doomed);
  changed_ = true;
  return refuse(world_.is_killed(doomed.op.remote.peer) ? FI_EHOSTUNREACH : FI_ENOMEM);
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
  const auto& reading = static_cast<const Counter&>(counter);
  if (!reading.id.valid())
    return 0;
  const Result<nic::CounterValue> value = nic_.read(reading.id);
  if (!value.ok())
    return 0;
  // Whoever wants to know what has been reached reads successes first.
  if (!failures) {
    read_ = {reading.id, value.value().success};
    return value.value().success;
  }
  if (read_.id == reading.id)
    tell_due(reading.id, read_.success + value.value().failure);
  read_.id = {};
  return value.value().failure;
}

// On a card what a ring adds is what a doorbell brings, and has a way to go.
int StepFabric::add(fid_cntr& counter, uint64_t value) {
  const nic::CounterId id = static_cast<const Counter&>(counter).id;
  if (value == world_.process(rank_).ring_values[id.value] && world_.is_running()) {
    nic_.put_under_way(id.value, value);
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

// To 0, which on a card is a register's write as additions are; what is on its way there comes after it.
int StepFabric::set(const fid_cntr& counter, uint64_t value) {
  if (value != 0)
    return mistake("sets a counter to something else than 0, for which a command queue may have no room");
  const nic::CounterId id = static_cast<const Counter&>(counter).id;
  if (const Status status = nic_.reset(id); !status.ok())
    return mistake("sets a counter: " + status.message());
  world_.process(rank_).shadow.reset(id.value);
  caused_[id.value] = {};
  changed_ = true;
  return 0;
}

// Of both, the failures go first; the model knows one reset of both.
int StepFabric::set_error(const fid_cntr&, uint64_t value) {
  return value != 0 ? mistake("sets failures to something else than 0") : 0;
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
  return enabling.bound ? open_in_model(enabling) : mistake("enables a region that is not bound");
}

int StepFabric::open_in_model(Region& region) {
  const Result<nic::RegionId> id = nic_.open_region(region.base, region.bytes, region.counts, {.key = region.key});
  if (!id.ok())
    return id.status().code() == Code::kExhausted ? -FI_ENOSPC : mistake("enables a region: " + id.status().message());
  region.id = id.value();
  regions_.push_back(&region);
  changed_ = true;
  return 0;
}

int StepFabric::close_region(fid_mr& region) {
  const auto& closing = static_cast<Region&>(region);
  if (closing.id.valid()) {
    world_.finish_landing(rank_, closing.key);
    if (const Status status = nic_.deregister_region(closing.id); !status.ok())
      (void)mistake("closes a region: " + status.message());
    std::erase(regions_, &closing);
    changed_ = true;
  }
  delete &closing;
  return 0;
}

nic::Usage StepFabric::usage() const {
  return {.counters = nic_.usage().counters, .regions = static_cast<uint32_t>(regions_.size())};
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
  if (events_.empty() || (world_.options().late_events && world_.chance(ChoiceKind::kLateEvent)))
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

void StepFabric::ended(const nic::Op& op, Code code) {
  const auto it =
      std::find_if(given_.begin(), given_.end(), [&op](const Given& each) { return each.op.start == op.start; });
  LANYARD_CHECK(it != given_.end(), "the model has what it was given");
  cause(it->completion, code);
  given_.erase(it);
  changed_ = true;
  const int failure = world_.is_killed(op.remote.peer) ? FI_EHOSTUNREACH : FI_EIO;
  events_.push_back(
      {.context = reinterpret_cast<void*>(op.start), .owner = op.context, .err = code == Code::kOk ? 0 : failure});
}

void StepFabric::canceled(const nic::Op&) { (void)mistake("takes work back, which nobody asked it for"); }

// ---- Making it

StepFabric::StepFabric(World& world, StepNic& nic, uint32_t rank)
    : world_(world),
      nic_(nic),
      rank_(rank),
      caused_(nic.caps().max_counters),
      slots_(nic.caps().deferred_depth + kSpareSlots) {
  nic_.model().set_witness(this);
  fill_tables();
}

}  // namespace lanyard::nicsim
