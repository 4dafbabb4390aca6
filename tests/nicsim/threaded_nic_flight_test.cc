// ThreadedNic against a peer that the test plays: operations stay in flight as long as
// the test wants.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "nicsim/model/packet.h"
#include "nicsim/threaded/threaded_nic.h"
#include "nicsim/wire/inbox.h"
#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/wire.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using nic::CounterId;
using nic::CounterValue;
using nicsim::Packet;
using nicsim::PacketKind;

// Stores the packets that arrive.
struct Peer final : nicsim::Sink {
  std::byte* place(const Packet&) override { return nullptr; }
  void landed(const Packet&, bool) override {}
  void abandoned(const Packet&, Code) override {}
  void atomic_arrived(const Packet& packet) override { atomics.push_back(packet); }
  void ack_arrived(const Packet&) override {}
  void pull_arrived(const Packet&, const std::byte*) override {}
  void pull_refused(const Packet&) override {}
  void peer_lost(uint32_t, const std::string&) override {}

  std::vector<Packet> atomics;
};

class Flight : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds kBound{20};

  void SetUp() override {
    wire = std::move(nicsim::make_shm_wire().value());
    nic = std::make_unique<nicsim::ThreadedNic>(nicsim::ModelLimits{.deferred_depth = 8, .max_in_flight = 2},
                                                std::move(nicsim::make_shm_wire().value()));
    const std::vector<nic::Address> peers{nic->address(), wire->address()};
    ASSERT_TRUE(nic->set_peers(peers, 0).ok() && wire->set_peers(peers, 1).ok());
    trigger = nic->open_counter().value();
    done = nic->open_counter().value();
    region = nic->register_region(&word, sizeof word, {}).value();
  }
  nic::Op sum() const {
    nic::Op op;
    op.kind = nic::OpKind::kAtomic;
    op.completion = done;
    op.local = {region, 0};
    op.remote = {1, {}, 0};
    return op;
  }
  bool arrive(size_t atomics) {
    const auto deadline = std::chrono::steady_clock::now() + kBound;
    while (peer.atomics.size() < atomics && std::chrono::steady_clock::now() < deadline) {
      nic->progress();
      wire->poll(peer);
    }
    return peer.atomics.size() == atomics;
  }
  void answer(size_t index) {
    wire->send(0, {.kind = PacketKind::kAck, .source = 1, .token = peer.atomics[index].token}, nullptr);
  }
  bool becomes(CounterId counter, CounterValue wanted) {
    const auto deadline = std::chrono::steady_clock::now() + kBound;
    while (nic->read(counter).value() != wanted && std::chrono::steady_clock::now() < deadline)
      nic->progress();
    return nic->read(counter).value() == wanted;
  }

  alignas(8) uint64_t word = 1;
  Peer peer;
  std::unique_ptr<nicsim::Wire> wire;
  std::unique_ptr<nicsim::ThreadedNic> nic;
  CounterId trigger, done;
  nic::RegionId region;
};

TEST_F(Flight, ContinuesThroughAFlush) {
  std::array<nic::DeferredOp, 6> ops;
  for (size_t i = 0; i < ops.size(); ++i)
    ops[i] = {.op = sum(), .trigger = trigger, .threshold = i < 3 ? 1u : 2u};
  ASSERT_TRUE(nic->post(ops).ok());
  ASSERT_TRUE(nic->add(trigger, 1).ok());
  ASSERT_TRUE(arrive(2)) << "expected two in flight, one ready and three waiting";
  ASSERT_TRUE(nic->issue(sum()).ok());
  ASSERT_TRUE(nic->flush().ok());
  EXPECT_EQ(nic->free_entries(), 8u);
  EXPECT_EQ(nic->close_counter(done).code(), Code::kInvalidState);
  EXPECT_EQ(nic->deregister_region(region).code(), Code::kInvalidState);
  EXPECT_EQ(nic->read(done).value(), CounterValue{});
  answer(0);
  answer(1);
  ASSERT_TRUE(arrive(3)) << "the issued operation is missing";
  EXPECT_TRUE(becomes(done, {.success = 2}));
  answer(2);
  EXPECT_TRUE(becomes(done, {.success = 3}));
  ASSERT_TRUE(nic->add(trigger, 5).ok());
  EXPECT_EQ(nic->free_entries(), 8u);
  EXPECT_TRUE(nic->close_counter(trigger).ok());
  EXPECT_TRUE(nic->close_counter(done).ok());
  EXPECT_TRUE(nic->deregister_region(region).ok());
  EXPECT_EQ(peer.atomics.size(), 3u);
}

// Cancelled entries free their places.
TEST_F(Flight, ContinuesThroughACancel) {
  std::array<nic::DeferredOp, 8> ops;
  for (size_t i = 0; i < ops.size(); ++i)
    ops[i] = {.op = sum(), .trigger = trigger, .threshold = i < 2 ? 1u : 2u};
  ASSERT_TRUE(nic->post(ops).ok());
  EXPECT_EQ(nic->free_entries(), 0u);
  ASSERT_TRUE(nic->add(trigger, 1).ok());
  ASSERT_TRUE(arrive(2));
  ASSERT_TRUE(nic->cancel(trigger).ok());
  EXPECT_EQ(nic->free_entries(), 8u);
  ASSERT_TRUE(nic->add(trigger, 1).ok());
  answer(0);
  answer(1);
  EXPECT_TRUE(becomes(done, {.success = 2}));
  EXPECT_EQ(peer.atomics.size(), 2u);
}

// An acknowledgement from a rank that is not the target, or a second one, is ignored.
TEST_F(Flight, AnOperationEndsOnce) {
  ASSERT_TRUE(nic->issue(sum()).ok());
  ASSERT_TRUE(arrive(1));
  wire->send(0, {.kind = PacketKind::kAck, .source = 1, .token = peer.atomics[0].token + 1}, nullptr);
  answer(0);
  answer(0);
  EXPECT_TRUE(becomes(done, {.success = 1}));
  ASSERT_TRUE(nic->issue(sum()).ok());
  ASSERT_TRUE(arrive(2));
  EXPECT_EQ(nic->read(done).value(), CounterValue{.success = 1});
  answer(1);
  EXPECT_TRUE(becomes(done, {.success = 2}));
}

// The failure is counted only when its cause is known.
TEST_F(Flight, FailsWhenThePeerDies) {
  nic::Op op = sum();
  op.context = 77;
  ASSERT_TRUE(nic->issue(op).ok());
  ASSERT_TRUE(arrive(1));
  EXPECT_FALSE(nic->is_lost(1));  // a stopped peer is not lost
  wire.reset();
  EXPECT_TRUE(becomes(done, {.failure = 1}));
  EXPECT_TRUE(nic->is_lost(1));
  EXPECT_EQ(nic->lost_peers(), 1u);
  const nic::FailureRecord failure = nic->take_failure().value();
  EXPECT_EQ(failure.context, 77u);
  EXPECT_EQ(failure.peer, 1u);
}

// The peer stops in the middle of its own copy to a region. Deregistration times out and changes
// nothing; other calls proceed meanwhile.
TEST_F(Flight, ARegionThatAPeerCopiesToIsNotDeregistered) {
  constexpr uint64_t kBytes = uint64_t{32} << 20;
  const std::vector<std::byte> source(kBytes);
  std::vector<std::byte> memory(kBytes);
  const CounterId arrived = nic->open_counter().value();
  const nic::RegionId target = nic->register_region(memory.data(), kBytes, arrived).value();
  const nicsim::ShmAddress address = *nicsim::ShmAddress::decode(nic->address());
  const Result<nicsim::PeerSegment> segment = nicsim::PeerSegment::open(address);
  nicsim::InboxPort port =
      nicsim::InboxPort::attach(segment.value().base(), segment.value().bytes(), address.nonce).value();
  Packet packet{.source = 1, .key = nic->key(target).value().value, .bytes = kBytes};
  // Whether the peer claims a portion before the NIC has copied everything is a matter of chance.
  bool copying = false;
  for (uint64_t tries = 0; tries < 1000 && !copying; ++tries) {
    ASSERT_TRUE(becomes(arrived, {.success = tries}));
    ASSERT_TRUE(
        port.push(packet, {.kind = nicsim::FrameKind::kOffer, .value = reinterpret_cast<uint64_t>(source.data())}));
    while (!copying && nic->read(arrived).value().success == tries)
      copying = port.claims(0).push();
    if (copying)
      break;
    packet.operand = 0;
    ASSERT_TRUE(port.push(packet, {.kind = nicsim::FrameKind::kHelped, .value = 0}));
    ++packet.token;
  }
  ASSERT_TRUE(copying);
  std::atomic<bool> ended{false};
  std::jthread other([&] {
    int calls = 0;
    for (; !ended; ++calls)
      EXPECT_TRUE(nic->close_counter(nic->open_counter().value()).ok());
    EXPECT_GT(calls, 1);
  });
  EXPECT_EQ(nic->deregister_region(target).code(), Code::kTimedOut);
  ended = true;
  other.join();
  EXPECT_TRUE(nic->key(target).ok());
  nic::Op op = sum();
  op.local = {target, 0};
  op.completion = {};
  EXPECT_TRUE(nic->issue(op).ok()) << "the region must still be usable";
  ASSERT_TRUE(arrive(1));
  answer(0);
  port.claims(0).pushed();  // the peer does not report it
  const auto deadline = std::chrono::steady_clock::now() + kBound;
  Status status;
  while (!(status = nic->deregister_region(target)).ok() && std::chrono::steady_clock::now() < deadline)
    nic->progress();
  EXPECT_TRUE(status.ok()) << status.to_string();
}

}  // namespace
}  // namespace lanyard
