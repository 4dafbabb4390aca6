// Parts of the wires alone: the inbox, its bell, and invalid data from another process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "nicsim/wire/fifo.h"
#include "nicsim/wire/inbox.h"
#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/shm_wire.h"
#include "tests/nicsim/wire_contract_fixture.h"

namespace lanyard::wire_contract {
namespace {

using nicsim::Bell;
using nicsim::Claims;
using nicsim::Fifo;
using nicsim::Frame;
using nicsim::FrameKind;
using nicsim::Inbox;
using nicsim::InboxHeader;
using nicsim::InboxPort;
using nicsim::make_shm_wire;
using nicsim::PeerSegment;
using nicsim::ShmAddress;

constexpr uint64_t kNonce = 0x0123456789abcdef;

TEST(Fifo, KeepsItsOrderWhileItGrowsWrapsAndRemovesItems) {
  Fifo<int> fifo;
  int in = 0, out = 0;
  for (int round = 1; round < 200; ++round) {
    for (int i = 0; i < round % 37; ++i)
      fifo.push_back(in++);
    for (int i = 0; i < round % 31 && !fifo.empty(); ++i) {
      ASSERT_EQ(fifo.front(), out++);
      fifo.pop_front();
    }
    ASSERT_EQ(fifo.size(), static_cast<size_t>(in - out));
    for (size_t i = 0; i < fifo.size(); ++i)
      ASSERT_EQ(fifo[i], out + static_cast<int>(i));
  }
  while (fifo.size() < 40)
    fifo.push_back(in++);
  fifo.erase_if([](int item) { return item % 3 != 0; });
  for (; out < in; ++out) {
    if (out % 3 != 0)
      continue;
    ASSERT_EQ(fifo.front(), out);
    fifo.pop_front();
  }
  EXPECT_TRUE(fifo.empty());
}

// ---- Claims

TEST(Claims, PortionsCoverTheWriteInWholePages) {
  for (uint64_t bytes : {uint64_t{1}, uint64_t{131072}, uint64_t{131073}, uint64_t{300001}, uint64_t{512} << 10,
                         (uint64_t{1} << 20) + 1, (uint64_t{1} << 40) + 5}) {
    const uint64_t portion = Claims::portion(bytes);
    EXPECT_EQ(portion % 4096, 0u);
    EXPECT_LE(portion, Claims::kMaxPortion);
    EXPECT_GE(portion, Claims::kMinPortion);
    EXPECT_GE(Claims::portions(bytes) * portion, bytes);
    EXPECT_LT((Claims::portions(bytes) - 1) * portion, bytes);
  }
}

TEST(Claims, EachPortionIsTakenOnce) {
  for (int round = 0; round < 200 / kSlow; ++round) {
    Claims claims;
    constexpr uint64_t kPortions = 500;
    claims.open(kPortions);
    uint64_t pushed = 0, taken = 0;
    std::thread sender([&] {
      while (claims.push()) {
        ++pushed;
        EXPECT_TRUE(claims.pushing());
        claims.pushed();
      }
    });
    while (taken < 100 && claims.take())
      ++taken;
    if (round % 2 == 0) {
      taken += claims.take_all();
    } else {
      while (claims.take())
        ++taken;
    }
    EXPECT_FALSE(claims.take());
    sender.join();
    EXPECT_FALSE(claims.push());
    EXPECT_FALSE(claims.pushing());
    EXPECT_EQ(pushed + taken, kPortions);
  }
}

// An inbox on the heap and a producer's view of it.
struct InboxTest : ::testing::Test {
  void open(uint32_t slots) {
    const size_t bytes = Inbox::bytes_for(slots);
    memory.reset(std::aligned_alloc(128, (bytes + 127) / 128 * 128));
    inbox = std::make_unique<Inbox>(memory.get(), slots, kNonce);
    header = static_cast<InboxHeader*>(memory.get());
    Result<InboxPort> attached = InboxPort::attach(memory.get(), bytes, kNonce);
    ASSERT_TRUE(attached.ok()) << attached.status().to_string();
    port = attached.value();
  }
  bool take(Packet& packet, Frame& frame) {
    if (!inbox->front(packet, frame))
      return false;
    inbox->pop();
    return true;
  }
  std::vector<uint32_t> give_back() {
    std::vector<uint32_t> nudged;
    inbox->give_back(/*all=*/true, [&](uint32_t rank) { nudged.push_back(rank); });
    return nudged;
  }

  struct Free {
    void operator()(void* pointer) const { std::free(pointer); }
  };
  std::unique_ptr<void, Free> memory;
  std::unique_ptr<Inbox> inbox;
  InboxHeader* header = nullptr;
  InboxPort port;
};

TEST_F(InboxTest, AttachRefusesOtherMemoryAndOtherNonces) {
  open(4);
  const size_t bytes = Inbox::bytes_for(4);
  const auto code = [&](size_t size) { return InboxPort::attach(memory.get(), size, kNonce).status().code(); };
  EXPECT_EQ(InboxPort::attach(memory.get(), bytes, kNonce + 1).status().code(), Code::kNotFound);
  EXPECT_EQ(code(bytes - 1), Code::kInvalidArgument);
  EXPECT_EQ(code(16), Code::kInvalidArgument);
  for (const uint32_t slots : {0u, 1u, 3u, 8u, 1u << 20, ~0u}) {
    header->slots = slots;
    EXPECT_EQ(code(bytes), Code::kInvalidArgument) << slots;
  }
  header->slots = 4;
  header->slot_bytes += 64;
  EXPECT_EQ(code(bytes), Code::kInvalidArgument);
  header->slot_bytes -= 64;
  ++header->version;
  EXPECT_EQ(code(bytes), Code::kInvalidArgument);
  --header->version;
  ++header->magic;
  EXPECT_EQ(code(bytes), Code::kInvalidArgument);
}

TEST_F(InboxTest, AProducerThatFindsItFullIsNudgedWhenThereIsRoom) {
  open(4);
  Packet packet;
  Frame frame;
  for (int round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < 4; ++i)
      ASSERT_TRUE(port.push(atomic_packet(0, i), {}));
    ASSERT_FALSE(port.push(atomic_packet(0, 9), {}));
    EXPECT_FALSE(port.await_room(3));
    EXPECT_FALSE(port.await_room(4000));
    EXPECT_TRUE(inbox->waiting());
    for (uint32_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(take(packet, frame));
      EXPECT_EQ(packet.token, i);
    }
    ASSERT_FALSE(port.push(atomic_packet(0, 9), {}));  // popped, but not returned
    EXPECT_FALSE(inbox->waiting());
    EXPECT_EQ(give_back(), (std::vector<uint32_t>{3, 4000}));
    EXPECT_TRUE(port.await_room(3));
  }
  EXPECT_EQ(header->nudged.load(), 0u);
  port.nudge();
  EXPECT_TRUE(inbox->waiting());
  EXPECT_TRUE(inbox->take_nudge());
  EXPECT_FALSE(inbox->take_nudge());
  EXPECT_FALSE(inbox->waiting());
}

// A producer takes a slot and never fills it. Once the consumer knows, it skips the slot, and
// everything else arrives.
TEST_F(InboxTest, ASlotThatIsNeverFilledNamesItsProducerAndIsSkipped) {
  open(4);
  Packet packet;
  Frame frame;
  EXPECT_EQ(inbox->unfinished(), std::nullopt);
  ASSERT_TRUE(port.push(atomic_packet(0, 1), {}));
  ASSERT_TRUE(port.take(InboxHeader::kMaxProducers - 1));
  EXPECT_EQ(inbox->unfinished(), std::nullopt) << "the unfinished slot is not at the front";
  ASSERT_TRUE(port.push(atomic_packet(0, 2), {}));
  ASSERT_TRUE(take(packet, frame));
  EXPECT_EQ(packet.token, 1u);
  EXPECT_FALSE(take(packet, frame));
  EXPECT_FALSE(inbox->waiting());  // no thread spins on it
  EXPECT_EQ(inbox->unfinished(), InboxHeader::kMaxProducers - 1);
  inbox->pop();
  EXPECT_EQ(inbox->unfinished(), std::nullopt);
  for (uint32_t token = 2; token < 20; ++token) {
    ASSERT_TRUE(take(packet, frame)) << token;
    EXPECT_EQ(packet.token, token);
    give_back();
    ASSERT_TRUE(port.push(atomic_packet(0, token + 1), {}));
  }
}

// The tail is only a hint: a slow producer may set it back by rounds.
TEST_F(InboxTest, ATailThatLagsOnlyCostsALongerSearch) {
  open(4);
  Packet packet;
  Frame frame;
  uint32_t token = 0;
  for (const uint64_t lag : {1u, 3u, 4u, 5u, 40u, 41u, 43u}) {
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(port.push(atomic_packet(0, ++token), {}));
      ASSERT_TRUE(take(packet, frame));
      ASSERT_EQ(packet.token, token);
      give_back();
    }
    const uint64_t tail = header->tail;
    header->tail = tail - lag;
    for (int i = 1; i <= 4; ++i)
      ASSERT_TRUE(port.push(atomic_packet(0, token + static_cast<uint32_t>(i)), {})) << lag;
    header->tail = tail - lag;
    EXPECT_FALSE(port.push(atomic_packet(0, 0), {})) << lag;
    EXPECT_FALSE(port.await_room(1)) << "it is full although the tail lags by " << lag;
    for (int i = 1; i <= 4; ++i) {
      ASSERT_TRUE(take(packet, frame));
      ASSERT_EQ(packet.token, ++token);
    }
    give_back();
  }
}

TEST_F(InboxTest, InvalidDataHangsNoProducerAndKeepsTheConsumerInBounds) {
  open(4);
  Packet packet;
  Frame frame;
  const std::byte payload[8] = {};
  ASSERT_TRUE(port.push(write_packet(0, 1, 8), {.payload_bytes = 8, .payload = payload}));
  auto* slots = reinterpret_cast<nicsim::Slot*>(static_cast<std::byte*>(memory.get()) + Inbox::bytes_for(0));
  slots[0].payload_bytes = ~0u;
  ASSERT_TRUE(take(packet, frame));
  EXPECT_EQ(frame.payload_bytes, Inbox::kInlineBytes);
  for (uint32_t i = 0; i < 4; ++i)
    slots[i].state = ~uint64_t{0} >> 8;
  EXPECT_FALSE(port.push(atomic_packet(0, 1), {}));
  EXPECT_FALSE(take(packet, frame));
}

const WireCase kShm{"", [] { return std::move(make_shm_wire().value()); }};

// The inbox of a shared-memory wire, to push frames into by hand.
struct OpenInbox {
  explicit OpenInbox(const Wire& wire) : address(*ShmAddress::decode(wire.address())) {}
  const ShmAddress address;
  PeerSegment segment = std::move(PeerSegment::open(address).value());
  InboxPort port = InboxPort::attach(segment.base(), segment.bytes(), address.nonce).value();
};

// Frames that no wire sends, pushed straight into its inbox.
TEST(ShmWire, InvalidFramesFromAnotherProcessAreDropped) {
  Job job(kShm, 2);
  Wire& wire = *job.wires[1];
  OpenInbox inbox(wire);
  InboxPort& port = inbox.port;
  std::vector<std::byte> payload(4096);
  const Frame short_frame{.payload_bytes = 8, .payload = payload.data()};
  Packet strange = atomic_packet(0, 0);
  strange.kind = static_cast<PacketKind>(77);
  port.push(strange, {});
  port.push(atomic_packet(2, 0), {});  // no such rank
  port.push(atomic_packet(~0u, 0), {});
  port.push(write_packet(1, 0, 5000),
            {.kind = FrameKind::kOffer, .value = 16});  // from itself, at an address where nothing is
  port.push(write_packet(0, 0, 9), short_frame);
  port.push(write_packet(0, 0, uint64_t{1} << 60), short_frame);
  port.push(write_packet(0, 0, 8), {});  // the payload is missing
  port.push(write_packet(0, 0, 8), {.kind = FrameKind::kOffer, .value = 1});
  port.push(atomic_packet(0, 0), {.kind = FrameKind::kOffer, .value = 1});
  port.push(write_packet(0, 0, 1 << 20), {.kind = FrameKind::kPull});
  port.push(write_packet(0, 0, 4096), {.kind = FrameKind::kChunk, .payload_bytes = 4096, .payload = payload.data()});
  Packet strange_share = write_packet(0, 0, 1 << 20);
  for (uint64_t index : {uint64_t{0}, uint64_t{InboxHeader::kMaxShared}, ~uint64_t{0}}) {
    strange_share.operand = index;
    port.push(strange_share, {.kind = FrameKind::kInvite, .value = 1});
    port.push(strange_share, {.kind = FrameKind::kHelped, .value = 1 << 20});
  }
  port.push(write_packet(0, 0, 8), {.kind = static_cast<FrameKind>(99)});
  TestSink sink;
  sink.memory[1] = payload.data();
  while (wire.poll(sink) > 0) {
  }
  EXPECT_TRUE(sink.events.empty());
  job.wires[0]->send(1, atomic_packet(0, 5), nullptr);
  while (wire.poll(sink) > 0) {
  }
  EXPECT_EQ(sink.count(What::kAtomic), 1u);
}

// Any process that can send to an inbox can damage it. Its owner then reads nothing more, but
// no sender hangs.
TEST(ShmWire, APeerWithADamagedInboxIsLostAndHangsNoSender) {
  Result<std::unique_ptr<Wire>> made[2] = {make_shm_wire({.slots = 4}), make_shm_wire({.slots = 4})};
  ASSERT_TRUE(made[0].ok() && made[1].ok());
  Wire& wire = *made[0].value();
  const std::vector<nic::Address> addresses{wire.address(), made[1].value()->address()};
  ASSERT_TRUE(wire.set_peers(addresses, 0).ok());
  OpenInbox inbox(*made[1].value());
  TestSink sink;
  wire.send(1, atomic_packet(0, 1), nullptr);
  auto* slots = reinterpret_cast<nicsim::Slot*>(static_cast<std::byte*>(inbox.segment.base()) + Inbox::bytes_for(0));
  for (int i = 0; i < 4; ++i)
    slots[i].state = ~uint64_t{0} >> 8;
  for (int i = 0; i < 3; ++i) {
    wire.send(1, atomic_packet(0, 2), nullptr);
    wire.poll(sink);
  }
  EXPECT_EQ(sink.count(What::kLost), 1u);
}

// A peer ends while it fills a slot. Packets of other peers arrive, even if the receiver has not
// heard of that peer before.
TEST(ShmWire, AProducerThatEndsInsideAFrameDelaysNoOther) {
  for (const bool known : {false, true}) {
    SCOPED_TRACE(known ? "it had sent before" : "its first frame");
    Job job(kShm, 3);
    if (known)
      job.wires[1]->send(0, atomic_packet(1, 7), nullptr);
    OpenInbox inbox(*job.wires[0]);
    ASSERT_TRUE(inbox.port.take(1));
    job.wires[1].reset();
    for (uint32_t token = 0; token < 1000; ++token)  // more than the inbox holds
      job.wires[2]->send(0, atomic_packet(2, token), nullptr);
    EXPECT_TRUE(job.pump([&] { return job.sinks[0].count(What::kAtomic) == (known ? 1001u : 1000u); }));
    EXPECT_EQ(job.sinks[0].count(What::kLost), 1u);
  }
}

// The source claims to have copied more than there was. No byte beyond the write is touched,
// and it lands.
TEST(ShmWire, ASourceThatClaimsTooManyBytesDoesNoHarm) {
  Job job(kShm, 2);
  Wire& wire = *job.wires[1];
  OpenInbox inbox(wire);
  InboxPort& port = inbox.port;
  constexpr uint64_t kBytes = 4 * Wire::kPortionBytes;
  const std::vector<std::byte> source(2 * kBytes, std::byte{1});
  Buffer target(kBytes);
  TestSink sink;
  sink.memory[7] = target.data();
  const Packet packet = write_packet(0, 1, kBytes, /*key=*/7);
  ASSERT_TRUE(port.push(packet, {.kind = FrameKind::kOffer, .value = reinterpret_cast<uint64_t>(source.data())}));
  wire.poll(sink);
  Packet answer = packet;
  answer.operand = 0;
  ASSERT_TRUE(port.push(answer, {.kind = FrameKind::kHelped, .value = ~uint64_t{0} - 5}));
  for (int i = 0; i < 1000; ++i)
    wire.poll(sink);
  EXPECT_EQ(sink.count(What::kLanded), 1u);
  EXPECT_TRUE(target.guards_hold());
}

// The consumer waits for a producer that is only slow, though another peer has ended.
TEST(ShmWire, ASlowProducersFrameIsNotSkipped) {
  Job job(kShm, 3);
  job.wires[1]->send(0, atomic_packet(1, 1), nullptr);
  job.wires[2]->send(0, atomic_packet(2, 1), nullptr);
  ASSERT_TRUE(job.pump([&] { return job.sinks[0].count(What::kAtomic) == 2; }));
  OpenInbox inbox(*job.wires[0]);
  InboxPort& port = inbox.port;
  const std::optional<uint64_t> position = port.take(1);
  ASSERT_TRUE(position);
  job.wires[2].reset();
  ASSERT_TRUE(job.pump([&] { return job.sinks[0].count(What::kLost) == 1; }));
  job.pump([] { return false; }, milliseconds(300));  // longer than any check interval
  EXPECT_EQ(job.sinks[0].count(What::kAtomic), 2u);
  port.fill(*position, atomic_packet(1, 2), {});
  EXPECT_TRUE(job.pump([&] { return job.sinks[0].count(What::kAtomic) == 3; }));
}

// Distinguishes a process that has ended from memory that is not mapped.
TEST(RemoteCopies, TellEndedProcessesFromUnmappedMemory) {
  std::vector<std::byte> here(64);
  EXPECT_EQ(nicsim::read_remote(::getpid(), 16, here.data(), here.size()), nicsim::RemoteCopy::kUnmapped);
  EXPECT_EQ(nicsim::write_remote(::getpid(), here.data(), 16, here.size()), nicsim::RemoteCopy::kUnmapped);
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(0);
  const auto there = reinterpret_cast<uint64_t>(here.data());
  siginfo_t ended;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(nicsim::read_remote(child, there, here.data(), here.size()), nicsim::RemoteCopy::kGone)
      << "the process has not been waited for";
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(nicsim::read_remote(child, there, here.data(), here.size()), nicsim::RemoteCopy::kGone);
}

// ---- The bell

TEST(Bell, MakesNoCallIfNoThreadSleepsOrOneAttends) {
  Bell bell;
  bell.ring();
  bell.wake(Sleeper::kHelper);
  bell.wake(Sleeper::kOwner);
  bell.hand_over();
  bell.attend();
  bell.ring();
  bell.hand_over();
  bell.leave([] { return true; });
  EXPECT_EQ(bell.calls(), 0u);
}

// A helper whose time is over may be the one that a sender has woken.
TEST(Bell, AHelperThatStopsPollingRingsAgain) {
  Bell bell;
  std::atomic<bool> visible{false};
  std::thread owner([&] {
    bell.sleep(
        Sleeper::kOwner, seconds(60), [] { return false; },
        [&] {
          visible = true;
          return true;
        });
  });
  while (!visible)
    std::this_thread::yield();
  // It finds a packet when it is about to sleep, but has no reason to poll itself.
  bell.sleep(
      Sleeper::kHelper, seconds(60), [] { return true; }, [] { return false; });
  owner.join();
  EXPECT_EQ(bell.calls(), 1u);
}

}  // namespace
}  // namespace lanyard::wire_contract
