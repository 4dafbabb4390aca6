// What the fuzzers of the wires share: an input that is taken apart from its front, and a sink that
// accepts messages like a NIC and checks the promises of Sink.
#ifndef LANYARD_TESTS_FUZZ_H_
#define LANYARD_TESTS_FUZZ_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "nicsim/wire/wire.h"
#include "transport/base/check.h"

namespace lanyard::fuzz {

// Takes values from the front of a fuzzer's bytes. Past the end it returns zeros.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t bytes) : rest_(reinterpret_cast<const std::byte*>(data), bytes) {}
  bool empty() const { return rest_.empty(); }

  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::span<const std::byte> bytes = take_bytes(sizeof value);
    if (!bytes.empty())
      std::memcpy(static_cast<void*>(&value), bytes.data(), bytes.size());
    return value;
  }
  std::span<const std::byte> take_bytes(size_t most) {
    const std::span<const std::byte> taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> rest_;
};

// It allocates exactly the size of each write, so that a sanitizer sees one byte too many. Writes
// that differ in nothing share memory, like writes with one key: their region lives until the last
// one has landed.
class FuzzSink final : public nicsim::Sink {
 public:
  using Packet = nicsim::Packet;
  static constexpr uint64_t kMostBytes = 1 << 18;

  explicit FuzzSink(uint32_t peers) : lost_(peers) {}

  // Refuses odd keys.
  std::byte* place(const Packet& packet) override {
    LANYARD_CHECK(packet.source < lost_.size() && !lost_[packet.source], "place(): the peer is lost or unknown");
    if (packet.key % 2 == 1 || packet.bytes > kMostBytes)
      return nullptr;
    const auto found = find(packet);
    if (found != landing_.end()) {
      ++found->times;
      return found->memory.get();
    }
    landing_.push_back({packet, std::make_unique<std::byte[]>(packet.bytes)});
    return landing_.back().memory.get();
  }
  void landed(const Packet& packet, bool placed) override {
    if (placed)
      take(packet);
  }
  void abandoned(const Packet& packet, Code) override { take(packet); }
  void arrived(const Packet& packet, const std::byte* loan) override {
    check(packet);
    if (packet.kind == nicsim::PacketKind::kAck && on_ack)
      on_ack(packet);
    if (packet.kind == nicsim::PacketKind::kPull)
      sum_ += std::count(loan, loan + nicsim::kLoanBytes, std::byte{1});
  }
  void peer_lost(uint32_t peer, const std::string&) override {
    LANYARD_CHECK(peer < lost_.size() && !lost_[peer], "peer_lost(): the peer is lost already or unknown");
    lost_[peer] = true;
    for (const Landing& landing : landing_)
      LANYARD_CHECK(landing.packet.source != peer, "peer_lost(): a write from the peer is still landing");
  }
  bool all_over() const { return landing_.empty(); }

  std::function<void(const Packet&)> on_ack;

 private:
  struct Landing {
    Packet packet;
    std::unique_ptr<std::byte[]> memory;
    int times = 1;
  };

  void check(const Packet& packet) const {
    LANYARD_CHECK(packet.source < lost_.size() && !lost_[packet.source], "a packet of a peer that is lost or unknown");
  }
  std::vector<Landing>::iterator find(const Packet& packet) {
    return std::find_if(landing_.begin(), landing_.end(), [&](const Landing& landing) {
      return landing.packet.source == packet.source && landing.packet.token == packet.token &&
             landing.packet.key == packet.key && landing.packet.bytes == packet.bytes;
    });
  }
  void take(const Packet& packet) {
    const auto found = find(packet);
    LANYARD_CHECK(found != landing_.end(), "a write lands or is abandoned without place(), or twice");
    if (--found->times == 0)
      landing_.erase(found);
  }

  std::vector<Landing> landing_;
  std::vector<bool> lost_;
  int64_t sum_ = 0;
};

}  // namespace lanyard::fuzz

#endif  // LANYARD_TESTS_FUZZ_H_
