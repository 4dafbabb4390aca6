// LateWire: a wire behind which a message counts before its bytes are in memory, as a card's may whose count and whose
// data take different ways. Bytes come some 100 us after their count, in the order in which they were counted; whatever
// wants delivery, the end of a region, and what the NIC fetches from itself wait for all that came before.
//
// Packets do not say whether delivery was asked for, so the initiator's provider marks the offset of those that do
// (kDeliveryMark); every NIC of a job must have this wire, or none. A NIC's messages to itself take no wire: they are
// in time.
#ifndef LANYARD_NICSIM_FI_LATE_WIRE_H_
#define LANYARD_NICSIM_FI_LATE_WIRE_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "nicsim/wire/wire.h"

namespace lanyard::nicsim::fi {

inline constexpr uint64_t kDeliveryMark = uint64_t{1} << 63;

// Threads: as a wire's; settle() any.
class LateWire final : public Wire {
 public:
  explicit LateWire(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}

  const char* name() const override { return wire_->name(); }
  nic::Address address() const override { return wire_->address(); }
  Status set_peers(std::span<const nic::Address> peers, uint32_t self) override {
    return wire_->set_peers(peers, self);
  }
  Status add_peer(uint32_t peer, const nic::Address& address) override { return wire_->add_peer(peer, address); }
  bool shares_host(uint32_t peer) const override { return wire_->shares_host(peer); }
  void send(uint32_t peer, const Packet& packet, const std::byte* payload) override {
    wire_->send(peer, packet, payload);
  }
  size_t poll(Sink& sink) override;
  bool give_up_stalled(uint64_t key, Sink& sink) override;
  void attend() override { wire_->attend(); }
  void leave() override { wire_->leave(); }
  void sleep(Sleeper who, Nanoseconds timeout, bool (*idle)(void*), void* object) override;
  void wake(Sleeper who) override { wire_->wake(who); }

  // All bytes that have been counted are in memory.
  void settle();

 private:
  class LateSink;
  struct Write {
    uint32_t source = 0, token = 0;
    std::byte* to = nullptr;
    std::vector<std::byte> bytes;
    std::chrono::steady_clock::time_point due = {};  // once it has been counted
  };

  size_t copy_what_is_due();

  const std::unique_ptr<Wire> wire_;
  std::vector<std::unique_ptr<Write>> arriving_;  // the driver's; their bytes' addresses are the wire's
  std::mutex mutex_;                              // guards what follows
  std::deque<std::unique_ptr<Write>> counted_;
  std::atomic<size_t> counted_size_{0};
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_LATE_WIRE_H_
