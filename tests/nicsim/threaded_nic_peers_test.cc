// ThreadedNic and its peers. The test plays one, so operations stay in flight as long as it wants.
// Another is gone (N12), and another is a process whose memory has been unmapped.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nicsim/model/packet.h"
#include "nicsim/threaded/threaded_nic.h"
#include "nicsim/wire/inbox.h"
#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/tcp_wire.h"
#include "nicsim/wire/wire.h"
#include "tests/contract/local_fabric.h"
#include "tests/support/expect.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using nic::CounterId;
using nic::CounterValue;
using nicsim::Packet;
using nicsim::PacketKind;

// Whether the counter gets that value while the NIC is progressed.
bool reaches(nic::Nic& nic, CounterId counter, CounterValue wanted) {
  return eventually([&] { return nic.read(counter).value() == wanted; }, [&] { nic.progress(); });
}

// ---- A peer that the test plays

// Stores the packets that arrive.
struct Peer final : nicsim::Sink {
  std::byte* place(const Packet&) override { return nullptr; }
  void landed(const Packet&, bool) override {}
  void abandoned(const Packet&, Code) override {}
  void arrived(const Packet& packet, const std::byte*) override {
    if (packet.kind == PacketKind::kAtomic)
      atomics.push_back(packet);
  }
  void peer_lost(uint32_t, const std::string&) override {}

  std::vector<Packet> atomics;
};

class Flight : public ::testing::Test {
 protected:
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
    const auto arrived = [&] { return peer.atomics.size() >= atomics; };
    const auto drive = [&] {
      nic->progress();
      wire->poll(peer);
    };
    return eventually(arrived, drive) && peer.atomics.size() == atomics;
  }
  void answer(size_t index) {
    wire->send(0, {.kind = PacketKind::kAck, .source = 1, .token = peer.atomics[index].token}, nullptr);
  }
  bool becomes(CounterId counter, CounterValue wanted) { return reaches(*nic, counter, wanted); }

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
  EXPECT_TRUE(eventually([&] { return nic->deregister_region(target).ok(); }, [&] { nic->progress(); }));
}

// ---- A rank that has exchanged an operation with a peer learns that the peer is gone (N12)

using std::chrono::milliseconds;

class LostPeers : public ::testing::TestWithParam<LocalOptions::Wire> {
 protected:
  // Sends 8 bytes to the other rank. The NICs' own threads progress it, with `help`
  // this thread too.
  void send(size_t from, bool help = false) {
    nic::Nic &source = fabric.nic(from), &target = fabric.nic(1 - from);
    const nic::CounterId done = source.open_counter().value();
    nic::Op op;
    op.completion = done;
    op.local = {source.register_region(&words[from], 8).value(), 0};
    const nic::RegionId region = target.register_region(&words[1 - from], 8).value();
    op.remote = {static_cast<uint32_t>(1 - from), target.key(region).value(), 0};
    op.bytes = 8;
    ASSERT_TRUE(source.issue(op).ok());
    ASSERT_TRUE(eventually([&] {
      if (help)
        source.progress();
      return source.read(done).value().success == 1;
    }));
  }
  // Reads only: no call progresses the NIC of rank 0.
  void expect_that_its_end_is_seen() {
    EXPECT_EQ(fabric.nic(0).lost_peers(), 0u);
    EXPECT_FALSE(fabric.nic(0).is_lost(1));
    fabric.end(1);
    EXPECT_TRUE(eventually([&] { return fabric.nic(0).is_lost(1); }));
    EXPECT_TRUE(fabric.nic(0).caps().watches_peers);
    EXPECT_EQ(fabric.nic(0).lost_peers(), 1u);
    EXPECT_FALSE(fabric.nic(0).is_lost(0));
    EXPECT_FALSE(fabric.nic(0).is_lost(2));
    EXPECT_EQ(fabric.nic(0).failures(), 0u);
  }

  uint64_t words[2] = {};
  LocalFabric fabric{2, {.limits = {}, .wire = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Over, LostPeers, ::testing::Values(LocalOptions::Wire::kShm, LocalOptions::Wire::kTcp));

TEST_P(LostPeers, AreKnownToAPureReceiver) {
  send(1);
  std::this_thread::sleep_for(milliseconds(400));  // the NIC's thread is asleep by now
  expect_that_its_end_is_seen();
}

TEST_P(LostPeers, AreKnownToAPureSender) {
  send(0);
  expect_that_its_end_is_seen();
}

// The NIC's own thread sleeps when another thread sends the first message.
TEST_P(LostPeers, AreKnownToANicAsleepAtTheFirstMessage) {
  fabric.nic(0).open_counter().value();
  std::this_thread::sleep_for(milliseconds(400));
  fabric.nic(0).attend();
  send(0, /*help=*/true);
  fabric.nic(0).leave();
  expect_that_its_end_is_seen();
}

// ---- Unmapped memory: the message fails at its sender, and nothing else fails

constexpr uint64_t kLong = uint64_t{1} << 20;

// One of two ranks, with a channel beside the NIC and memory that the other rank may write.
struct Rank {
  uint32_t self = 0;
  int channel = -1;
  std::unique_ptr<nicsim::ThreadedNic> nic = {};
  CounterId arrivals = {}, done = {};
  std::byte* memory = nullptr;
  nic::RegionId region = {};
  nic::RemoteKey key = {};  // of the other rank's region

  template <typename T>
  bool exchange(T& word) {
    return ::write(channel, &word, sizeof word) == sizeof word &&
           ::recv(channel, &word, sizeof word, MSG_WAITALL) == sizeof word;
  }
  bool connect(bool tcp) {
    std::unique_ptr<nicsim::Wire> wire = tcp ? std::move(nicsim::make_tcp_wire({.interface = "127.0.0.1"}).value())
                                             : std::move(nicsim::make_shm_wire().value());
    nic = std::make_unique<nicsim::ThreadedNic>(nicsim::ModelLimits(), std::move(wire));
    std::vector<nic::Address> addresses(2, nic->address());
    std::array<std::byte, nic::Address::kMaxBytes> other{};
    std::copy(addresses[self].bytes.begin(), addresses[self].bytes.end(), other.begin());
    if (!exchange(other))
      return false;
    std::copy_n(other.begin(), addresses[self].bytes.size(), addresses[1 - self].bytes.begin());
    if (!nic->set_peers(addresses, self).ok())
      return false;
    arrivals = nic->open_counter().value();
    done = nic->open_counter().value();
    memory =
        static_cast<std::byte*>(::mmap(nullptr, kLong, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    region = nic->register_region(memory, kLong, arrivals).value();
    key = nic->key(region).value();
    return exchange(key);
  }
  // Makes all but the first 4096 bytes inaccessible. The addresses stay reserved.
  bool unmap() { return ::mprotect(memory + 4096, kLong - 4096, PROT_NONE) == 0; }
  bool write(uint64_t bytes) {
    nic::Op op;
    op.completion = done;
    op.local = {region, 0};
    op.remote = {1 - self, key, 0};
    op.bytes = bytes;
    op.context = 77;
    return nic->issue(op).ok();
  }
  bool counts(CounterId counter, CounterValue wanted) { return reaches(*nic, counter, wanted); }
};

bool fail_once_and_go_on(Rank& rank) {
  if (!rank.write(kLong) || !rank.counts(rank.done, {0, 1}))
    return false;
  const std::optional<nic::FailureRecord> failure = rank.nic->take_failure();
  return failure.has_value() && failure->code == Code::kUnmapped && failure->context == 77 && rank.write(4096) &&
         rank.counts(rank.done, {1, 1}) && !rank.nic->is_lost(0);
}

class Unmapped : public ::testing::TestWithParam<const char*> {
 protected:
  // The sender is a child process: fork() runs while this process has one thread.
  static void expect_one_failure(bool of_source) {
    const bool tcp = GetParam() == std::string("tcp");
    int channel[2], status = 0;
    char word = 'm';
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, channel), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(channel[0]);
      Rank sender{.self = 1, .channel = channel[1]};
      const bool well = sender.connect(tcp) && (!of_source || sender.unmap()) && sender.exchange(word) &&
                        fail_once_and_go_on(sender) && sender.exchange(word);
      ::_exit(well ? 0 : 1);
    }
    ::close(channel[1]);
    Rank receiver{.channel = channel[0]};
    ASSERT_TRUE(receiver.connect(tcp) && (of_source || receiver.unmap()) && receiver.exchange(word));
    EXPECT_TRUE(receiver.counts(receiver.arrivals, {1})) << "only the short message should arrive";
    EXPECT_FALSE(receiver.nic->is_lost(1));
    EXPECT_TRUE(receiver.nic->deregister_region(receiver.region).ok());
    EXPECT_TRUE(receiver.exchange(word));
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "the sender's checks failed";
    receiver.nic.reset();
    ::munmap(receiver.memory, kLong);
    ::close(channel[0]);
  }
};
INSTANTIATE_TEST_SUITE_P(Over, Unmapped, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Unmapped, TheSource) { expect_one_failure(true); }
TEST_P(Unmapped, TheTarget) { expect_one_failure(false); }

}  // namespace
}  // namespace lanyard
