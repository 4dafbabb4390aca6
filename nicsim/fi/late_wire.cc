#include "nicsim/fi/late_wire.h"

#include <algorithm>
#include <cstring>

namespace lanyard::nicsim::fi {

using std::chrono::steady_clock;

namespace {

constexpr std::chrono::microseconds kDelay{100};

}  // namespace

// Delays the wire's messages on their way to the NIC.
class LateWire::LateSink final : public Sink {
 public:
  LateSink(LateWire& wire, Sink& sink) : wire_(wire), sink_(sink) {}

  std::byte* place(const Packet& packet) override {
    std::byte* to = sink_.place(plain(packet));
    if (to == nullptr || packet.bytes == 0 || is_marked(packet))
      return to;
    const auto write =
        wire_.arriving_.insert({name(packet), {.to = to, .bytes = std::vector<std::byte>(packet.bytes)}});
    return write->second.bytes.data();
  }
  void landed(const Packet& packet, bool placed) override {
    // Add it before it counts: once it has counted, the region may be closed.
    if (auto write = wire_.arriving_.extract(name(packet))) {
      const std::lock_guard lock(wire_.mutex_);
      write.mapped().due = steady_clock::now() + kDelay;
      wire_.counted_.push_back(std::move(write.mapped()));
      wire_.counted_size_.store(wire_.counted_.size());
    } else if (is_marked(packet)) {
      wire_.settle();
    }
    sink_.landed(plain(packet), placed);
  }
  void abandoned(const Packet& packet, Code code) override {
    wire_.arriving_.extract(name(packet));
    sink_.abandoned(plain(packet), code);
  }
  void arrived(const Packet& packet, const std::byte* loan) override {
    if (packet.kind == PacketKind::kAtomic && is_marked(packet))
      wire_.settle();
    sink_.arrived(packet.kind == PacketKind::kAtomic ? plain(packet) : packet, loan);
  }
  void peer_lost(uint32_t peer, const std::string& why) override { sink_.peer_lost(peer, why); }

 private:
  static bool is_marked(const Packet& packet) { return (packet.offset & kDeliveryMark) != 0; }
  static Packet plain(Packet packet) {
    packet.offset &= ~kDeliveryMark;
    return packet;
  }
  static std::pair<uint32_t, uint32_t> name(const Packet& packet) { return {packet.source, packet.token}; }

  LateWire& wire_;
  Sink& sink_;
};

size_t LateWire::poll(Sink& sink) {
  LateSink late(*this, sink);
  const size_t delivered = counted_size_.load() == 0 ? 0 : deliver(steady_clock::now());
  return delivered + wire_->poll(late);
}

bool LateWire::give_up_stalled(uint64_t key, Sink& sink) {
  LateSink late(*this, sink);
  return wire_->give_up_stalled(key, late);
}

size_t LateWire::deliver(Time now) {
  const std::lock_guard lock(mutex_);
  size_t delivered = 0;
  for (; !counted_.empty() && counted_.front().due <= now; ++delivered) {
    std::memcpy(counted_.front().to, counted_.front().bytes.data(), counted_.front().bytes.size());
    counted_.pop_front();
  }
  counted_size_.store(counted_.size());
  return delivered;
}

void LateWire::sleep(Sleeper who, Nanoseconds timeout, const Idle& idle) {
  if (counted_size_.load() > 0)
    timeout = std::min<Nanoseconds>(timeout, kDelay);
  wire_->sleep(who, timeout, idle);
}

}  // namespace lanyard::nicsim::fi
