// StepFabric: the NICs of one job, where nothing happens but the steps that a test takes.
//
// Each NIC is the simulator's model itself. Between two steps everything stands still, so a test
// can say exactly what must not have happened; and it may take the steps in any order that nic.h
// allows, for there is none between two packets (N7) but the one that counters make.
#ifndef LANYARD_TESTS_CORE_STEP_FABRIC_H_
#define LANYARD_TESTS_CORE_STEP_FABRIC_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "nicsim/model/nic_model.h"
#include "transport/nic/nic.h"

namespace lanyard {

// A packet between two NICs, or from one to itself. The payload is read when it is delivered: the
// latest moment that the contract allows; or, in stages, by a step of its own.
struct Transit {
  enum class Stage : uint8_t { kStart, kCarried, kPlaced };  // kPlaced: the bytes are there, but not counted
  uint32_t from = 0;
  uint32_t to = 0;
  nicsim::Packet packet;
  const std::byte* payload = nullptr;
  Stage stage = Stage::kStart;
  std::vector<std::byte> bytes = {};  // kCarried: as they were read
  uint64_t old = 0;                   // kPlaced: what an atomic found
};

class StepFabric;

// One NIC of a StepFabric, which owns it. Threads: any; one lock guards the whole fabric.
class StepNic final : public nic::Nic {
 public:
  StepNic(StepFabric& fabric, uint32_t rank, const nicsim::ModelLimits& limits);

  const nic::Caps& caps() const override { return caps_; }
  nic::Address address() const override { return {{std::byte{'S'}, std::byte(rank_)}}; }
  Status set_peers(std::span<const nic::Address> peers, uint32_t self) override;

  Result<nic::CounterId> open_counter() override;
  Status close_counter(nic::CounterId counter) override;
  Result<nic::CounterValue> read(nic::CounterId counter) override;
  Status add(nic::CounterId counter, uint64_t value) override;
  Status add_error(nic::CounterId counter, uint32_t value) override;
  Status reset(nic::CounterId counter) override;
  Result<nic::Doorbell> doorbell(nic::CounterId counter, nic::DoorbellKind kind) override;

  Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write = {}) override;
  Status deregister_region(nic::RegionId region) override;
  Result<nic::RemoteKey> key(nic::RegionId region) const override;

  Status post(std::span<const nic::DeferredOp> ops) override;
  Status issue(const nic::Op& op) override;
  uint32_t free_entries() const override;
  Status cancel(nic::CounterId trigger) override;
  Status flush() override;

  // Whatever this NIC can do by itself, and the packets that are for it.
  size_t progress() override;
  uint64_t activity() const override { return activity_.load(); }
  void wait_since(uint64_t seen, Nanoseconds timeout) override {
    if (activity() == seen)
      std::this_thread::sleep_for(std::min<Nanoseconds>(timeout, std::chrono::microseconds(200)));
  }
  std::optional<nic::FailureRecord> take_failure() override;
  nic::Usage usage() const override;
  uint64_t failures() const override;

  // What caps() says; for tests that want a NIC of another kind.
  nic::Caps& mutable_caps() { return caps_; }

 private:
  friend class StepFabric;
  Status check(const nic::Op& op) const;
  void launch(const std::optional<nicsim::Launch>& launch);
  void deliver(const Transit& transit);
  bool advance(Transit& transit);
  void answer(const Transit& transit, Code code, uint64_t old);

  StepFabric& fabric_;
  const uint32_t rank_;
  nic::Caps caps_;
  nicsim::NicModel model_;
  // What a counter's doorbell word has grown by since it was last looked at.
  uint64_t unseen(uint32_t counter) const { return words_[counter].load() - seen_[counter]; }
  uint64_t look(uint32_t counter) {
    const uint64_t grown = unseen(counter);
    seen_[counter] += grown;
    return grown;
  }

  const std::unique_ptr<std::atomic<uint64_t>[]> words_;  // of doorbells, one a counter, never set back
  std::vector<uint64_t> seen_;
  std::vector<uint32_t> armed_;  // those that were handed out
  uint32_t peers_ = 0;
  std::atomic<uint64_t> activity_{0};
};

class StepFabric {
 public:
  explicit StepFabric(size_t nics, const nicsim::ModelLimits& limits = {}, bool connected = true) {
    std::vector<nic::Address> addresses;
    for (uint32_t rank = 0; rank < nics; ++rank) {
      nics_.push_back(std::make_unique<StepNic>(*this, rank, limits));
      addresses.push_back(nics_.back()->address());
    }
    for (uint32_t rank = 0; connected && rank < nics; ++rank)
      LANYARD_CHECK(nics_[rank]->set_peers(addresses, rank).ok(), "they are its own NICs");
  }

  size_t size() const { return nics_.size(); }
  StepNic& nic(size_t rank) { return *nics_[rank]; }

  // Packets for which it returns true stay where they are.
  std::function<bool(const Transit&)> held;

  // Whether a packet's payload is read, lands and is counted in three steps, between which others come.
  bool stages = false;

  // Takes the step that choose(n) picks among the n that are possible; false where there is none.
  template <typename Choose>
  bool step(Choose&& choose) {
    const std::lock_guard lock(mutex_);
    collect_steps();
    if (steps_.empty())
      return false;
    take(steps_[choose(steps_.size())]);
    return true;
  }
  // Takes steps until none is left, in an order that is always the same.
  size_t quiesce() {
    size_t steps = 0;
    while (step([](size_t) { return size_t{0}; }))
      ++steps;
    return steps;
  }
  // Every operation between the two fails from now on.
  void lose(uint32_t at, uint32_t peer) {
    const std::lock_guard lock(mutex_);
    nics_[at]->model_.lose_peer(peer);
    std::erase_if(transits_, [&](const Transit& transit) {
      return (transit.from == at && transit.to == peer) || (transit.from == peer && transit.to == at);
    });
  }
  size_t under_way() const { return transits_.size(); }

 private:
  friend class StepNic;
  struct Step {
    enum class Kind { kBell, kFire, kDeliver } kind;
    uint32_t rank = 0;   // not of kDeliver
    uint32_t which = 0;  // counter, entry, or place in transits_
  };

  void collect_steps() {
    steps_.clear();
    for (const auto& nic : nics_)
      collect_steps_of(*nic);
    for (uint32_t i = 0; i < transits_.size(); ++i)
      if (!held || !held(transits_[i]))
        steps_.push_back({Step::Kind::kDeliver, 0, i});
  }
  // Of the ready entries the oldest of each counter may fire (N2).
  void collect_steps_of(const StepNic& nic) {
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
  void take(const Step& step) {
    const bool arrival = step.kind == Step::Kind::kDeliver;
    StepNic& nic = *nics_[arrival ? transits_[step.which].to : step.rank];
    nic.activity_.fetch_add(1);
    switch (step.kind) {
      case Step::Kind::kBell: nic.model_.ring({step.which}, nic.look(step.which)); return;
      case Step::Kind::kFire: nic.launch(nic.model_.fire(step.which)); return;
      case Step::Kind::kDeliver: {
        if (stages && !nic.advance(transits_[step.which]))
          return;
        const Transit transit = std::move(transits_[step.which]);
        transits_.erase(transits_.begin() + step.which);
        nic.deliver(transit);
        return;
      }
    }
  }
  size_t progress_of(uint32_t rank) {
    size_t count = 0;
    while (true) {
      collect_steps();
      const auto mine = std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) {
        return step.kind == Step::Kind::kDeliver ? transits_[step.which].to == rank : step.rank == rank;
      });
      if (mine == steps_.end())
        return count;
      take(*mine);
      ++count;
    }
  }

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<StepNic>> nics_;
  std::vector<Transit> transits_;  // oldest first
  std::vector<Step> steps_;        // scratch
};

// ---- StepNic

inline StepNic::StepNic(StepFabric& fabric, uint32_t rank, const nicsim::ModelLimits& limits)
    : fabric_(fabric),
      rank_(rank),
      model_(limits, rank),
      words_(std::make_unique<std::atomic<uint64_t>[]>(limits.max_counters)),
      seen_(limits.max_counters) {
  caps_.name = "step";
  caps_.provider = "a test's";
  caps_.deferred_depth = limits.deferred_depth;
  caps_.max_counters = limits.max_counters;
  caps_.max_regions = limits.max_regions;
  caps_.max_message_bytes = limits.max_message_bytes;
  caps_.doorbell_atomic_add = caps_.doorbell_host_call = true;
  caps_.fetching_atomics = caps_.deferred_counter_ops = caps_.flush = caps_.cancel = true;
  caps_.target_count_means_visible = true;
}

inline Status StepNic::set_peers(std::span<const nic::Address> peers, uint32_t self) {
  const std::lock_guard lock(fabric_.mutex_);
  if (peers_ != 0)
    return {Code::kInvalidState, "the peers are known already"};
  for (const nic::Address& peer : peers)
    if (peer.bytes.size() != 2 || peer.bytes[0] != std::byte{'S'} ||
        static_cast<size_t>(peer.bytes[1]) >= fabric_.size())
      return {Code::kInvalidArgument, "not the address of a step NIC"};
  if (self >= peers.size() || peers[self].bytes != address().bytes)
    return {Code::kInvalidArgument, "this NIC's address does not stand at its own rank"};
  peers_ = static_cast<uint32_t>(peers.size());
  return {};
}

inline Result<nic::CounterId> StepNic::open_counter() {
  const std::lock_guard lock(fabric_.mutex_);
  Result<nic::CounterId> counter = model_.open_counter();
  if (counter.ok())
    look(counter.value().value);
  return counter;
}
inline Status StepNic::close_counter(nic::CounterId counter) {
  const std::lock_guard lock(fabric_.mutex_);
  Status status = model_.close_counter(counter);
  if (status.ok())
    std::erase(armed_, counter.value);
  return status;
}
inline Result<nic::CounterValue> StepNic::read(nic::CounterId counter) {
  const std::lock_guard lock(fabric_.mutex_);
  if (model_.is_open(counter))
    model_.ring(counter, look(counter.value));
  return model_.read(counter);
}
inline Status StepNic::add(nic::CounterId counter, uint64_t value) {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.add(counter, value);
}
inline Status StepNic::add_error(nic::CounterId counter, uint32_t value) {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.add_error(counter, value);
}
inline Status StepNic::reset(nic::CounterId counter) {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.reset(counter);
}

inline Result<nic::Doorbell> StepNic::doorbell(nic::CounterId counter, nic::DoorbellKind kind) {
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
    return Status(Code::kUnsupported, "a step NIC has no registers");
  bell.object = this;
  bell.call = [](void* object, uint32_t which, uint64_t value) {
    auto* nic = static_cast<StepNic*>(object);
    const std::lock_guard ringing(nic->fabric_.mutex_);
    nic->model_.ring({which}, value);
  };
  return bell;
}

inline Result<nic::RegionId> StepNic::register_region(void* base, uint64_t bytes, nic::CounterId remote_write) {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.register_region(base, bytes, remote_write);
}
inline Status StepNic::deregister_region(nic::RegionId region) {
  const std::lock_guard lock(fabric_.mutex_);
  Status status = model_.deregister_region(region);
  // What has been placed is counted first.
  while (status.code() == Code::kAgain) {
    const auto pinned = [&](const Transit& transit) {
      return transit.to == rank_ && transit.stage == Transit::Stage::kPlaced;
    };
    const auto found = std::find_if(fabric_.transits_.begin(), fabric_.transits_.end(), pinned);
    LANYARD_CHECK(found != fabric_.transits_.end(), "only what is placed pins a region");
    const Transit transit = std::move(*found);
    fabric_.transits_.erase(found);
    deliver(transit);
    status = model_.deregister_region(region);
  }
  return status;
}
inline Result<nic::RemoteKey> StepNic::key(nic::RegionId region) const {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.key(region);
}

inline Status StepNic::check(const nic::Op& op) const {
  if (op.moves_data() && op.remote.peer >= peers_)
    return {Code::kNotFound, "no such peer"};
  return model_.validate(op);
}

inline Status StepNic::post(std::span<const nic::DeferredOp> ops) {
  const std::lock_guard lock(fabric_.mutex_);
  for (const nic::DeferredOp& op : ops) {
    LANYARD_RETURN_IF_ERROR(check(op.op));
    LANYARD_RETURN_IF_ERROR(model_.validate(op));
  }
  if (ops.size() > caps_.deferred_depth)
    return {Code::kExhausted, "more than there are"};
  if (ops.size() > model_.free_entries())
    return {Code::kAgain, "more than are free"};
  for (const nic::DeferredOp& op : ops)
    model_.post(op);
  return {};
}
inline Status StepNic::issue(const nic::Op& op) {
  const std::lock_guard lock(fabric_.mutex_);
  LANYARD_RETURN_IF_ERROR(check(op));
  if (!model_.room_in_flight())
    return {Code::kAgain, "too many are under way"};
  launch(model_.issue(op));
  return {};
}
inline uint32_t StepNic::free_entries() const {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.free_entries();
}
inline Status StepNic::cancel(nic::CounterId trigger) {
  const std::lock_guard lock(fabric_.mutex_);
  if (!model_.is_open(trigger))
    return {Code::kNotFound, "no such counter is open"};
  model_.cancel(trigger);
  return {};
}
inline Status StepNic::flush() {
  const std::lock_guard lock(fabric_.mutex_);
  model_.flush();
  return {};
}
inline size_t StepNic::progress() {
  const std::lock_guard lock(fabric_.mutex_);
  return fabric_.progress_of(rank_);
}
inline std::optional<nic::FailureRecord> StepNic::take_failure() {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.take_failure();
}
inline nic::Usage StepNic::usage() const {
  const std::lock_guard lock(fabric_.mutex_);
  return {.counters = model_.open_counters(), .regions = model_.open_regions()};
}
inline uint64_t StepNic::failures() const {
  const std::lock_guard lock(fabric_.mutex_);
  return model_.failures();
}

inline void StepNic::launch(const std::optional<nicsim::Launch>& launch) {
  if (launch)
    fabric_.transits_.push_back({rank_, launch->peer, launch->packet, launch->payload});
}

// The last step of a packet.
inline void StepNic::deliver(const Transit& transit) {
  const nicsim::Packet& packet = transit.packet;
  if (packet.kind == nicsim::PacketKind::kAck)
    return model_.complete(packet);
  uint64_t old = transit.old;
  if (transit.stage != Transit::Stage::kPlaced) {
    const nicsim::Landing landing = model_.locate(packet);
    if (landing.code != Code::kOk)
      return answer(transit, landing.code, 0);
    if (packet.kind == nicsim::PacketKind::kAtomic)
      old = nicsim::apply_atomic(landing.address, packet);
    else if (transit.payload != nullptr)
      std::memmove(landing.address, transit.payload, packet.bytes);
  }
  model_.landed(packet);
  answer(transit, Code::kOk, old);
}

// A step of a packet that goes by stages; true where the last one, deliver(), is next.
inline bool StepNic::advance(Transit& transit) {
  const nicsim::Packet& packet = transit.packet;
  if (packet.kind == nicsim::PacketKind::kAck || transit.stage == Transit::Stage::kPlaced)
    return true;
  if (transit.stage == Transit::Stage::kStart && transit.payload != nullptr) {
    transit.bytes.assign(transit.payload, transit.payload + packet.bytes);
    transit.stage = Transit::Stage::kCarried;
    return false;
  }
  const nicsim::Landing landing = model_.locate(packet);
  if (landing.code != Code::kOk)
    return true;  // deliver() says no once more
  if (packet.kind == nicsim::PacketKind::kAtomic)
    transit.old = nicsim::apply_atomic(landing.address, packet);
  else if (!transit.bytes.empty())
    std::memcpy(landing.address, transit.bytes.data(), transit.bytes.size());
  transit.stage = Transit::Stage::kPlaced;
  return false;
}

inline void StepNic::answer(const Transit& transit, Code code, uint64_t old) {
  const nicsim::Packet ack{
      .kind = nicsim::PacketKind::kAck, .code = code, .source = rank_, .token = transit.packet.token, .operand = old};
  fabric_.transits_.push_back({rank_, transit.from, ack});
}

}  // namespace lanyard

#endif  // LANYARD_TESTS_CORE_STEP_FABRIC_H_
