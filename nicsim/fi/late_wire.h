// LateWire: a wire that counts a message before its bytes are in memory. On a real card, counts and
// data may take different ways, too. Bytes follow about 100 us after their count, in the order of
// the counts. Messages with delivery completion, the end of a region and fetches of the NIC wait
// for all bytes before them.
//
// A packet does not say whether delivery was requested, so the initiator's provider marks its
// offset (kDeliveryMark). All NICs of a job must have this wire, or none. A NIC's messages to
// itself bypass the wire and are not late.
#ifndef LANYARD_NICSIM_FI_LATE_WIRE_H_
#define LANYARD_NICSIM_FI_LATE_WIRE_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "nicsim/wire/wire.h"

namespace lanyard::nicsim::fi {

inline constexpr uint64_t kDeliveryMark = uint64_t{1} << 63;

// Threads: as Wire; any thread may call settle().
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
  void sleep(Sleeper who, Nanoseconds timeout, const Idle& idle) override;
  void wake(Sleeper who) override { wire_->wake(who); }

  // Puts all bytes counted so far into memory.
  void settle() { deliver(Time::max()); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  class LateSink;
  struct Write {
    std::byte* to = nullptr;
    std::vector<std::byte> bytes;
    Time due = {};  // set when it is counted
  };

  // Puts the bytes into memory that are due by `now`; returns the number of writes.
  size_t deliver(Time now);

  const std::unique_ptr<Wire> wire_;
  // By source and token. For the driver; the wire keeps pointers to their bytes.
  std::multimap<std::pair<uint32_t, uint32_t>, Write> arriving_;
  std::mutex mutex_;  // guards the members below
  std::deque<Write> counted_;
  std::atomic<size_t> counted_size_{0};
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_LATE_WIRE_H_
