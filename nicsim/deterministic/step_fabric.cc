#include "nicsim/deterministic/step_fabric.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"
#include "transport/cxi/objects.h"

namespace lanyard::nicsim {

namespace {

// Transmit slots for issued operations, beyond one for each deferred entry.
constexpr uint32_t kSpareSlots = 2;

Status bad(const char* why) { return {Code::kInvalidArgument, why}; }

// The driver's Work of an operation. Op::start, which the model ignores, has libfabric's context.
const ofi::Work& note_of(const nic::Op& op) { return *ofi::Work::use_of(reinterpret_cast<void*>(op.start)).work; }

}  // namespace

uint64_t StepFabric::unread_failures(std::optional<uint64_t> context) const {
  const auto is_of = [&](uint64_t owner) { return !context || owner == *context; };
  return static_cast<uint64_t>(std::count_if(events_.begin(), events_.end(),
                                             [&](const Event& event) { return is_of(event.owner) && event.err != 0; }) +
                               std::count_if(unsaid_.begin(), unsaid_.end(), [&](const Doomed& failed) {
                                 return is_of(failed.op.context) && !is_said(failed);
                               }));
}

// True if the driver has counted the failure: its Work is then free, or another operation's.
bool StepFabric::is_said(const Doomed& failed) {
  const ofi::Work& work = note_of(failed.op);
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

void StepFabric::cause(nic::CounterId counter, Code code, uint64_t times) {
  if (counter.valid() && code == Code::kOk)
    caused_[counter.value].success += times;
  else if (counter.valid())
    caused_[counter.value].failure += static_cast<uint32_t>(times);
}

// A refused operation is due. The driver must count its failure: now, or later if it read an old
// value of the trigger.
void StepFabric::fails(const Doomed& doomed) {
  std::erase_if(unsaid_, is_said);
  unsaid_.push_back(doomed);
  cause(doomed.completion, Code::kFailed, 1);
  world_.failed_at_once(rank_, doomed.op);
  changed_ = true;
}

// The driver has read what the counter has reached. Refused operations that are due then fail.
void StepFabric::tell_due(nic::CounterId counter, uint64_t reached) {
  const auto due = std::stable_partition(doomed_.begin(), doomed_.end(), [&](const Doomed& doomed) {
    return doomed.trigger != counter || reached < doomed.threshold;
  });
  const std::vector<Doomed> failing(due, doomed_.end());
  doomed_.erase(due, doomed_.end());
  for (const Doomed& doomed : failing)
    fails(doomed);
}

// Draws whether libfabric has no memory for the operation, or cannot reach its peer.
bool StepFabric::refuses(const nic::Op& op) const {
  return (world_.options().failures || world_.is_killed(op.remote.peer)) && world_.chance(ChoiceKind::kFailure);
}

// Refuses an operation for good. It fails once it is due.
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
  world_.find(Finding::kOrder, "driver", world_.process(rank_), "the driver " + what);
  return -FI_EINVAL;
}

// ---- Counters

int StepFabric::open_counter(fid_domain*, fi_cntr_attr*, fid_cntr** out, void*) {
  auto counter = std::make_unique<Counter>();
  if (!opening_) {
    const Result<nic::CounterId> id = nic_.open_counter();
    if (!id.ok())
      return -FI_ENOSPC;
    counter->id = id.value();
    caused_[counter->id.value] = {};
    changed_ = true;
  }
  make_counter(*counter);
  *out = counter.release();
  return 0;
}

int StepFabric::close_counter(fid* counter) {
  const auto* closing = reinterpret_cast<Counter*>(counter);
  if (closing->id.valid()) {
    nic_.drop_rings(closing->id);  // as if they had landed before the close
    if (const Status status = nic_.close_counter(closing->id); !status.ok())
      (void)mistake("closes a counter: " + status.message());
    changed_ = true;
  }
  delete closing;
  return 0;
}

uint64_t StepFabric::read(fid_cntr* counter, bool failures) {
  const nic::CounterId id = id_of(counter);
  const Result<nic::CounterValue> value = id.valid() ? nic_.read(id) : nic::CounterValue{};
  if (!value.ok())
    return 0;
  // To learn what a counter has reached, the driver reads successes, then failures.
  if (!failures) {
    read_ = {id, value.value().success};
    return value.value().success;
  }
  if (id.valid() && read_.id == id)
    tell_due(id, read_.success + value.value().failure);
  read_.id = {};
  return value.value().failure;
}

// A ring is in flight for a while, as from a doorbell. Other additions act at once.
int StepFabric::add(fid_cntr* counter, uint64_t value) {
  const nic::CounterId id = id_of(counter);
  if (value == nic_.ring_value(id.value) && world_.is_running()) {
    nic_.put_under_way(id.value, value);
    return 0;
  }
  nic_.model().ring(id, value);
  world_.process(rank_).shadow.succeeded(id.value, value);
  changed_ = true;
  return 0;
}

int StepFabric::add_failures(fid_cntr* counter, uint64_t value) {
  const nic::CounterId id = id_of(counter);
  const auto failures = static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX));
  if (const Status status = nic_.add_error(id, failures); !status.ok())
    return mistake("adds failures: " + status.message());
  changed_ = true;
  return 0;
}

// Only to 0: a card writes to a register then, as for an addition. Rings in flight land later.
int StepFabric::set(fid_cntr* counter, uint64_t value) {
  if (value != 0)
    return mistake("sets a counter to something else than 0, for which a command queue may have no room");
  const nic::CounterId id = id_of(counter);
  if (const Status status = nic_.reset(id); !status.ok())
    return mistake("sets a counter: " + status.message());
  caused_[id.value] = {};
  changed_ = true;
  return 0;
}

// The driver sets failures to 0 first. set() then resets both in the model.
int StepFabric::set_failures(fid_cntr*, uint64_t value) {
  return value != 0 ? mistake("sets failures to something else than 0") : 0;
}

// ---- Regions

int StepFabric::open_region(fid*, const fi_mr_attr* attributes, uint64_t, fid_mr** out) {
  auto region = std::make_unique<Region>();
  make_region(*region);
  region->key = attributes->requested_key;
  region->base = attributes->mr_iov->iov_base;
  region->bytes = attributes->mr_iov->iov_len;
  *out = region.release();
  return 0;
}

int StepFabric::bind_region(fid* region, fid* to, uint64_t) {
  auto& binding = *reinterpret_cast<Region*>(region);
  if (to->fclass == FI_CLASS_EP)
    binding.bound = enabled_;
  else if (to->fclass == FI_CLASS_CNTR && binding.bound)
    binding.counts = id_of(to);
  else
    return mistake("binds a region to a counter before the endpoint");
  return binding.bound ? 0 : mistake("binds a region to an endpoint that is not enabled");
}

int StepFabric::enable_region(fid* object, int, void*) {
  auto& region = *reinterpret_cast<Region*>(object);
  if (!region.bound)
    return mistake("enables a region that is not bound");
  const Result<nic::RegionId> id = nic_.open_region(region.base, region.bytes, region.counts, {.key = region.key});
  if (!id.ok())
    return id.status().code() == Code::kExhausted ? -FI_ENOSPC : mistake("enables a region: " + id.status().message());
  region.id = id.value();
  regions_.push_back(&region);
  changed_ = true;
  return 0;
}

int StepFabric::close_region(fid* region) {
  const auto* closing = reinterpret_cast<Region*>(region);
  if (closing->id.valid()) {
    world_.finish_landing(rank_, closing->key);
    if (const Status status = nic_.deregister_region(closing->id); !status.ok())
      (void)mistake("closes a region: " + status.message());
    std::erase(regions_, closing);
    changed_ = true;
  }
  delete closing;
  return 0;
}

nic::Usage StepFabric::usage() const {
  return {.counters = nic_.usage().counters, .regions = static_cast<uint32_t>(regions_.size())};
}

// ---- The endpoint

int StepFabric::enable_endpoint(fid*, int, void*) {
  enabled_ = true;
  return 0;
}

int StepFabric::name_endpoint(fid*, void* buffer, size_t* bytes) {
  std::memcpy(buffer, &rank_, std::min(*bytes, sizeof rank_));
  *bytes = sizeof rank_;
  return 0;
}

int StepFabric::insert(fid_av*, const void* names, size_t count, fi_addr_t* addresses, uint64_t, void*) {
  for (const uint32_t name : std::span(static_cast<const uint32_t*>(names), count)) {
    *addresses++ = peers_.size();
    peers_.push_back(name);
  }
  return static_cast<int>(count);
}

// ---- The queue

ssize_t StepFabric::read_queue(fid_cq*, void* entries, size_t count) {
  world_.act_meanwhile(rank_);
  if (events_.empty() || (world_.options().late_events && world_.chance(ChoiceKind::kLateEvent)))
    return -FI_EAGAIN;
  if (events_.front().err != 0)
    return -FI_EAVAIL;
  uint32_t read = 0;
  for (; read < count && read < events_.size() && events_[read].err == 0; ++read)
    static_cast<fi_cq_entry*>(entries)[read].op_context = events_[read].context;
  events_.erase(events_.begin(), events_.begin() + read);
  slots_held_ -= read;
  changed_ = true;
  return read;
}

ssize_t StepFabric::read_error(fid_cq*, fi_cq_err_entry* entry, uint64_t) {
  if (events_.empty() || events_.front().err == 0)
    return -FI_EAGAIN;
  entry->op_context = events_.front().context;
  entry->err = events_.front().err;
  events_.erase(events_.begin());
  --slots_held_;
  changed_ = true;
  return 1;
}

void StepFabric::ended(const nic::Op& op, Code code) {
  // The driver's Work may be free by now, or another operation's.
  const auto it = std::find_if(given_.begin(), given_.end(), [&](const Given& each) { return each.note == op.start; });
  LANYARD_CHECK(it != given_.end(), "the model has what it was given");
  cause(it->completion, code, 1);
  given_.erase(it);
  changed_ = true;
  const int failure = world_.is_killed(op.remote.peer) ? FI_EHOSTUNREACH : FI_EIO;
  events_.push_back(
      {.context = reinterpret_cast<void*>(op.start), .owner = op.context, .err = code == Code::kOk ? 0 : failure});
}

void StepFabric::canceled(const nic::Op&) { (void)mistake("takes work back, which nobody asked it for"); }

// ---- Operations: from libfabric's descriptors to the model's

// The driver's Work has what the descriptor lacks: the context, and the region that it reads (other
// regions may have the same address).
template <typename Message>
Result<nic::Op> StepFabric::lower(nic::Op op, const Message& message, const void* local, uint64_t flags) const {
  const ofi::Work& work = *ofi::Work::use_of(message.context).work;
  const Result<nic::RemoteKey> key = world_.process(rank_).card().key(work.op.local.region);
  const auto region = std::find_if(regions_.begin(), regions_.end(),
                                   [&key](const Region* each) { return key.ok() && each->key == key.value().value; });
  if (region == regions_.end())
    return bad("it names memory that is not registered");
  if (message.addr >= peers_.size())
    return bad("no such address");
  op.level = (flags & FI_DELIVERY_COMPLETE) != 0 ? nic::CompletionLevel::kDelivery : nic::CompletionLevel::kTransmit;
  op.local = {(*region)->id, reinterpret_cast<uintptr_t>(local) - reinterpret_cast<uintptr_t>((*region)->base)};
  op.remote = {peers_[message.addr], {message.rma_iov->key}, message.rma_iov->addr};
  op.context = work.op.context;
  op.start = reinterpret_cast<uintptr_t>(message.context);
  return op;
}

Result<nic::Op> StepFabric::lower(const fi_msg_rma& message, uint64_t flags) const {
  if (message.iov_count != 1 || message.rma_iov_count != 1 || message.msg_iov->iov_len != message.rma_iov->len)
    return bad("a write has one local and one remote piece of its length");
  nic::Op op;
  op.bytes = message.msg_iov->iov_len;
  return lower(op, message, message.msg_iov->iov_base, flags);
}

Result<nic::Op> StepFabric::lower(const fi_msg_atomic& message, uint64_t flags) const {
  if (message.iov_count != 1 || message.rma_iov_count != 1 || message.msg_iov->count != 1 ||
      message.rma_iov->count != 1 || message.datatype != FI_UINT64 || message.op != FI_SUM)
    return bad("atomics are sums of one 64-bit integer");
  nic::Op op;
  op.kind = nic::OpKind::kAtomic;
  return lower(op, message, message.msg_iov->addr, flags);
}

int StepFabric::queue_work(fid*, int command, void* argument) {
  if (command != FI_QUEUE_WORK)
    return -FI_ENOSYS;
  const auto& work = *static_cast<const fi_deferred_work*>(argument);
  const bool writes = work.op_type == FI_OP_WRITE;
  if (!writes && work.op_type != FI_OP_ATOMIC)
    return mistake("queues work that is neither a write nor an atomic");
  const uint64_t flags = writes ? work.op.rma->flags : work.op.atomic->flags;
  if (work.triggering_cntr == nullptr || (flags & FI_COMPLETION) == 0)
    return mistake("queues work that nothing fires, or of whose end it does not hear");
  return take_in(writes ? lower(work.op.rma->msg, flags) : lower(work.op.atomic->msg, flags), &work);
}

int StepFabric::take_in(const Result<nic::Op>& op, const fi_deferred_work* work) {
  const std::string what = work == nullptr ? "starts an operation, but " : "queues work, but ";
  if (!op.ok())
    return mistake(what + op.status().message());
  if (slots_held_ == slots_)
    return refuse(FI_EAGAIN);
  const ofi::Work& note = note_of(op.value());
  nic::DeferredOp deferred{op.value(), note.trigger, note.threshold};
  if (work != nullptr) {
    deferred.trigger = id_of(work->triggering_cntr);
    deferred.threshold = work->threshold;
    deferred.op.completion = work->completion_cntr != nullptr ? id_of(work->completion_cntr) : nic::CounterId{};
  }
  if (refuses(op.value()))
    return doom({op.value(), note.op.completion, deferred.trigger, deferred.threshold});
  ++slots_held_;  // before the call, in which the operation may fail and end
  given_.push_back({op.value().start, note.op.completion});
  const Status status = work == nullptr ? nic_.issue(op.value()) : nic_.post({&deferred, 1});
  changed_ = changed_ || work == nullptr || status.ok();
  if (status.ok())
    return 0;
  --slots_held_;
  given_.pop_back();
  if (status.code() != Code::kAgain)
    return mistake(what + status.message());
  refused_falsely_ = refused_falsely_ || (work != nullptr && nic_.free_entries() > 0);
  return refuse(work == nullptr ? FI_EAGAIN : FI_ENOSPC);
}

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
