#include "nicsim/model/nic_model.h"

#include <algorithm>
#include <atomic>

#include "transport/base/check.h"

namespace lanyard::nicsim {

using nic::CounterId;
using nic::CounterValue;
using nic::kMaxFailure;
using nic::kMaxSuccess;
using nic::Op;
using nic::OpKind;
using nic::RegionId;

NicModel::NicModel(const ModelLimits& limits, uint32_t self)
    : limits_(limits),
      self_(self),
      counters_(limits.max_counters),
      regions_(limits.max_regions),
      entries_(limits.deferred_depth, limits.newest_tie_first),
      flights_(limits.max_in_flight),
      free_flights_(limits.max_in_flight),
      held_(limits.max_held),
      failures_(limits.kept_failures) {
  LANYARD_CHECK(limits.max_counters > 0 && limits.deferred_depth > 0 && limits.max_in_flight > 0,
                "a NIC needs at least one counter, one entry and one operation in flight");
}

// Sets successes, or failures, to `value`, or adds it.
Status NicModel::change(CounterId id, uint64_t value, bool of_failures, bool adds) {
  if (!is_open(id))
    return nic::no_counter();
  CounterValue& now = counters_[id].value;
  const uint64_t before = !adds ? 0 : of_failures ? now.failure : now.success;
  if (value > (of_failures ? kMaxFailure : kMaxSuccess) - before)
    return {Code::kInvalidArgument,
            of_failures ? "a counter holds 7 bits of failure" : "a counter holds 48 bits of success"};
  if (of_failures)
    now.failure = static_cast<uint32_t>(before + value);
  else
    now.success = before + value;
  release_ready(id);
  return {};
}

Status NicModel::reset(CounterId id) {
  if (!is_open(id))
    return nic::no_counter();
  counters_[id].value = {};
  return {};
}

void NicModel::ring(CounterId id, uint64_t value) {
  if (is_open(id))
    advance(id, value, 0);
}

void NicModel::advance(CounterId id, uint64_t success, uint32_t failure) {
  CounterValue& value = counters_[id].value;
  value.success = (value.success + success) & kMaxSuccess;  // a 48-bit register: it wraps
  value.failure = std::min(kMaxFailure, value.failure + failure);
  release_ready(id);
}

// Moves every entry whose condition holds to the ready list (N1). A later reset does not undo this.
void NicModel::release_ready(CounterId id) {
  Counter& counter = counters_[id];
  while (counter.waiting.first != kNone && counter.value.reached() >= entries_[counter.waiting.first].threshold) {
    const uint32_t entry = counter.waiting.first;
    entries_.take_out(entry, counter.waiting);
    entries_.make_ready(entry);
  }
}

Result<RegionId> NicModel::register_region(void* base, uint64_t bytes, CounterId remote_write,
                                           const RegionOptions& options) {
  if (remote_write.valid() && !is_open(remote_write))
    return nic::no_counter();
  const Result<RegionId> region = regions_.add(base, bytes, remote_write, options);
  if (region.ok() && remote_write.valid())
    ++counters_[remote_write].uses;
  return region;
}

Status NicModel::deregister_region(RegionId id, bool busy) {
  LANYARD_RETURN_IF_ERROR(regions_.remove(id, busy));
  if (const CounterId counter = regions_[id].remote_write; counter.valid())
    --counters_[counter].uses;
  return {};
}

Result<nic::RemoteKey> NicModel::key(RegionId id) const {
  if (regions_.find(id) == nullptr)
    return nic::no_region();
  return nic::RemoteKey{regions_.key_of(id)};
}

const std::byte* NicModel::local_address(nic::LocalSpan span) const { return regions_[span.region].base + span.offset; }

// Keeps what the operation names from being closed (delta 1), or no longer (delta -1).
void NicModel::use(const Op& op, int delta) {
  const auto count = static_cast<uint32_t>(delta);
  if (op.completion.valid())
    counters_[op.completion].uses += count;
  regions_[op.local.region].uses += count;
}

void NicModel::post(const nic::DeferredOp& deferred) {
  Counter& counter = counters_[deferred.trigger];
  use(deferred.op, 1);
  ++counter.uses;
  entries_.add(deferred, counter.waiting);
  release_ready(deferred.trigger);
}

Result<nic::PreparedId> NicModel::prepare(const Op& op) {
  LANYARD_RETURN_IF_ERROR(validate(op));
  use(op, 1);
  return prepared_.add(op);
}

Status NicModel::release(nic::PreparedId id) {
  const Op* op = prepared_.find(id);
  if (op == nullptr)
    return nic::no_prepared();
  use(*op, -1);
  prepared_.remove(id);
  return {};
}

void NicModel::cancel(CounterId id) {
  while (const std::optional<uint32_t> entry = first_waiting(id))
    take_back(*entry);
}

void NicModel::flush() {
  for (uint32_t entry = 0; entry < entries_.size(); ++entry) {
    if (entries_[entry].busy)
      take_back(entry);
  }
}

void NicModel::take_back(uint32_t entry) {
  const Op op = entries_[entry].op;
  entries_.take_out(entry, counters_[entries_[entry].trigger].waiting);
  use(op, -1);
  free_entry(entry);
  if (witness_ != nullptr)
    witness_->canceled(op);
}

// The caller updates the use counts of what the operation names.
void NicModel::free_entry(uint32_t entry) {
  --counters_[entries_[entry].trigger].uses;
  entries_.release(entry);
}

std::optional<Launch> NicModel::fire(uint32_t index) {
  LANYARD_CHECK(entries_[index].busy && entries_[index].ready && room_in_flight(), "only a ready entry fires");
  entries_.take_out(index, counters_[entries_[index].trigger].waiting);
  const Op op = entries_[index].op;
  free_entry(index);
  return start(op);
}

void NicModel::hold(const Op& op) {
  LANYARD_CHECK(!held_.full(), "hold() needs room for one more held operation");
  use(op, 1);
  held_.push_back(op);
}

std::optional<Launch> NicModel::start_held() {
  LANYARD_CHECK(!held_.empty() && room_in_flight(), "start_held() needs a held operation and room in flight");
  const Op op = held_.front();
  held_.pop_front();
  return start(op);
}

// Requires that use(op, 1) was called.
std::optional<Launch> NicModel::start(const Op& op) {
  if (std::find(lost_peers_.begin(), lost_peers_.end(), op.remote.peer) != lost_peers_.end()) {
    finish(op, Code::kFailed);
    return std::nullopt;
  }
  const uint32_t token = free_flights_.take();
  flights_[token] = {op, true};

  Launch launch{.peer = op.remote.peer};
  Packet& packet =
      launch.packet = {.source = self_, .token = token, .key = op.remote.key.value, .offset = op.remote.offset};
  if (op.kind == OpKind::kWrite) {
    packet.kind = PacketKind::kWrite;
    packet.bytes = op.bytes;
    launch.payload = op.bytes > 0 ? local_address(op.local) : nullptr;
  } else {
    packet.kind = PacketKind::kAtomic;
    packet.atomic = op.atomic;
    auto* operand = reinterpret_cast<uint64_t*>(const_cast<std::byte*>(local_address(op.local)));
    packet.operand = std::atomic_ref<uint64_t>(*operand).load(std::memory_order_acquire);
  }
  return launch;
}

Landing NicModel::locate(const Packet& packet) {
  constexpr uint64_t kWord = sizeof(uint64_t);
  const std::optional<RegionId> target = regions_.target_of(packet.key);
  if (!target)
    return {.code = Code::kNotFound};
  RegionTable::Region& region = regions_[*target];
  const bool atomic = packet.kind == PacketKind::kAtomic;
  if (atomic && packet.atomic > nic::AtomicKind::kReplace)
    return {.code = Code::kInvalidArgument};
  const uint64_t bytes = atomic ? kWord : packet.bytes;
  if (packet.offset > region.bytes || bytes > region.bytes - packet.offset)
    return {.code = Code::kInvalidArgument};
  if (atomic && reinterpret_cast<uintptr_t>(region.base + packet.offset) % kWord != 0)
    return {.code = Code::kInvalidArgument};
  ++region.pins;
  // A zero-length message may name a region without memory; it still needs an address that is
  // not null.
  static std::byte nowhere;
  std::byte* address = region.base == nullptr ? &nowhere : region.base + packet.offset;
  return {.code = Code::kOk, .address = address, .counter = region.remote_write, .region = *target};
}

void NicModel::landed(const Packet& packet) {
  abandoned(packet);
  if (const CounterId counter = counter_of(packet); counter.valid())
    advance(counter, 1, 0);
}

void NicModel::abandoned(const Packet& packet) {
  RegionTable::Region& region = regions_[regions_.pinned(packet.key)];
  LANYARD_CHECK(region.pins > 0, "only a packet that locate() accepted can land or be abandoned");
  --region.pins;
}

bool NicModel::awaits(const Packet& ack) const {
  return ack.token < flights_.size() && flights_[ack.token].busy && flights_[ack.token].op.remote.peer == ack.source;
}

void NicModel::complete(const Packet& ack) {
  LANYARD_CHECK(awaits(ack), "an ack must answer an operation");
  InFlight& flight = flights_[ack.token];
  flight.busy = false;
  free_flights_.give_back(ack.token);
  finish(flight.op, ack.code);
}

void NicModel::finish(const Op& op, Code code) {
  use(op, -1);
  if (code != Code::kOk)
    failures_.add({op.context, code, op.remote.peer});
  if (op.completion.valid())
    advance(op.completion, code == Code::kOk ? 1 : 0, code == Code::kOk ? 0 : 1);
  if (witness_ != nullptr)
    witness_->ended(op, code);
}

void NicModel::lose_peer(uint32_t peer) {
  lost_peers_.push_back(peer);
  for (uint32_t token = 0; token < flights_.size(); ++token) {
    if (flights_[token].busy && flights_[token].op.remote.peer == peer) {
      const Packet ack{.kind = PacketKind::kAck, .code = Code::kFailed, .source = peer, .token = token};
      complete(ack);
    }
  }
}

void apply_atomic(std::byte* target, const Packet& packet) {
  std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(target));
  if (packet.atomic == nic::AtomicKind::kSum)
    word.fetch_add(packet.operand);
  else
    word.store(packet.operand);
}

}  // namespace lanyard::nicsim
