#include "nicsim/threaded/threaded_nic.h"

#include <algorithm>
#include <string>

#include "transport/nic/driver.h"

namespace lanyard::nicsim {

using nic::CounterId;
using nic::DeferredOp;
using nic::Op;
using nic::RegionId;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// Room for rings and issued operations that the driver has not run yet, beside the entries.
constexpr uint32_t kSpareCommands = 1024;

// kLandingNap: the interval at which deregister_region() checks messages that are landing.
// kStandstill: one that has not grown for so long is given up.
constexpr milliseconds kLandingNap{1};
constexpr milliseconds kStandstill{1000};
constexpr int kMostStuck = 4;  // checks of a message that cannot be given up

}  // namespace

ThreadedNic::ThreadedNic(const ModelLimits& limits, std::unique_ptr<Wire> wire, const ThreadedOptions& options)
    : mover_(options.memory == nullptr ? nullptr : new DeviceMover(*options.memory, limits, *this)),
      wire_(std::move(wire)),
      model_(limits, 0),
      commands_(limits.deferred_depth + kSpareCommands),
      free_entries_(limits.deferred_depth),
      free_issues_(limits.max_held),
      words_(limits.max_counters),
      spin_for_(options.spin_for) {
  caps_.name = std::string("sim/") + wire_->name();
  caps_.provider = "lanyard nicsim, threaded engine";
  caps_.deferred_depth = limits.deferred_depth;
  caps_.max_counters = limits.max_counters;
  caps_.max_regions = limits.max_regions;
  caps_.max_message_bytes = limits.max_message_bytes;
  caps_.doorbell_atomic_add = caps_.doorbell_totals = true;
  caps_.doorbell_host_call = true;
  caps_.flush = true;
  caps_.cancel = true;
  caps_.target_count_means_visible = true;
  caps_.counters_count_both = true;
  caps_.device_memory = mover_ != nullptr;
  caps_.watches_peers = true;
}

ThreadedNic::~ThreadedNic() {
  stopping_.store(true);
  wire_->wake(Wire::Sleeper::kOwner);
  if (owner_.joinable())
    owner_.join();
}

Status ThreadedNic::set_peers(std::span<const nic::Address> peers, uint32_t self) {
  Driving driving(*this);
  LANYARD_RETURN_IF_ERROR(wire_->set_peers(peers, self));
  self_ = self;
  model_.set_self(self);
  if (mover_ != nullptr)
    mover_->set_peers(peers.size());
  lost_ = std::make_unique<std::atomic<bool>[]>(peers.size());
  known_ = std::make_unique<std::atomic<bool>[]>(peers.size());
  why_lost_.resize(peers.size());
  peer_count_.store(static_cast<uint32_t>(peers.size()));
  for (uint32_t rank = 0; rank < peers.size(); ++rank)
    if (!peers[rank].bytes.empty())
      knows(rank);
  return {};
}

Status ThreadedNic::add_peer(uint32_t peer, const nic::Address& address) {
  Driving driving(*this);
  if (peer >= peer_count_.load())
    return {Code::kInvalidArgument, "no such peer"};
  if (known_[peer].load())
    return {Code::kInvalidState, "the peer's address is known already"};
  LANYARD_RETURN_IF_ERROR(wire_->add_peer(peer, address));
  knows(peer);
  return {};
}

void ThreadedNic::knows(uint32_t peer) {
  if (mover_ != nullptr && wire_->shares_host(peer))
    mover_->shares_host(peer);
  known_[peer].store(true);
}

// ---- Counters and regions

Result<CounterId> ThreadedNic::open_counter() {
  LANYARD_RETURN_IF_ERROR(start_owner());
  return Driving(*this, Driving::Afterwards::kLittle)->open_counter();
}

Status ThreadedNic::close_counter(CounterId counter) {
  Driving driving(*this);
  if (listener_.call != nullptr && counter == listened_)
    return {Code::kInvalidState, "the counter has a listener"};
  LANYARD_RETURN_IF_ERROR(model_.close_counter(counter));
  words_.take_back(counter);
  armed_count_.store(words_.handed_out());
  return {};
}

Result<nic::CounterValue> ThreadedNic::read(CounterId counter) {
  Driving driving(*this);
  publish(read_doorbells());  // includes what was rung before this call
  return model_.read(counter);
}

// The caller of a listener has the right to drive, so the listener is not running now.
Status ThreadedNic::listen(CounterId counter, nic::Listener listener) {
  Driving driving(*this);
  if (!model_.is_open(counter))
    return nic::no_counter();
  if (listener.call != nullptr && listener_.call != nullptr)
    return {Code::kInvalidState, "the NIC has a listener already"};
  listened_ = listener.call != nullptr ? counter : CounterId();
  listener_ = listener;
  heard_ = false;
  return {};
}

Result<nic::Doorbell> ThreadedNic::doorbell(CounterId counter, nic::DoorbellKind kind) {
  Driving driving(*this);
  if (!model_.is_open(counter))
    return nic::no_counter();
  nic::Doorbell bell{.kind = kind, .counter = counter.value};
  switch (kind) {
    case nic::DoorbellKind::kMmioAdd:
      return Status(Code::kUnsupported, "a simulated NIC has no memory-mapped registers");
    case nic::DoorbellKind::kAtomicAdd:
      bell.word = words_.hand_out(counter);
      armed_count_.store(words_.handed_out());
      wire_->wake(Wire::Sleeper::kOwner);  // from now on it must poll this word
      return bell;
    case nic::DoorbellKind::kHostCall:
      bell.object = this;
      bell.call = [](void* object, uint32_t which, uint64_t value) {
        auto* nic = static_cast<ThreadedNic*>(object);
        nic->push([which, value](Command& command) {
          command.kind = Command::Kind::kRing;
          command.deferred.trigger = {which};
          command.deferred.threshold = value;
        });
        nic->progress();
      };
      return bell;
  }
  return Status(Code::kInvalidArgument, "no such kind of doorbell");
}

Result<RegionId> ThreadedNic::register_region(void* base, uint64_t bytes, CounterId remote_write,
                                              const RegionOptions& options) {
  int device = DeviceMemory::kHost;
  if (mover_ != nullptr) {
    LANYARD_ASSIGN_OR_RETURN(device, mover_->device_of(base, bytes));
  }
  LANYARD_RETURN_IF_ERROR(start_owner());
  Driving driving(*this, Driving::Afterwards::kLittle);
  LANYARD_ASSIGN_OR_RETURN(const RegionId region, model_.register_region(base, bytes, remote_write, options));
  if (mover_ != nullptr)
    mover_->add_region(region, base, bytes, device);
  return region;
}

// Waits until messages have landed and devices have stopped reading for a lost peer. Other threads
// may drive meanwhile, as a sender may stall for long. Gives up messages that have stopped growing.
Status ThreadedNic::deregister_region(RegionId region) {
  nic::RemoteKey key;
  Status status;
  {
    Driving driving(*this);
    LANYARD_ASSIGN_OR_RETURN(key, model_.key(region));
    status = remove_region(region);
  }
  steady_clock::time_point next_look = steady_clock::now();
  int stuck = 0;
  while (status.code() == Code::kAgain) {
    const uint64_t seen = activity();
    if (progress() == 0)
      wait_since(seen, kLandingNap);
    Driving driving(*this);
    status = remove_region(region);
    if (status.code() != Code::kAgain || steady_clock::now() < next_look)
      continue;
    next_look = steady_clock::now() + kStandstill;
    stuck = wire_->give_up_stalled(key.value, *this) ? 0 : stuck + 1;
    if (stuck < kMostStuck)
      continue;
    model_.keep_region(region);
    return {Code::kTimedOut, "a stalled process may be writing into the region: repeat the call once it runs again"};
  }
  return status;
}

// kAgain while something uses the memory; nothing new starts to use it.
Status ThreadedNic::remove_region(RegionId region) {
  const bool busy = mover_ != nullptr && mover_->is_busy(region);
  LANYARD_RETURN_IF_ERROR(model_.deregister_region(region, busy));
  if (mover_ != nullptr)
    mover_->remove_region(region);
  return {};
}

// ---- Posting: turns operations into commands for the driving thread, and counts the free entries

// `what` is the operation, or a deferred one of it.
template <typename What>
Status ThreadedNic::check(const Op& op, const What& what) const {
  if (!reaches(op))
    return {Code::kNotFound, "there is no peer " + std::to_string(op.remote.peer)};
  LANYARD_RETURN_IF_ERROR(model_.validate(what));
  if (op.kind == nic::OpKind::kAtomic && is_device(op.local.region))
    return {Code::kUnsupported, "the operand of an atomic must lie in host memory"};
  return {};
}

Status ThreadedNic::post(std::span<const DeferredOp> ops) {
  for (const DeferredOp& op : ops)
    LANYARD_RETURN_IF_ERROR(check(op.op, op));
  LANYARD_RETURN_IF_ERROR(take_entries(ops.size()));
  for (const DeferredOp& op : ops)
    push([&op](Command& command) {
      command.kind = Command::Kind::kPost;
      command.deferred = op;
    });
  wake_owner_if_asleep();
  return {};
}

// Takes all the entries or none (N6).
Status ThreadedNic::take_entries(size_t wanted) {
  if (nic::take(free_entries_, wanted)) [[likely]]
    return {};
  if (wanted > caps_.deferred_depth)
    return {Code::kExhausted,
            std::to_string(wanted) + " entries wanted, " + std::to_string(caps_.deferred_depth) + " exist"};
  return {Code::kAgain, "too few deferred-work entries are free"};
}

Result<nic::PreparedId> ThreadedNic::prepare(const Op& op) {
  Driving driving(*this, Driving::Afterwards::kLittle);
  LANYARD_RETURN_IF_ERROR(check(op, op));
  return model_.prepare(op);
}

Status ThreadedNic::post_prepared(std::span<const nic::Posting> postings) {
  for (const nic::Posting& posting : postings)
    LANYARD_RETURN_IF_ERROR(model_.validate(posting));
  LANYARD_RETURN_IF_ERROR(take_entries(postings.size()));
  constexpr size_t kMost = Command::kPostings;
  while (postings.size() >= kMost) {
    push([&](Command& command) {
      command.kind = Command::Kind::kPostPrepared;
      command.postings = kMost;
      std::copy_n(postings.begin(), kMost, command.posting);
    });
    postings = postings.subspan(kMost);
  }
  if (!postings.empty())
    push([&](Command& command) {
      command.kind = Command::Kind::kPostPrepared;
      command.postings = static_cast<uint32_t>(postings.size());
      std::copy(postings.begin(), postings.end(), command.posting);
    });
  wake_owner_if_asleep();
  return {};
}

Status ThreadedNic::issue(const Op& op) {
  LANYARD_RETURN_IF_ERROR(check(op, op));
  if (!nic::take(free_issues_, 1))
    return {Code::kAgain, "too many issued operations wait for room in flight"};
  push([&op](Command& command) {
    command.kind = Command::Kind::kIssue;
    command.deferred.op = op;
  });
  wake_owner_if_asleep();
  return {};
}

Status ThreadedNic::cancel(CounterId trigger) {
  Driving driving(*this);
  if (!model_.is_open(trigger))
    return nic::no_counter();
  const uint32_t before = model_.free_entries();
  model_.cancel(trigger);
  free_entries_.fetch_add(model_.free_entries() - before, std::memory_order_relaxed);
  return {};
}

Status ThreadedNic::flush() {
  Driving driving(*this);
  const uint32_t before = model_.free_entries();
  model_.flush();
  free_entries_.fetch_add(model_.free_entries() - before, std::memory_order_relaxed);
  return {};
}

// ---- Called by the driving thread

size_t ThreadedNic::run_commands() {
  size_t steps = 0;
  while (const Command* command = commands_.front()) {
    switch (command->kind) {
      case Command::Kind::kPost: model_.post(command->deferred); break;
      case Command::Kind::kPostPrepared:
        for (const nic::Posting& posting : std::span(command->posting, command->postings))
          model_.post(nic::deferred(*model_.prepared(posting.prepared), posting));
        break;
      case Command::Kind::kIssue: model_.hold(command->deferred.op); break;
      case Command::Kind::kRing: model_.ring(command->deferred.trigger, command->deferred.threshold); break;
    }
    commands_.pop();
    ++steps;
  }
  return steps;
}

}  // namespace lanyard::nicsim
