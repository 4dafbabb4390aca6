#include "nicsim/deterministic/step_nic.h"

#include <fmt/format.h>

#include <algorithm>

#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

StepNic::StepNic(World& world, ShadowNic& shadow, uint32_t rank, const ModelLimits& limits)
    : world_(world),
      shadow_(shadow),
      rank_(rank),
      model_(limits, rank),
      rings_(limits.max_counters),
      ring_values_(limits.max_counters, 1),
      bell_words_(limits.max_counters),
      last_read_(limits.max_counters),
      frozen_(limits.max_counters) {
  posting_.reserve(std::min(limits.deferred_depth, 8u));
  caps_.name = "sim/det";
  caps_.provider = "nicsim";
  caps_.deferred_depth = limits.deferred_depth;
  caps_.max_counters = limits.max_counters;
  caps_.max_regions = limits.max_regions;
  caps_.max_message_bytes = limits.max_message_bytes;
  const Bells bells = world.options().bells;
  caps_.doorbell_host_call = bells == Bells::kCalls;
  caps_.doorbell_mmio_add = bells == Bells::kRegisters;
  caps_.doorbell_atomic_add = bells != Bells::kRegisters;
  caps_.doorbell_totals = bells == Bells::kCalls || bells == Bells::kTotals;
  caps_.flush = true;
  caps_.cancel = true;
  caps_.target_count_means_visible = true;
  caps_.counters_count_both = true;
}

bool StepNic::is_scarce() { return world_.options().scarce && !plenty_ && world_.chance(ChoiceKind::kScarce); }

Result<nic::CounterId> StepNic::open_counter() {
  if (is_scarce())
    return Status(Code::kExhausted, "others hold all counters that are left");
  Result<nic::CounterId> counter = model_.open_counter();
  if (counter.ok()) {
    last_read_[counter.value().value] = {};
    frozen_[counter.value().value] = false;
    ring_values_[counter.value().value] = 1;
    shadow_.opened(counter.value().value, {});
  }
  return counter;
}

Status StepNic::add(nic::CounterId counter, uint64_t value) {
  LANYARD_RETURN_IF_ERROR(model_.add(counter, value));
  shadow_.succeeded(counter.value, value);
  return {};
}

Status StepNic::add_error(nic::CounterId counter, uint32_t value) {
  LANYARD_RETURN_IF_ERROR(model_.add_error(counter, value));
  shadow_.failed(counter.value, value);
  return {};
}

Status StepNic::reset(nic::CounterId counter) {
  LANYARD_RETURN_IF_ERROR(model_.reset(counter));
  shadow_.reset(counter.value);
  return {};
}

Result<nic::RegionId> StepNic::open_region(void* base, uint64_t bytes, nic::CounterId remote_write,
                                           const RegionOptions& options) {
  if (is_scarce())
    return Status(Code::kExhausted, "others hold all regions that are left");
  return model_.register_region(base, bytes, remote_write, options);
}

Status StepNic::close_counter(nic::CounterId counter) {
  if (is_posting([&](const auto& op) { return op.trigger == counter || op.op.completion == counter; }))
    return {Code::kInvalidState, "an entry that is being posted names the counter"};
  if (model_.is_open(counter) && rings_[counter.value] > 0)
    return {Code::kInvalidState, "a ring is under way to the counter"};
  Status status = model_.close_counter(counter);
  // After a finding a region may be open, and its counter with it. Do not report that too.
  return world_.report().ok() ? status : Status();
}

Result<nic::CounterValue> StepNic::read(nic::CounterId counter) {
  const Result<nic::CounterValue> value = model_.read(counter);
  if (!value.ok())
    return value;
  if (world_.options().stale_reads && world_.chance(ChoiceKind::kStale)) {
    gave_stale_value_ |= last_read_[counter.value] != value.value();
    return last_read_[counter.value];
  }
  if (world_.options().frozen_reads && !world_.faults_have_ended() && !frozen_[counter.value])
    frozen_[counter.value] = world_.chance(ChoiceKind::kFreeze);
  if (frozen_[counter.value])
    return last_read_[counter.value];
  last_read_[counter.value] = value.value();
  return value;
}

Result<nic::Doorbell> StepNic::doorbell(nic::CounterId counter, nic::DoorbellKind kind) {
  if (!model_.is_open(counter))
    return Status(Code::kNotFound, "no such counter is open");
  const bool has = kind == nic::DoorbellKind::kHostCall  ? caps_.doorbell_host_call
                   : kind == nic::DoorbellKind::kMmioAdd ? caps_.doorbell_mmio_add
                                                         : caps_.doorbell_atomic_add;
  if (!has)
    return Status(Code::kUnsupported, "the card has no doorbell of that kind");
  nic::Doorbell bell{.kind = kind, .counter = counter.value};
  if (kind != nic::DoorbellKind::kHostCall) {
    bell.word = &bell_words_[counter.value];
    return bell;
  }
  bell.object = this;
  bell.call = [](void* object, uint32_t which, uint64_t value) {
    static_cast<StepNic*>(object)->put_under_way(which, value);
  };
  return bell;
}

void StepNic::put_under_way(uint32_t counter, uint64_t value) {
  const uint32_t right = ring_values_[counter];
  // Clear-to-sends alone may complete a start before its stream rings. If the next start is on
  // another queue, the sum of rings there lacks that ring.
  if (value != right && world_.may_run_ahead(rank_, {counter}))
    return;
  if (value != right)
    return world_.find(Finding::kOrder, "doorbell", world_.process(rank_),
                       fmt::format("a start rings {} times, not {}", static_cast<int64_t>(value),
                                   right == 1 ? "once" : std::to_string(right)));
  if (world_.options().lost_rings && world_.chance(ChoiceKind::kLostRing))
    return;
  ++rings_[counter];
  world_.set_enabled(rank_, StepKind::kRing, true, counter);
}

void StepNic::rings_land(uint32_t counter, uint32_t rings) {
  rings_[counter] -= rings;
  const uint64_t value = uint64_t{rings} * ring_values_[counter];
  model_.ring({counter}, value);
  shadow_.succeeded(counter, value);
}

void StepNic::drop_rings(nic::CounterId counter) {
  if (std::exchange(rings_[counter.value], 0) > 0)
    world_.set_enabled(rank_, StepKind::kRing, false, counter.value);
}

nic::CounterId StepNic::rung_by(const gpu::StreamOp& op) const {
  return {op.kind == gpu::StreamOp::Kind::kCall ? op.argument : static_cast<uint32_t>(op.word - bell_words_.data())};
}

void StepNic::take_ring(const gpu::StreamOp& op) {
  using Kind = gpu::StreamOp::Kind;
  if (op.kind == Kind::kCall)
    return op.call(op.object, op.argument, op.value);
  const uint64_t before = *op.word;
  uint64_t rings = op.value;
  if (op.kind == Kind::kAdd64) {
    *op.word += op.value;
  } else if (op.kind == Kind::kWriteNext64 || !caps_.doorbell_mmio_add) {
    *op.word = op.kind == Kind::kWriteNext64 ? *op.count += op.value : op.value;
    rings = *op.word - before;
  }
  put_under_way(rung_by(op).value, rings);
}

// A step cannot wait for messages that are landing. In a correct program none are, except for a
// request that was freed after a failure.
Status StepNic::deregister_region(nic::RegionId region) {
  if (is_posting([region](const auto& op) { return op.op.local.region == region; }))
    return {Code::kInvalidState, "an entry that is being posted names the region"};
  Status status = model_.deregister_region(region);
  if (status.code() != Code::kAgain || world_.options().failures || world_.options().kills)
    return status;
  world_.find(Finding::kUser, "lifetime",
              fmt::format("rank {} frees a request while the other side's next start writes to it", rank_));
  return {};
}

Status StepNic::check(const nic::Op& op) const {
  return op.remote.peer >= world_.scenario().ranks() ? Status(Code::kNotFound, "no such peer") : Status();
}

Result<nic::PreparedId> StepNic::prepare(const nic::Op& op) {
  LANYARD_RETURN_IF_ERROR(check(op));
  return model_.prepare(op);
}

Status StepNic::post_prepared(std::span<const nic::Posting> postings) {
  posted_.clear();
  for (const nic::Posting& posting : postings) {
    LANYARD_RETURN_IF_ERROR(model_.validate(posting));
    posted_.push_back(nic::deferred(*model_.prepared(posting.prepared), posting));
  }
  return take_in(posted_);
}

Status StepNic::post(std::span<const nic::DeferredOp> ops) {
  for (const nic::DeferredOp& op : ops) {
    LANYARD_RETURN_IF_ERROR(check(op.op));
    LANYARD_RETURN_IF_ERROR(model_.validate(op));
  }
  return take_in(ops);
}

// Takes all or none. Requires valid operations.
Status StepNic::take_in(std::span<const nic::DeferredOp> ops) {
  if (ops.empty())
    return {};
  if (!world_.options().blocking_post) {
    if (ops.size() > caps_.deferred_depth)
      return {Code::kExhausted, "more entries than there are"};
    if (ops.size() > free_entries() || (world_.options().no_room && world_.chance(ChoiceKind::kNoRoom)))
      return {Code::kAgain, "too few entries"};
  }
  if (first_posting_ == posting_.size()) {
    posting_.clear();
    first_posting_ = 0;
  }
  posting_.insert(posting_.end(), ops.begin(), ops.end());
  if (can_arrive())
    world_.set_enabled(rank_, StepKind::kPost, true);
  others_want_entries();
  return {};
}

void StepNic::others_want_entries() {
  if (!world_.options().stolen_entries || world_.faults_have_ended())
    return;
  const uint32_t choice = world_.draw(3, ChoiceKind::kSteal);
  if (choice == 1 && free_entries() > 0)
    ++stolen_;
  if (choice == 2 && stolen_ > 0)
    --stolen_;
}

void StepNic::end_faults() {
  stolen_ = 0;
  std::fill(frozen_.begin(), frozen_.end(), false);
}

void StepNic::arrive() {
  const nic::DeferredOp& op = posting_[first_posting_++];
  shadow_.posted(op);
  model_.post(op);
}

Status StepNic::issue(const nic::Op& op) {
  LANYARD_RETURN_IF_ERROR(model_.validate(op));
  if (held_)
    return {Code::kAgain, "too many operations are under way"};
  model_.hold(op);
  held_ = op;
  start_held();
  return {};
}

void StepNic::start_held() {
  if (!held_ || !model_.room_in_flight())
    return;
  const nic::Op op = *std::exchange(held_, std::nullopt);
  world_.started(rank_, op, model_.start_held());
  if (CardMail* mail = world_.process(rank_).card_mail.get(); mail != nullptr)
    mail->wake();
}

Status StepNic::cancel(nic::CounterId trigger) {
  const auto first = posting_.begin() + static_cast<ptrdiff_t>(first_posting_);
  posting_.erase(std::remove_if(first, posting_.end(), [&](const auto& op) { return op.trigger == trigger; }),
                 posting_.end());
  shadow_.canceled(trigger.value);
  model_.cancel(trigger);
  return {};
}

std::optional<uint32_t> StepNic::first_to_fire(nic::CounterId counter) const {
  std::optional<uint32_t> entry = model_.ready();
  while (entry && model_.trigger_of(*entry) != counter)
    entry = model_.next_ready(*entry);
  return entry;
}

void StepNic::lose(uint32_t peer) {
  lost_.push_back(peer);
  model_.lose_peer(peer);
}

uint32_t StepNic::free_entries() const {
  const auto promised = static_cast<uint32_t>(posting()) + stolen_;
  return promised >= model_.free_entries() ? 0 : model_.free_entries() - promised;
}

}  // namespace lanyard::nicsim
