// The part of ThreadedNic that drives, handles arrivals, and sleeps. Driving fires entries, sends
// operations, and publishes what other threads read.
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "nicsim/threaded/threaded_nic.h"
#include "transport/base/service_thread.h"

namespace lanyard::nicsim {

using nic::CounterId;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// How often a sleeping thread looks at doorbell words and device copies.
constexpr microseconds kDoorbellPeriod{50};
// After a step the owner takes naps for a while before it sleeps without limit. So posting to a NIC
// in use makes no system call.
constexpr milliseconds kNap{1};
constexpr milliseconds kWarmFor{100};
constexpr int kIdleRounds = 32;

}  // namespace

size_t ThreadedNic::progress() {
  size_t steps = 0;
  while (right_.try_take()) {
    steps += drive();
    right_.give_back();
    // A command pushed by a thread that found this one driving must be run here.
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
  watch_moves();
  publish(steps);
  // After publish(): a thread that the listener wakes must find the counter up to date.
  if (heard_) [[unlikely]] {
    heard_ = false;
    listener_.call(listener_.object);
  }
  return steps;
}

// The end of a copy wakes no thread. If no thread polls, the NIC's own thread must watch it.
void ThreadedNic::watch_moves() {
  const bool moving = mover_ != nullptr && mover_->busy();
  if (moving == moving_.load(std::memory_order_relaxed))
    return;
  moving_.store(moving, std::memory_order_seq_cst);
  if (moving && attending_.load(std::memory_order_seq_cst) == 0)
    wire_->wake(Wire::Sleeper::kOwner);
}

// Publishes what other threads read without driving, and wakes the sleepers.
void ThreadedNic::publish(size_t steps) {
  if (steps == 0)
    return;
  activity_.fetch_add(1, std::memory_order_seq_cst);
  failures_.store(model_.failures(), std::memory_order_release);
  under_way_.store(model_.in_flight() > 0 || model_.held() > 0, std::memory_order_relaxed);
  wire_->wake(Wire::Sleeper::kHelper);
}

size_t ThreadedNic::read_doorbells() {
  return words_.read([this](CounterId counter, uint64_t value) {
    right_.assert_held();
    model_.ring(counter, value);
  });
}

size_t ThreadedNic::fire_ready() {
  size_t steps = 0;
  while (model_.held() > 0 && model_.room_in_flight()) {
    const std::optional<Launch> launch = model_.start_held();
    free_issues_.fetch_add(1, std::memory_order_relaxed);
    if (launch)
      carry(*launch);
    ++steps;
  }
  while (const std::optional<uint32_t> entry = model_.ready()) {
    // A thread that sees an effect of this entry must also see the failures before it (N13).
    failures_.store(model_.failures(), std::memory_order_release);
    const std::optional<Launch> launch = model_.fire(*entry);
    free_entries_.fetch_add(1, std::memory_order_relaxed);
    if (launch)
      carry(*launch);
    ++steps;
  }
  return steps;
}

// To this NIC itself: now. To a peer: over the wire. From or to device memory: by the
// mover, over several polls.
void ThreadedNic::carry(const Launch& launch) {
  const nic::LocalSpan from = model_.under_way(launch.packet.token).local;
  const bool from_device = launch.payload != nullptr && is_device(from.region);
  if (launch.peer != self_) {
    if (from_device)
      mover_->send(launch.peer, launch.packet, from);
    else
      wire_->send(launch.peer, launch.packet, launch.payload);
    return;
  }
  if (launch.packet.kind == PacketKind::kAtomic)
    return complete(apply(launch.packet));
  const Landing landing = model_.locate(launch.packet);
  if (landing.code == Code::kOk) {
    if (from_device || (launch.payload != nullptr && is_device(landing.region)))
      return mover_->move(launch.packet, from, landing);
    if (launch.payload != nullptr)
      std::memmove(landing.address, launch.payload, launch.packet.bytes);
    count(launch.packet);
  }
  complete(ack(launch.packet, landing.code));
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

void ThreadedNic::count(const Packet& packet) {
  const CounterId counter = model_.counter_of(packet);
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
  const Landing landing = model_.locate(packet);
  if (landing.code != Code::kOk)
    return ack(packet, landing.code);
  if (is_device(landing.region)) {
    model_.abandoned(packet);
    return ack(packet, Code::kUnsupported);
  }
  apply_atomic(landing.address, packet);
  count(packet);
  return ack(packet, Code::kOk);
}

void ThreadedNic::arrived(const Packet& packet, const std::byte* loan) {
  switch (packet.kind) {
    case PacketKind::kAtomic: return wire_->send(packet.source, apply(packet), nullptr);
    case PacketKind::kAck: return ack_arrived(packet);
    case PacketKind::kPull: return pull_arrived(packet, loan);
    default:
      if (mover_ != nullptr)
        mover_->pull_refused(packet);
  }
}

// Ignores acks without an operation: other processes write the wire's memory.
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

void ThreadedNic::peer_lost(uint32_t peer, const std::string& why) {
  if (mover_ != nullptr)
    mover_->peer_lost(peer);
  // First the cause: a thread that sees an operation fail then finds it.
  why_lost_[peer] = why;
  lost_[peer].store(true, std::memory_order_release);
  lost_count_.fetch_add(1, std::memory_order_release);
  model_.lose_peer(peer);
}

void ThreadedNic::complete(const Packet& ack) {
  if (mover_ != nullptr)
    mover_->acknowledged(ack.token);
  model_.complete(ack);
}

void ThreadedNic::not_sent(uint32_t peer, const Packet& packet, Code code) {
  right_.assert_held();
  complete({.kind = PacketKind::kAck, .code = code, .source = peer, .token = packet.token});
}

void ThreadedNic::moved(const Packet& packet, Code code) {
  right_.assert_held();
  if (code == Code::kOk)
    count(packet);
  else
    model_.abandoned(packet);
  if (packet.source == self_)
    ack_arrived(ack(packet, code));
  else
    answer(packet, code);
}

// ---- Sleep: waiting threads and the NIC's own thread (the owner)

void ThreadedNic::wait_since(uint64_t seen, Nanoseconds timeout) {
  // Doorbell words and devices wake no thread.
  const bool watches = armed_count_.load() > 0 || moving_.load();
  const Nanoseconds limit = watches ? std::min<Nanoseconds>(timeout, kDoorbellPeriod) : timeout;
  // The wire calls this once publish() can see the sleeper, so no step goes unnoticed.
  wire_->sleep(Wire::Sleeper::kHelper, limit, [this, seen] { return idle() && activity() == seen; });
  // An arrival may have woken only this thread (W5), whose caller may now do other work: handle it
  // here. If another thread drives, it may have looked too early: wake a sleeper instead.
  if (progress() == 0) {
    wire_->attend();
    wire_->leave();
  }
}

void ThreadedNic::attend() {
  attending_.fetch_add(1);
  wire_->attend();
}

void ThreadedNic::leave() {
  wire_->leave();
  attending_.fetch_sub(1);
  progress();  // what arrived between attend() and leave() woke no thread
  if (moving_.load(std::memory_order_seq_cst) || armed_count_.load() > 0)
    wake_owner_if_asleep();
}

Status ThreadedNic::start_owner() {
  const std::lock_guard lock(owner_mutex_);
  if (owner_.joinable())
    return {};
  LANYARD_ASSIGN_OR_RETURN(owner_, start_service_thread("lanyard-nic", [this] { run_owner(); }));
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
      sched_yield();  // the polling thread may need this core
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
    // A ring may fire something, or an operation is in flight.
    const bool has_work = free_entries_.load(std::memory_order_relaxed) < caps_.deferred_depth ||
                          under_way_.load(std::memory_order_relaxed);
    if (!attended && (moving || (watches && has_work)) && steady_clock::now() < spin_until) {
      sched_yield();
      continue;
    }
    idle_rounds = 0;
    const auto still_idle = [this] { return !stopping_.load() && (idle() || attending_.load() > 0); };
    const auto nothing_to_watch = [this] {
      return !stopping_.load() && ((idle() && !moving_.load() && armed_count_.load() == 0) || attending_.load() > 0);
    };
    if (watches) {
      wire_->sleep(Wire::Sleeper::kOwner, kDoorbellPeriod, still_idle);
    } else if (steady_clock::now() < warm_until) {
      wire_->sleep(Wire::Sleeper::kOwner, kNap, nothing_to_watch);
    } else {
      owner_asleep_.store(true, std::memory_order_seq_cst);
      wire_->sleep(Wire::Sleeper::kOwner, std::chrono::hours(1), nothing_to_watch);
      owner_asleep_.store(false, std::memory_order_relaxed);
    }
  }
}

}  // namespace lanyard::nicsim
