#include "tests/contract/model_fabric.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "transport/base/check.h"

namespace lanyard {

// ---- ModelNic

ModelNic::ModelNic(ModelFabric& fabric, uint32_t rank, const nicsim::ModelLimits& limits)
    : fabric_(fabric),
      rank_(rank),
      model_(limits, rank),
      words_(std::make_unique<std::atomic<uint64_t>[]>(limits.max_counters)),
      seen_(limits.max_counters) {
  caps_.name = "model";
  caps_.provider = "a test's";
  caps_.deferred_depth = limits.deferred_depth;
  caps_.max_counters = limits.max_counters;
  caps_.max_regions = limits.max_regions;
  caps_.max_message_bytes = limits.max_message_bytes;
  caps_.doorbell_atomic_add = caps_.doorbell_host_call = true;
  caps_.flush = caps_.cancel = true;
  caps_.target_count_means_visible = true;
  caps_.counters_count_both = true;
}

Status ModelNic::set_peers(std::span<const nic::Address> peers, uint32_t self) {
  const std::lock_guard lock(fabric_.mutex_);
  if (!peers_.empty())
    return {Code::kInvalidState, "set_peers() was called before"};
  for (const nic::Address& peer : peers)
    if (!peer.bytes.empty() && !fabric_.is_address(peer))
      return {Code::kInvalidArgument, "not the address of a bare model"};
  if (self >= peers.size() || peers[self].bytes != address().bytes)
    return {Code::kInvalidArgument, "the address at index self is not this NIC's"};
  for (const nic::Address& peer : peers)
    peers_.push_back(!peer.bytes.empty());
  return {};
}

Status ModelNic::add_peer(uint32_t peer, const nic::Address& address) {
  const std::lock_guard lock(fabric_.mutex_);
  if (peer >= peers_.size() || !fabric_.is_address(address))
    return {Code::kInvalidArgument, "not the address of a bare model, or no peer"};
  if (peers_[peer])
    return {Code::kInvalidState, "the peer's address is known already"};
  peers_[peer] = true;
  return {};
}

Result<nic::CounterId> ModelNic::open_counter() {
  const std::lock_guard lock(fabric_.mutex_);
  Result<nic::CounterId> counter = model_.open_counter();
  if (counter.ok())
    look(counter.value().value);
  return counter;
}
Status ModelNic::close_counter(nic::CounterId counter) {
  const std::lock_guard lock(fabric_.mutex_);
  Status status = model_.close_counter(counter);
  if (status.ok())
    std::erase(armed_, counter.value);
  return status;
}
Result<nic::CounterValue> ModelNic::read(nic::CounterId counter) {
  const std::lock_guard lock(fabric_.mutex_);
  if (model_.is_open(counter))
    model_.ring(counter, look(counter.value));
  return model_.read(counter);
}
Status ModelNic::add(nic::CounterId counter, uint64_t value) {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.add(counter, value);
}
Status ModelNic::add_error(nic::CounterId counter, uint32_t value) {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.add_error(counter, value);
}
Status ModelNic::reset(nic::CounterId counter) {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.reset(counter);
}

Result<nic::Doorbell> ModelNic::doorbell(nic::CounterId counter, nic::DoorbellKind kind) {
  const std::lock_guard lock(fabric_.mutex_);
  if (!model_.is_open(counter))
    return Status(Code::kNotFound, "no such counter is open");
  nic::Doorbell bell{.kind = kind, .counter = counter.value};
  if (kind == nic::DoorbellKind::kAtomicAdd) {
    bell.word = reinterpret_cast<uint64_t*>(&words_[counter.value]);
    if (std::find(armed_.begin(), armed_.end(), counter.value) == armed_.end())
      armed_.push_back(counter.value);
    return bell;
  }
  if (kind != nic::DoorbellKind::kHostCall)
    return Status(Code::kUnsupported, "a bare model has no registers");
  bell.object = this;
  bell.call = [](void* object, uint32_t which, uint64_t value) {
    auto* nic = static_cast<ModelNic*>(object);
    const std::lock_guard ringing(nic->fabric_.mutex_);
    nic->model_.ring({which}, value);
  };
  return bell;
}

Result<nic::RegionId> ModelNic::register_region(void* base, uint64_t bytes, nic::CounterId remote_write) {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.register_region(base, bytes, remote_write);
}
Status ModelNic::deregister_region(nic::RegionId region) {
  const std::lock_guard lock(fabric_.mutex_);
  Status status = model_.deregister_region(region);
  // First counts what has been placed.
  while (status.code() == Code::kAgain) {
    const auto pins = [&](const ModelFabric::Transit& transit) {
      return transit.to == rank_ && transit.stage == ModelFabric::Transit::Stage::kPlaced;
    };
    const auto found = std::find_if(fabric_.transits_.begin(), fabric_.transits_.end(), pins);
    LANYARD_CHECK(found != fabric_.transits_.end(), "only placed bytes keep a region busy");
    fabric_.count(static_cast<uint32_t>(found - fabric_.transits_.begin()));
    status = model_.deregister_region(region);
  }
  return status;
}
Result<nic::RemoteKey> ModelNic::key(nic::RegionId region) const {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.key(region);
}

Status ModelNic::check(const nic::Op& op) const {
  if (op.remote.peer >= peers_.size() || !peers_[op.remote.peer])
    return {Code::kNotFound, "no such peer"};
  return model_.validate(op);
}

Status ModelNic::post(std::span<const nic::DeferredOp> ops) {
  const std::lock_guard lock(fabric_.mutex_);
  for (const nic::DeferredOp& op : ops) {
    LANYARD_RETURN_IF_ERROR(check(op.op));
    LANYARD_RETURN_IF_ERROR(model_.validate(op));
  }
  LANYARD_RETURN_IF_ERROR(check_room(ops.size()));
  for (const nic::DeferredOp& op : ops)
    model_.post(op);
  return {};
}
Status ModelNic::check_room(size_t entries) const {
  if (entries > caps_.deferred_depth)
    return {Code::kExhausted, "the batch has more operations than the NIC has entries"};
  return entries > model_.free_entries() ? Status(Code::kAgain, "more than are free") : Status();
}
Result<nic::PreparedId> ModelNic::prepare(const nic::Op& op) {
  const std::lock_guard lock(fabric_.mutex_);
  LANYARD_RETURN_IF_ERROR(check(op));
  return model_.prepare(op);
}
Status ModelNic::post_prepared(std::span<const nic::Posting> postings) {
  const std::lock_guard lock(fabric_.mutex_);
  for (const nic::Posting& posting : postings)
    LANYARD_RETURN_IF_ERROR(model_.validate(posting));
  LANYARD_RETURN_IF_ERROR(check_room(postings.size()));
  for (const nic::Posting& posting : postings)
    model_.post(nic::deferred(*model_.prepared(posting.prepared), posting));
  return {};
}
Status ModelNic::release(nic::PreparedId prepared) {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.release(prepared);
}
Status ModelNic::issue(const nic::Op& op) {
  const std::lock_guard lock(fabric_.mutex_);
  LANYARD_RETURN_IF_ERROR(check(op));
  if (!model_.room_in_flight())
    return {Code::kAgain, "too many operations are in flight"};
  model_.hold(op);
  fabric_.launch(rank_, model_.start_held());
  return {};
}
uint32_t ModelNic::free_entries() const {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.free_entries();
}
Status ModelNic::cancel(nic::CounterId trigger) {
  const std::lock_guard lock(fabric_.mutex_);
  if (!model_.is_open(trigger))
    return {Code::kNotFound, "no such counter is open"};
  model_.cancel(trigger);
  return {};
}
Status ModelNic::flush() {
  const std::lock_guard lock(fabric_.mutex_);
  model_.flush();
  return {};
}

size_t ModelNic::progress() { return fabric_.take_some(); }
void ModelNic::wait_since(uint64_t seen, Nanoseconds) {
  if (activity() == seen && fabric_.take_some() == 0)
    std::this_thread::yield();
}
std::optional<nic::FailureRecord> ModelNic::take_failure() {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.take_failure();
}
nic::Usage ModelNic::usage() const {
  const std::lock_guard lock(fabric_.mutex_);
  return {.counters = model_.open_counters(), .regions = model_.open_regions()};
}
uint64_t ModelNic::failures() const {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.failures();
}

// ---- ModelFabric

ModelFabric::ModelFabric(size_t nics, const nicsim::ModelLimits& limits, bool connected, uint64_t seed)
    : random_(seed) {
  std::vector<nic::Address> addresses;
  for (uint32_t rank = 0; rank < nics; ++rank) {
    nics_.push_back(std::make_unique<ModelNic>(*this, rank, limits));
    addresses.push_back(nics_.back()->address());
  }
  for (uint32_t rank = 0; connected && rank < nics; ++rank)
    LANYARD_CHECK(nics_[rank]->set_peers(addresses, rank).ok(), "the fabric's own NICs accept their addresses");
}

size_t ModelFabric::quiesce() {
  const std::lock_guard lock(mutex_);
  for (size_t taken = 0;; ++taken) {
    collect_steps();
    if (steps_.empty())
      return taken;
    take(steps_.front());
  }
}

// Draws the same on every machine, unlike the distributions of the standard. The bias of
// 2^-50 is harmless.
size_t ModelFabric::take_some() {
  const std::lock_guard lock(mutex_);
  const size_t most = 1 + random_() % 4;
  for (size_t taken = 0; taken < most; ++taken) {
    collect_steps();
    if (steps_.empty())
      return taken;
    take(steps_[random_() % steps_.size()]);
  }
  return most;
}

void ModelFabric::collect_steps() {
  steps_.clear();
  for (const auto& nic : nics_)
    collect_steps_of(*nic);
  for (uint32_t place = 0; place < transits_.size(); ++place)
    if (!held || !held(transits_[place]))
      steps_.push_back({Step::Kind::kCarry, 0, place});
}

// Of each counter's ready entries only the oldest may fire (N2).
void ModelFabric::collect_steps_of(const ModelNic& nic) {
  for (const uint32_t counter : nic.armed_)
    if (nic.unseen(counter) != 0)
      steps_.push_back({Step::Kind::kBell, nic.rank_, counter});
  const size_t first = steps_.size();
  for (auto entry = nic.model_.ready(); entry; entry = nic.model_.next_ready(*entry)) {
    const auto same = [&](const Step& step) {
      return nic.model_.trigger_of(step.which) == nic.model_.trigger_of(*entry);
    };
    if (std::none_of(steps_.begin() + static_cast<ptrdiff_t>(first), steps_.end(), same))
      steps_.push_back({Step::Kind::kFire, nic.rank_, *entry});
  }
}

void ModelFabric::take(const Step& step) {
  ModelNic& nic = *nics_[step.kind == Step::Kind::kCarry ? transits_[step.which].to : step.rank];
  nic.activity_.fetch_add(1);
  switch (step.kind) {
    case Step::Kind::kBell: nic.model_.ring({step.which}, nic.look(step.which)); return;
    case Step::Kind::kFire: launch(step.rank, nic.model_.fire(step.which)); return;
    case Step::Kind::kCarry: carry(step.which); return;
  }
}

// Takes a packet's next stage: read its payload, place its bytes, count it, or
// answer its initiator.
void ModelFabric::carry(uint32_t place) {
  Transit& transit = transits_[place];
  if (transit.packet.kind == nicsim::PacketKind::kAck) {
    const Transit ack = std::move(transit);
    transits_.erase(transits_.begin() + place);
    nics_[ack.to]->model_.complete(ack.packet);
  } else if (transit.stage == Transit::Stage::kPlaced) {
    count(place);
  } else if (transit.stage == Transit::Stage::kStart && transit.payload != nullptr) {
    transit.bytes.assign(transit.payload, transit.payload + transit.packet.bytes);
    transit.stage = Transit::Stage::kRead;
  } else {
    place_bytes(place);
  }
}

void ModelFabric::place_bytes(uint32_t place) {
  Transit& transit = transits_[place];
  const nicsim::Landing landing = nics_[transit.to]->model_.locate(transit.packet);
  if (landing.code != Code::kOk)
    return answer(place, landing.code);
  if (transit.packet.kind == nicsim::PacketKind::kAtomic)
    nicsim::apply_atomic(landing.address, transit.packet);
  else if (!transit.bytes.empty())
    std::memcpy(landing.address, transit.bytes.data(), transit.bytes.size());
  transit.stage = Transit::Stage::kPlaced;
}

void ModelFabric::count(uint32_t place) {
  nics_[transits_[place].to]->model_.landed(transits_[place].packet);
  answer(place, Code::kOk);
}

// Removes the packet and sends its answer.
void ModelFabric::answer(uint32_t place, Code code) {
  const Transit transit = std::move(transits_[place]);
  transits_.erase(transits_.begin() + place);
  const nicsim::Packet ack{
      .kind = nicsim::PacketKind::kAck, .code = code, .source = transit.to, .token = transit.packet.token};
  transits_.push_back({transit.to, transit.from, ack});
}

void ModelFabric::launch(uint32_t from, const std::optional<nicsim::Launch>& launch) {
  if (launch)
    transits_.push_back({from, launch->peer, launch->packet, launch->payload});
}

}  // namespace lanyard
