#include "nicsim/threaded/threaded_nic.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "transport/base/check.h"
#include "transport/base/service_thread.h"

namespace lanyard::nicsim {

using nic::CounterId;
using nic::DeferredOp;
using nic::Op;
using nic::RegionId;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

using Kind = TraceEvent::Kind;

// Beyond the entries, room for rings and issued operations that the driver has not seen yet.
constexpr uint32_t kSpareCommands = 1024;

// How often a doorbell word is looked at while nobody drives and little is to be expected.
constexpr microseconds kDoorbellPeriod{50};
// After something happened the owner naps for a while before it sleeps without limit, so that posting to a warm NIC
// makes no system call.
constexpr milliseconds kNap{1};
constexpr milliseconds kWarmFor{100};
constexpr int kIdleRounds = 32;
// How often deregister_region() looks for the end of what is landing, and how long a message that is landing may stand
// still then before it is given up.
constexpr milliseconds kLandingNap{1};
constexpr milliseconds kStandstill{1000};
constexpr int kMostStuck = 4;  // looks at one that cannot be given up

Status no_peer() { return {Code::kNotFound, "no such peer"}; }

}  // namespace

class ThreadedNic::Driving {
 public:
  explicit Driving(ThreadedNic& nic) : nic_(nic) {
    while (!nic_.try_drive())
      sched_yield();
    nic_.publish(nic_.run_commands());  // what was posted before this call counts
  }
  ~Driving() {
    nic_.stop_driving();
    nic_.progress();  // whatever the call made ready
  }
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;

 private:
  ThreadedNic& nic_;
};

ThreadedNic::ThreadedNic(const ModelLimits& limits, std::unique_ptr<Wire> wire, const ThreadedOptions& options)
    : mover_(options.memory == nullptr ? nullptr : new DeviceMover(*options.memory, limits, *this)),
      wire_(std::move(wire)),
      trace_(options.trace),
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
  caps_.fetching_atomics = true;
  caps_.deferred_counter_ops = true;
  caps_.flush = true;
  caps_.cancel = true;
  caps_.counter_write_back = true;
  caps_.target_count_means_visible = true;
  caps_.device_memory = mover_ != nullptr;
  caps_.watches_peers = true;
}

ThreadedNic::~ThreadedNic() {
  stopping_.store(true);
  wire_->wake(Wire::Sleeper::kOwner);
  if (owner_.joinable())
    owner_.join();
}

void ThreadedNic::set_witness(Witness* witness) {
  Driving driving(*this);
  model_.set_witness(witness);
}

Status ThreadedNic::set_peers(std::span<const nic::Address> peers, uint32_t self) {
  Driving driving(*this);
  if (peer_count_.load() != 0)
    return {Code::kInvalidState, "the peers are known already"};
  if (self >= peers.size() || peers[self].bytes != wire_->address().bytes)
    return {Code::kInvalidArgument, "the NIC's own address does not stand at its own rank"};
  LANYARD_RETURN_IF_ERROR(wire_->set_peers(peers, self));
  self_ = self;
  model_.set_self(self);
  if (mover_ != nullptr) {
    std::vector<bool> share_host;
    for (uint32_t rank = 0; rank < peers.size(); ++rank)
      share_host.push_back(wire_->shares_host(rank));
    mover_->set_peers(std::move(share_host));
  }
  lost_ = std::make_unique<std::atomic<bool>[]>(peers.size());
  peer_count_.store(static_cast<uint32_t>(peers.size()));
  return {};
}

// Rings are not limited by credits, so that the queue can be full; then the pusher helps to empty it.
template <typename Fill>
void ThreadedNic::push(Fill fill) {
  while (!commands_.push_filled(fill)) {
    if (progress() == 0)
      sched_yield();
  }
}

// ---- Counters and regions

Result<CounterId> ThreadedNic::open_counter() {
  LANYARD_RETURN_IF_ERROR(start_owner());
  Driving driving(*this);
  Result<CounterId> counter = model_.open_counter();
  if (!counter.ok())
    return counter;
  if (trace_ != nullptr)
    trace_->write({.kind = Kind::kOpened, .counter = counter.value()});
  return counter;
}

Status ThreadedNic::close_counter(CounterId counter) {
  Driving driving(*this);
  if (listener_.call != nullptr && counter == listened_)
    return {Code::kInvalidState, "somebody listens to the counter"};
  LANYARD_RETURN_IF_ERROR(model_.close_counter(counter));
  words_.take_back(counter);
  armed_count_.store(words_.handed_out());
  if (trace_ != nullptr)
    trace_->write({.kind = Kind::kClosed, .counter = counter});
  return {};
}

Result<nic::CounterValue> ThreadedNic::read(CounterId counter) {
  Driving driving(*this);
  publish(read_doorbells());  // what was rung before this call counts
  const Result<nic::CounterValue> value = model_.read(counter);
  model_.want_copy(counter);
  if (trace_ != nullptr && value.ok())
    trace_->write(
        {.kind = Kind::kRead, .counter = counter, .value = value.value().success, .failures = value.value().failure});
  return value;
}

Status ThreadedNic::add(CounterId counter, uint64_t value) {
  Driving driving(*this);
  LANYARD_RETURN_IF_ERROR(model_.add(counter, value));
  if (trace_ != nullptr)
    trace_->write({.kind = Kind::kAdded, .counter = counter, .value = value});
  return {};
}

Status ThreadedNic::add_error(CounterId counter, uint32_t value) {
  Driving driving(*this);
  LANYARD_RETURN_IF_ERROR(model_.add_error(counter, value));
  if (trace_ != nullptr)
    trace_->write({.kind = Kind::kAddedFailures, .counter = counter, .failures = value});
  return {};
}

Status ThreadedNic::reset(CounterId counter) {
  Driving driving(*this);
  LANYARD_RETURN_IF_ERROR(model_.reset(counter));
  if (trace_ != nullptr)
    trace_->write({.kind = Kind::kReset, .counter = counter});
  return {};
}

Status ThreadedNic::set(CounterId counter, uint64_t value) {
  Driving driving(*this);
  return model_.set(counter, value);
}

Status ThreadedNic::set_error(CounterId counter, uint32_t value) {
  Driving driving(*this);
  return model_.set_error(counter, value);
}

Status ThreadedNic::set_word(CounterId counter, uint64_t* word) {
  Driving driving(*this);
  return model_.set_word(counter, word);
}

// Who calls a listener has the right to drive, so nobody is calling it now.
Status ThreadedNic::listen(CounterId counter, nic::Listener listener) {
  Driving driving(*this);
  if (!model_.is_open(counter))
    return {Code::kNotFound, "no such counter is open"};
  if (listener.call != nullptr && listener_.call != nullptr)
    return {Code::kInvalidState, "somebody listens already"};
  listened_ = listener.call != nullptr ? counter : CounterId();
  listener_ = listener;
  heard_ = false;
  return {};
}

Result<nic::Doorbell> ThreadedNic::doorbell(CounterId counter, nic::DoorbellKind kind) {
  Driving driving(*this);
  if (!model_.is_open(counter))
    return Status(Code::kNotFound, "no such counter is open");
  nic::Doorbell bell{.kind = kind, .counter = counter.value};
  switch (kind) {
    case nic::DoorbellKind::kMmioAdd:
      return Status(Code::kUnsupported, "a simulated NIC has no memory-mapped registers");
    case nic::DoorbellKind::kAtomicAdd:
      bell.word = words_.hand_out(counter);
      armed_count_.store(words_.handed_out());
      wire_->wake(Wire::Sleeper::kOwner);  // it has something to look at from now on
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
  const Result<int> device = mover_ == nullptr ? DeviceMemory::kHost : mover_->device_of(base, bytes);
  if (!device.ok())
    return device.status();
  LANYARD_RETURN_IF_ERROR(start_owner());
  Driving driving(*this);
  const Result<RegionId> region = model_.register_region(base, bytes, remote_write, options);
  if (mover_ != nullptr && region.ok())
    mover_->add_region(region.value(), base, bytes, device.value());
  if (trace_ != nullptr && region.ok())
    trace_->write(
        {.kind = Kind::kRegistered, .counter = remote_write, .value = model_.key(region.value()).value().value});
  return region;
}

// Waits for the rest of messages that are landing, and for devices that still read for a peer that has gone. Others
// drive meanwhile: a sender may stand still for as long as it likes. What has not grown for a while is given up.
Status ThreadedNic::deregister_region(RegionId region) {
  Result<nic::RemoteKey> key = Status(Code::kNotFound, "not yet looked for");
  Status status;
  {
    Driving driving(*this);
    key = model_.key(region);
    if (!key.ok())
      return key.status();
    status = remove_region(region, key.value());
  }
  steady_clock::time_point next_look = steady_clock::now();
  int stuck = 0;
  while (status.code() == Code::kAgain) {
    const uint64_t seen = activity();
    if (progress() == 0)
      wait_since(seen, kLandingNap);
    Driving driving(*this);
    status = remove_region(region, key.value());
    if (status.code() != Code::kAgain || steady_clock::now() < next_look)
      continue;
    next_look = steady_clock::now() + kStandstill;
    stuck = wire_->give_up_stalled(key.value().value, *this) ? 0 : stuck + 1;
    if (stuck < kMostStuck)
      continue;
    model_.keep_region(region);
    return {Code::kTimedOut, "a process that stands still may be writing into the region: repeat once it goes on"};
  }
  return status;
}

// kAgain while something touches the memory; nothing new does then.
Status ThreadedNic::remove_region(RegionId region, nic::RemoteKey key) {
  const bool busy = mover_ != nullptr && mover_->is_busy(region);
  LANYARD_RETURN_IF_ERROR(model_.deregister_region(region, busy));
  if (mover_ != nullptr)
    mover_->remove_region(region);
  if (trace_ != nullptr)
    trace_->write({.kind = Kind::kDeregistered, .value = key.value});
  return {};
}

Result<nic::RemoteKey> ThreadedNic::key(RegionId region) const {
  Driving driving(const_cast<ThreadedNic&>(*this));
  return model_.key(region);
}

nic::Usage ThreadedNic::usage() const {
  Driving driving(const_cast<ThreadedNic&>(*this));
  return {.counters = model_.open_counters(), .regions = model_.open_regions()};
}

std::optional<nic::FailureRecord> ThreadedNic::take_failure() {
  Driving driving(*this);
  return model_.take_failure();
}

// ---- Posting

Status ThreadedNic::post(std::span<const DeferredOp> ops) {
  for (const DeferredOp& op : ops) {
    if (!reaches(op.op))
      return no_peer();
    LANYARD_RETURN_IF_ERROR(model_.validate(op));
    LANYARD_RETURN_IF_ERROR(check_operands(op.op));
  }
  const auto wanted = static_cast<uint32_t>(ops.size());
  if (ops.size() > caps_.deferred_depth)
    return {Code::kExhausted,
            std::to_string(ops.size()) + " entries wanted, " + std::to_string(caps_.deferred_depth) + " exist"};
  uint32_t free = free_entries_.load(std::memory_order_relaxed);
  do {
    if (free < wanted)
      return {Code::kAgain, "too few deferred-work entries are free"};
  } while (!free_entries_.compare_exchange_weak(free, free - wanted, std::memory_order_relaxed));
  for (const DeferredOp& op : ops)
    push([&op](Command& command) {
      command.kind = Command::Kind::kPost;
      command.deferred = op;
    });
  wake_owner_if_asleep();
  return {};
}

// Requires a valid op.
Status ThreadedNic::check_operands(const Op& op) const {
  if (mover_ == nullptr || op.kind != nic::OpKind::kAtomic)
    return {};
  const bool fetches = op.atomic == nic::AtomicKind::kFetchSum || op.atomic == nic::AtomicKind::kCompareSwap;
  if (is_device(op.local.region) || (fetches && is_device(op.fetch.region)))
    return {Code::kUnsupported, "the operands and results of atomics lie in host memory"};
  return {};
}

Status ThreadedNic::issue(const Op& op) {
  if (!reaches(op))
    return no_peer();
  LANYARD_RETURN_IF_ERROR(model_.validate(op));
  LANYARD_RETURN_IF_ERROR(check_operands(op));
  uint32_t free = free_issues_.load(std::memory_order_relaxed);
  do {
    if (free == 0)
      return {Code::kAgain, "too many operations are under way"};
  } while (!free_issues_.compare_exchange_weak(free, free - 1, std::memory_order_relaxed));
  push([&op](Command& command) {
    command.kind = Command::Kind::kIssue;
    command.deferred.op = op;
  });
  wake_owner_if_asleep();
  return {};
}

// A trace knows nothing of it.
Status ThreadedNic::cancel(CounterId trigger) {
  Driving driving(*this);
  if (!model_.is_open(trigger))
    return {Code::kNotFound, "no such counter is open"};
  const uint32_t before = model_.free_entries();
  model_.cancel(trigger);
  free_entries_.fetch_add(model_.free_entries() - before, std::memory_order_relaxed);
  return {};
}

Status ThreadedNic::flush() {
  Driving driving(*this);
  const uint32_t before = model_.free_entries();
  model_.flush();
  if (trace_ != nullptr)
    trace_->write({.kind = Kind::kFlushed});
  free_entries_.fetch_add(model_.free_entries() - before, std::memory_order_relaxed);
  return {};
}

// ---- Driving

bool ThreadedNic::try_drive() {
  return !driven_.load(std::memory_order_seq_cst) && !driven_.exchange(true, std::memory_order_seq_cst);
}

void ThreadedNic::stop_driving() { driven_.store(false, std::memory_order_seq_cst); }

size_t ThreadedNic::progress() {
  size_t steps = 0;
  while (try_drive()) {
    steps += drive();
    stop_driving();
    // A command pushed by a thread that found this one driving is this one's to run.
    if (commands_.empty())
      break;
  }
  return steps;
}

size_t ThreadedNic::drive() {
  size_t steps = 0;
  size_t round = 0;
  do {
    round = run_commands() + read_doorbells() + fire_ready();
    steps += round;
  } while (round > 0);
  steps += wire_->poll(*this);
  if (mover_ != nullptr)
    steps += mover_->poll();
  steps += fire_ready();
  steps += copy_words();
  watch_moves();
  publish(steps);
  if (heard_) [[unlikely]]
    tell_listener();
  return steps;
}

// After publish(): whoever it wakes finds the counter as it is.
void ThreadedNic::tell_listener() {
  heard_ = false;
  listener_.call(listener_.object);
}

// A copy that has been started wakes nobody when it ends: where nobody attends, the NIC's own thread is to look.
void ThreadedNic::watch_moves() {
  const bool moving = mover_ != nullptr && mover_->busy();
  if (moving == moving_.load(std::memory_order_relaxed))
    return;
  moving_.store(moving, std::memory_order_seq_cst);
  if (moving && attending_.load(std::memory_order_seq_cst) == 0)
    wire_->wake(Wire::Sleeper::kOwner);
}

// What others read or sleep for without driving.
void ThreadedNic::publish(size_t steps) {
  if (steps == 0)
    return;
  activity_.fetch_add(1, std::memory_order_seq_cst);
  failures_.store(model_.failures(), std::memory_order_release);
  under_way_.store(model_.in_flight() > 0 || model_.held() > 0, std::memory_order_relaxed);
  wire_->wake(Wire::Sleeper::kHelper);
}

size_t ThreadedNic::run_commands() {
  size_t steps = 0;
  while (const Command* command = commands_.front()) {
    switch (command->kind) {
      case Command::Kind::kPost:
        if (trace_ != nullptr)
          trace_->write({.kind = Kind::kPosted,
                         .counter = command->deferred.trigger,
                         .value = command->deferred.threshold,
                         .op = command->deferred.op});
        model_.post(command->deferred);
        break;
      case Command::Kind::kIssue:
        if (trace_ != nullptr)
          trace_->write({.kind = Kind::kIssued, .op = command->deferred.op});
        model_.hold(command->deferred.op);
        break;
      case Command::Kind::kRing: ring(command->deferred.trigger, command->deferred.threshold); break;
    }
    commands_.pop();
    ++steps;
  }
  return steps;
}

size_t ThreadedNic::read_doorbells() {
  return words_.read([this](CounterId counter, uint64_t value) { ring(counter, value); });
}

void ThreadedNic::ring(CounterId counter, uint64_t value) {
  if (trace_ != nullptr)
    trace_->write({.kind = Kind::kRang, .counter = counter, .value = value});
  model_.ring(counter, value);
}

size_t ThreadedNic::fire_ready() {
  size_t steps = 0;
  while (model_.held() > 0 && model_.room_in_flight()) {
    if (trace_ != nullptr)
      trace_->write({.kind = Kind::kStarted});
    const std::optional<Launch> launch = model_.start_held();
    free_issues_.fetch_add(1, std::memory_order_relaxed);
    if (launch)
      carry(*launch);
    ++steps;
  }
  while (const std::optional<uint32_t> entry = model_.ready()) {
    // Whoever sees what this entry does sees the failures that came before it.
    failures_.store(model_.failures(), std::memory_order_release);
    if (trace_ != nullptr)
      trace_->write({.kind = Kind::kFired,
                     .counter = model_.trigger_of(*entry),
                     .value = model_.threshold_of(*entry),
                     .op = model_.op_of(*entry)});
    const std::optional<Launch> launch = model_.fire(*entry);
    free_entries_.fetch_add(1, std::memory_order_relaxed);
    if (launch)
      carry(*launch);
    ++steps;
  }
  return steps;
}

size_t ThreadedNic::copy_words() {
  const size_t steps = model_.wanted_copies().size();
  // As in fire_ready(): whoever sees the word sees the failures that came before it.
  if (steps > 0)
    failures_.store(model_.failures(), std::memory_order_release);
  while (!model_.wanted_copies().empty())
    model_.copy_out({model_.wanted_copies().back()});
  return steps;
}

// To this NIC itself at once, to another over the wire, and from or to device memory by and by.
void ThreadedNic::carry(const Launch& launch) {
  if (trace_ != nullptr)
    trace_->set_token(launch.packet.token);
  const nic::LocalSpan from = model_.under_way(launch.packet.token).local;
  const bool from_device = launch.payload != nullptr && is_device(from.region);
  if (launch.peer != self_) {
    if (from_device)
      mover_->send(launch.peer, launch.packet, from);
    else
      wire_->send(launch.peer, launch.packet, launch.payload);
    return;
  }
  if (launch.packet.kind == PacketKind::kAtomic) {
    complete(apply(launch.packet));
    return;
  }
  Packet ack{.kind = PacketKind::kAck, .source = self_, .token = launch.packet.token};
  const Landing landing = model_.locate(launch.packet);
  ack.code = landing.code;
  if (landing.code == Code::kOk) {
    if (from_device || (launch.payload != nullptr && is_device(landing.region)))
      return mover_->move(launch.packet, from, landing);
    if (launch.payload != nullptr)
      std::memmove(landing.address, launch.payload, launch.packet.bytes);
    count(launch.packet);
  }
  complete(ack);
}

void ThreadedNic::complete(const Packet& ack) {
  if (mover_ != nullptr)
    mover_->acknowledged(ack.token);
  if (trace_ != nullptr)
    trace_->write({.kind = Kind::kCompleted, .code = ack.code, .peer = ack.source, .token = ack.token});
  model_.complete(ack);
}

// ---- Arrivals

std::byte* ThreadedNic::place(const Packet& packet) {
  const Landing landing = model_.locate(packet);
  if (landing.code != Code::kOk) {
    answer(packet, landing.code);
    return nullptr;
  }
  if (packet.bytes == 0 || !is_device(landing.region))
    return landing.address;
  const Result<std::byte*> staging = mover_->place(packet, landing);
  if (staging.ok())
    return staging.value();
  model_.abandoned(packet);
  answer(packet, staging.status().code());
  return nullptr;
}

void ThreadedNic::landed(const Packet& packet, bool placed) {
  if (!placed)
    return;  // place() has answered
  if (mover_ == nullptr || !mover_->landed(packet))
    moved(packet, Code::kOk);
}

// Before the answer, so that the initiator's completion comes later in the trace too.
void ThreadedNic::count(const Packet& packet) {
  const CounterId counter = model_.counter_of(packet);
  if (trace_ != nullptr)
    trace_->write({.kind = Kind::kArrived, .counter = counter, .peer = packet.source, .token = packet.token});
  model_.landed(packet);
  if (counter == listened_ && counter.valid())
    heard_ = true;
}

void ThreadedNic::abandoned(const Packet& packet, Code code) {
  if (mover_ != nullptr)
    mover_->abandoned(packet);
  model_.abandoned(packet);
  if (code != Code::kFailed)
    answer(packet, code);
}

Packet ThreadedNic::apply(const Packet& packet) {
  Packet ack{.kind = PacketKind::kAck, .source = self_, .token = packet.token};
  const Landing landing = model_.locate(packet);
  ack.code = landing.code;
  if (landing.code != Code::kOk)
    return ack;
  if (is_device(landing.region)) {
    model_.abandoned(packet);
    ack.code = Code::kUnsupported;
    return ack;
  }
  ack.operand = apply_atomic(landing.address, packet);
  count(packet);
  return ack;
}

void ThreadedNic::atomic_arrived(const Packet& packet) { wire_->send(packet.source, apply(packet), nullptr); }

// What makes no sense is dropped: other processes write the wire's memory.
void ThreadedNic::ack_arrived(const Packet& packet) {
  if (model_.awaits(packet) && (mover_ == nullptr || !mover_->is_staging(packet.token)))
    complete(packet);
}

void ThreadedNic::pull_arrived(const Packet& packet, const std::byte* loan) {
  const Landing landing = model_.locate(packet);
  if (landing.code != Code::kOk)
    return answer(packet, landing.code);
  if (mover_ != nullptr && mover_->pull(packet, landing, loan))
    return;
  model_.abandoned(packet);
  wire_->send(packet.source, {.kind = PacketKind::kCannotPull, .source = self_, .token = packet.token}, nullptr);
}

void ThreadedNic::pull_refused(const Packet& packet) {
  if (mover_ != nullptr)
    mover_->pull_refused(packet);
}

void ThreadedNic::peer_lost(uint32_t peer) {
  if (trace_ != nullptr)
    trace_->write({.kind = Kind::kPeerLost, .peer = peer});
  if (mover_ != nullptr)
    mover_->peer_lost(peer);
  // Whoever sees an operation fail for this sees the cause.
  lost_[peer].store(true, std::memory_order_release);
  lost_count_.fetch_add(1, std::memory_order_release);
  model_.lose_peer(peer);
}

// ---- Moves of device memory

void ThreadedNic::transmit(uint32_t peer, const Packet& packet, const std::byte* payload) {
  wire_->send(peer, packet, payload);
}

void ThreadedNic::not_sent(uint32_t peer, const Packet& packet, Code code) {
  complete({.kind = PacketKind::kAck, .code = code, .source = peer, .token = packet.token});
}

// All of a message is where it was to go, or will never be.
void ThreadedNic::moved(const Packet& packet, Code code) {
  if (code == Code::kOk)
    count(packet);
  else
    model_.abandoned(packet);
  if (packet.source == self_)
    ack_arrived({.kind = PacketKind::kAck, .code = code, .source = self_, .token = packet.token});
  else
    answer(packet, code);
}

void ThreadedNic::answer(const Packet& packet, Code code) {
  const Packet ack{.kind = PacketKind::kAck, .code = code, .source = self_, .token = packet.token};
  wire_->send(packet.source, ack, nullptr);
}

// ---- Sleep

bool ThreadedNic::idle() const { return commands_.empty(); }

// Something that a ring may set off, or that will end.
bool ThreadedNic::has_work() const {
  return free_entries_.load(std::memory_order_relaxed) < caps_.deferred_depth ||
         under_way_.load(std::memory_order_relaxed);
}

void ThreadedNic::wait_since(uint64_t seen, Nanoseconds timeout) {
  // Doorbell words and devices wake nobody.
  const bool watches = armed_count_.load() > 0 || moving_.load();
  const Nanoseconds limit = watches ? std::min<Nanoseconds>(timeout, kDoorbellPeriod) : timeout;
  // The wire asks this once the sleeper can be seen by publish(): one of the two sees the other.
  struct Since {
    const ThreadedNic* nic;
    uint64_t seen;
  } since{this, seen};
  const auto nothing_happened = [](void* object) {
    const auto* since = static_cast<Since*>(object);
    return since->nic->idle() && since->nic->activity() == since->seen;
  };
  wire_->sleep(Wire::Sleeper::kHelper, limit, nothing_happened, &since);
}

void ThreadedNic::attend() {
  attending_.fetch_add(1);
  wire_->attend();
}

void ThreadedNic::leave() {
  wire_->leave();
  attending_.fetch_sub(1);
  progress();  // what arrived while this thread attended woke nobody
  if (moving_.load(std::memory_order_seq_cst) || armed_count_.load() > 0)
    wake_owner_if_asleep();
}

void ThreadedNic::wake_owner_if_asleep() {
  if (owner_asleep_.load(std::memory_order_seq_cst) && attending_.load(std::memory_order_seq_cst) == 0)
    wire_->wake(Wire::Sleeper::kOwner);
}

Status ThreadedNic::start_owner() {
  const std::lock_guard lock(owner_mutex_);
  if (owner_.joinable())
    return {};
  Result<std::thread> owner = start_service_thread("lanyard-nic", [this] { run_owner(); });
  if (!owner.ok())
    return owner.status();
  owner_ = std::move(owner.value());
  return {};
}

void ThreadedNic::run_owner() {
  uint64_t seen_activity = 0;
  steady_clock::time_point warm_until = steady_clock::now() + kWarmFor;
  steady_clock::time_point spin_until = steady_clock::now();
  int idle_rounds = 0;
  while (!stopping_.load()) {
    const bool attended = attending_.load() > 0;
    const size_t steps = progress();
    if (attended) {
      sched_yield();  // who attends may want this very core
    } else if (steps > 0 || ++idle_rounds < kIdleRounds) {
      idle_rounds = steps > 0 ? 0 : idle_rounds;
      sched_yield();
      continue;
    }
    if (const uint64_t activity = activity_.load(std::memory_order_relaxed); activity != seen_activity) {
      seen_activity = activity;
      warm_until = steady_clock::now() + kWarmFor;
      spin_until = steady_clock::now() + spin_for_;
    }
    const bool moving = moving_.load();
    const bool watches = moving || armed_count_.load() > 0;
    if (!attended && (moving || (watches && has_work())) && steady_clock::now() < spin_until) {
      sched_yield();
      continue;
    }
    idle_rounds = 0;
    const auto still_idle = [](void* object) {
      auto* nic = static_cast<ThreadedNic*>(object);
      return !nic->stopping_.load() && (nic->idle() || nic->attending_.load() > 0);
    };
    const auto nothing_to_watch = [](void* object) {
      auto* nic = static_cast<ThreadedNic*>(object);
      return !nic->stopping_.load() &&
             ((nic->idle() && !nic->moving_.load() && nic->armed_count_.load() == 0) || nic->attending_.load() > 0);
    };
    if (watches) {
      wire_->sleep(Wire::Sleeper::kOwner, kDoorbellPeriod, still_idle, this);
    } else if (steady_clock::now() < warm_until) {
      wire_->sleep(Wire::Sleeper::kOwner, kNap, nothing_to_watch, this);
    } else {
      owner_asleep_.store(true, std::memory_order_seq_cst);
      wire_->sleep(Wire::Sleeper::kOwner, std::chrono::hours(1), nothing_to_watch, this);
      owner_asleep_.store(false, std::memory_order_relaxed);
    }
  }
}

}  // namespace lanyard::nicsim
