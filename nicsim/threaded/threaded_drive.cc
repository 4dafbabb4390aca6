// The part of ThreadedNic that drives: it fires entries, sends operations, and publishes
// what other threads read.
#include <cstring>

#include "nicsim/threaded/threaded_nic.h"

namespace lanyard::nicsim {

using nic::CounterId;

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
  if (heard_) [[unlikely]]
    tell_listener();
  return steps;
}

// Call it after publish(): a thread that the listener wakes must find the counter up to date.
void ThreadedNic::tell_listener() {
  heard_ = false;
  listener_.call(listener_.object);
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

}  // namespace lanyard::nicsim
