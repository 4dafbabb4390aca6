// The part of ThreadedNic that handles arrivals: the wire's sink and the device mover's client.
#include "nicsim/threaded/threaded_nic.h"

namespace lanyard::nicsim {

using nic::CounterId;

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
  apply_atomic(landing.address, packet);
  count(packet);
  return ack;
}

void ThreadedNic::atomic_arrived(const Packet& packet) { wire_->send(packet.source, apply(packet), nullptr); }

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

void ThreadedNic::pull_refused(const Packet& packet) {
  if (mover_ != nullptr)
    mover_->pull_refused(packet);
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

// ---- Moves of device memory

void ThreadedNic::transmit(uint32_t peer, const Packet& packet, const std::byte* payload) {
  wire_->send(peer, packet, payload);
}

void ThreadedNic::not_sent(uint32_t peer, const Packet& packet, Code code) {
  complete({.kind = PacketKind::kAck, .code = code, .source = peer, .token = packet.token});
}

// The whole message has reached its target, or has failed.
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

}  // namespace lanyard::nicsim
