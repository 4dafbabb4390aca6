// The contract of nicsim/wire/wire.h for every wire. This file tests W1 to W4, W7, W8 and
// set_peers(), wire_contract_sleep.h tests sleep, and wire_contract_processes.h processes that end.
// To instantiate it:
//
//   INSTANTIATE_TEST_SUITE_P(Name, WireContract, ::testing::Values(WireCase{...}), case_name);
#ifndef LANYARD_TESTS_WIRE_CONTRACT_H_
#define LANYARD_TESTS_WIRE_CONTRACT_H_

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "tests/nicsim/wire_contract_fixture.h"
#include "tests/nicsim/wire_contract_processes.h"
#include "tests/nicsim/wire_contract_sleep.h"

namespace lanyard::wire_contract {

// ---- set_peers()

TEST_P(WireContract, PeersAreSetOnceWithTheOwnAddressAtItsRank) {
  std::unique_ptr<Wire> a = GetParam().make();
  std::unique_ptr<Wire> b = GetParam().make();
  const std::vector<nic::Address> both{a->address(), b->address()};
  EXPECT_LE(a->address().bytes.size(), nic::Address::kMaxBytes);
  EXPECT_EQ(a->set_peers(both, 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(a->set_peers(both, 2).code(), Code::kInvalidArgument);
  nic::Address garbage;
  garbage.bytes.resize(40);
  const Status unknown = a->set_peers(std::vector{a->address(), garbage}, 0);
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  EXPECT_TRUE(has(unknown, "peer 1"));
  EXPECT_TRUE(has(unknown, "LANYARD_SIM_WIRE"));
  EXPECT_TRUE(a->set_peers(both, 0).ok());  // the refused calls have changed nothing
  EXPECT_EQ(a->set_peers(both, 0).code(), Code::kInvalidState);
}

// Polls `a`, and `b` unless it is null, until done().
template <typename Done>
bool poll_until(Done done, Wire& a, TestSink& sink_a, Wire* b, TestSink& sink_b) {
  const auto drive = [&] {
    a.poll(sink_a);
    if (b != nullptr)
      b->poll(sink_b);
  };
  return eventually(done, drive, kPatience);
}

TEST_P(WireContract, PacketsSentBeforeTheReceiverKnowsItsPeersArriveLater) {
  std::unique_ptr<Wire> a = GetParam().make();
  std::unique_ptr<Wire> b = GetParam().make();
  const std::vector<nic::Address> both{a->address(), b->address()};
  TestSink sink_a, sink_b;
  EXPECT_EQ(a->poll(sink_a), 0u);
  a->sleep(Sleeper::kHelper, milliseconds(1));
  ASSERT_TRUE(a->set_peers(both, 0).ok());
  a->send(1, atomic_packet(0, 7), nullptr);
  for (int i = 0; i < 10; ++i) {
    a->poll(sink_a);
    b->poll(sink_b);
  }
  EXPECT_TRUE(sink_b.events.empty());
  ASSERT_TRUE(b->set_peers(both, 1).ok());
  EXPECT_TRUE(poll_until([&] { return sink_b.count(What::kAtomic) == 1; }, *a, sink_a, b.get(), sink_b));
}

TEST_P(WireContract, W8_PacketsOfAnUnknownNicArriveAndAreAnswered) {
  std::unique_ptr<Wire> a = GetParam().make();
  std::unique_ptr<Wire> b = GetParam().make();
  const std::unique_ptr<Wire> other = GetParam().make();
  TestSink sink_a, sink_b;
  sink_b.self = 1;
  const auto until = [&](const auto& done) { return poll_until(done, *a, sink_a, b.get(), sink_b); };
  ASSERT_TRUE(a->set_peers(std::vector{a->address(), nic::Address{}}, 0).ok());
  ASSERT_TRUE(b->set_peers(std::vector{nic::Address{}, b->address()}, 1).ok());
  ASSERT_TRUE(b->add_peer(0, a->address()).ok());
  b->send(0, atomic_packet(1, 7), nullptr);
  ASSERT_TRUE(until([&] { return sink_a.count(What::kAtomic) == 1; }));
  a->send(1, {.kind = PacketKind::kAck, .source = 0, .token = 7}, nullptr);
  ASSERT_TRUE(until([&] { return sink_b.count(What::kAck) == 1; }));
  EXPECT_EQ(a->add_peer(1, other->address()).code(), Code::kInvalidArgument);
  EXPECT_EQ(a->add_peer(2, b->address()).code(), Code::kInvalidArgument);
  EXPECT_EQ(a->add_peer(1, nic::Address{}).code(), Code::kInvalidArgument);
  ASSERT_TRUE(a->add_peer(1, b->address()).ok());
  a->send(1, atomic_packet(0, 8), nullptr);
  ASSERT_TRUE(until([&] { return sink_b.count(What::kAtomic) == 1; }));
  b.reset();
  EXPECT_TRUE(until([&] { return sink_a.count(What::kLost) == 1; }));
}

TEST_P(WireContract, W6_AnUnknownSenderThatEndsIsReported) {
  std::unique_ptr<Wire> a = GetParam().make();
  std::unique_ptr<Wire> b = GetParam().make();
  TestSink sink_a, sink_b;
  sink_b.self = 1;
  ASSERT_TRUE(a->set_peers(std::vector{a->address(), nic::Address{}}, 0).ok());
  ASSERT_TRUE(b->set_peers(std::vector{a->address(), b->address()}, 1).ok());
  b->send(0, atomic_packet(1, 7), nullptr);
  const auto until = [&](const auto& done) { return poll_until(done, *a, sink_a, b.get(), sink_b); };
  ASSERT_TRUE(until([&] { return sink_a.count(What::kAtomic) == 1; }));
  b.reset();
  EXPECT_TRUE(until([&] { return sink_a.count(What::kLost) == 1; }));
}

// ---- W1, W2

TEST_P(WireContract, W1_AllKindsArriveInOrderOnceAndUnchanged) {
  Job job(GetParam(), 2);
  constexpr uint32_t kCount = 3000 / kSlow;
  std::vector<std::byte> source(4096), target(4096);
  job.sinks[1].memory[1] = target.data();
  std::vector<Packet> sent;
  for (uint32_t i = 0; i < kCount; ++i) {
    switch (i % 3) {
      case 0: sent.push_back(write_packet(0, i, i % 4097)); break;
      case 1: sent.push_back(atomic_packet(0, i)); break;
      case 2:
        sent.push_back(
            {.kind = PacketKind::kAck, .code = Code::kNotFound, .source = 0, .token = i, .operand = uint64_t{i} << 40});
        break;
    }
    job.wires[0]->send(1, sent.back(), i % 3 == 0 ? source.data() : nullptr);
    if (i % 7 == 0)
      job.poll(1);
  }
  TestSink& sink = job.sinks[1];
  const auto arrived = [&] { return sink.count(What::kLanded) + sink.count(What::kAtomic) + sink.count(What::kAck); };
  ASSERT_TRUE(job.pump([&] { return arrived() >= kCount; }));
  job.settle();
  std::erase_if(sink.events, [](const Event& event) { return event.what == What::kPlaced; });
  ASSERT_EQ(sink.events.size(), sent.size());
  for (uint32_t i = 0; i < kCount; ++i) {
    const Packet& got = sink.events[i].packet;
    ASSERT_EQ(got.token, i);
    EXPECT_EQ(got.kind, sent[i].kind);
    EXPECT_EQ(got.atomic, sent[i].atomic);
    EXPECT_EQ(got.code, sent[i].code);
    EXPECT_EQ(got.source, 0u);
    EXPECT_EQ(got.key, sent[i].key);
    EXPECT_EQ(got.offset, sent[i].offset);
    EXPECT_EQ(got.bytes, sent[i].bytes);
    EXPECT_EQ(got.operand, sent[i].operand);
    EXPECT_EQ(got.loan, sent[i].loan);
  }
}

// Both send far more than any buffer holds before either polls.
TEST_P(WireContract, W2_TwoNicsThatFloodEachOtherBothGoOn) {
  Job job(GetParam(), 2);
  constexpr uint32_t kCount = 20000 / kSlow;
  std::vector<std::byte> source(64);
  std::vector<std::byte> target(64);
  for (TestSink& sink : job.sinks)
    sink.memory[1] = target.data();
  for (uint32_t i = 0; i < kCount; ++i) {
    for (uint32_t rank : {0u, 1u})
      job.wires[rank]->send(1 - rank, write_packet(rank, i, i % 65), source.data());
  }
  for (uint32_t rank : {0u, 1u})
    job.sinks[rank].answers = job.wires[rank].get();
  ASSERT_TRUE(
      job.pump([&] { return job.sinks[0].count(What::kAck) >= kCount && job.sinks[1].count(What::kAck) >= kCount; }));
  job.settle();
  for (const TestSink& sink : job.sinks) {
    uint32_t next_write = 0, next_ack = 0;
    for (const Event& event : sink.events) {
      if (event.what == What::kLanded) {
        ASSERT_EQ(event.packet.token, next_write++);
      } else if (event.what == What::kAck) {
        ASSERT_EQ(event.packet.token, next_ack++);
      }
    }
    EXPECT_EQ(next_write, kCount);
    EXPECT_EQ(next_ack, kCount);
  }
}

// A NIC may refuse a write once it has seen its head. Then the initiator may free the memory though
// not all of it was sent.
TEST_P(WireContract, W2_APayloadIsNotReadAfterItsAck) {
  Job job(GetParam(), 2);
  constexpr uint64_t kBytes = (uint64_t{32} << 20) + 5;
  constexpr uint32_t kRounds = 3;
  std::vector<std::byte> source(300), target(300);
  fill(source.data(), source.size(), 7);
  job.sinks[1].memory[1] = target.data();
  job.sinks[1].on_event = [&](const Event& event) {
    if (event.what == What::kRefused)
      job.wires[1]->send(
          0, {.kind = PacketKind::kAck, .code = Code::kNotFound, .source = 1, .token = event.packet.token}, nullptr);
  };
  void* doomed = nullptr;
  job.sinks[0].on_event = [&](const Event& event) {
    if (event.what == What::kAck) {
      EXPECT_EQ(::munmap(std::exchange(doomed, nullptr), kBytes), 0);
    }
  };
  for (uint32_t round = 0; round < kRounds; ++round) {
    doomed = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(doomed, MAP_FAILED);
    job.wires[0]->send(1, write_packet(0, 2 * round, kBytes, /*key=*/666), static_cast<const std::byte*>(doomed));
    job.wires[0]->send(1, write_packet(0, 2 * round + 1, source.size()), source.data());
    ASSERT_TRUE(job.pump([&] {
      return job.sinks[1].count(What::kLanded) + job.sinks[0].count(What::kLost) == round + 1 &&
             job.sinks[0].count(What::kAck) == round + 1;
    }));
    ASSERT_EQ(job.sinks[0].count(What::kLost), 0u);
    ASSERT_EQ(job.sinks[1].count(What::kThrownAway), round + 1);
    EXPECT_EQ(first_difference(target.data(), target.size(), 7), target.size());
    std::fill(target.begin(), target.end(), std::byte{0});
  }
}

// ---- W4

TEST_P(WireContract, W4_EverySizeArrivesExactly) {
  Job job(GetParam(), 2);
  constexpr uint64_t kPortion = Wire::kPortionBytes;
  uint32_t token = 0;
  for (uint64_t bytes : {uint64_t{0},      uint64_t{1},      uint64_t{8},      uint64_t{16},     uint64_t{17},
                         uint64_t{4095},   uint64_t{4096},   uint64_t{4097},   uint64_t{65535},  uint64_t{65536},
                         uint64_t{65537},  uint64_t{131071}, uint64_t{131072}, uint64_t{131073}, uint64_t{266241},
                         uint64_t{524289}, kPortion - 1,     kPortion,         kPortion + 1,     uint64_t{16} << 20}) {
    std::vector<std::byte> source(bytes + 1);
    fill(source.data(), bytes, token);
    Buffer target(bytes);
    job.sinks[1].memory[1] = target.data();
    job.wires[0]->send(1, write_packet(0, token, bytes), source.data());
    ASSERT_TRUE(job.pump([&] { return job.sinks[1].count(What::kLanded) == token + 1; })) << bytes;
    EXPECT_EQ(first_difference(target.data(), bytes, token), bytes);
    EXPECT_TRUE(target.guards_hold()) << bytes;
    const std::vector<Event>& events = job.sinks[1].events;
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].what, What::kPlaced);
    EXPECT_EQ(events[1].packet.bytes, bytes);
    // A NIC acknowledges what has landed. Then the initiator may use the payload again.
    job.wires[1]->send(0, {.kind = PacketKind::kAck, .source = 1, .token = token}, nullptr);
    ASSERT_TRUE(job.pump([&] { return job.sinks[0].count(What::kAck) == token + 1; }));
    std::fill(source.begin(), source.end(), std::byte{0xEE});
    job.settle(milliseconds(2));
    EXPECT_EQ(first_difference(target.data(), bytes, token), bytes);
    job.sinks[1].events.clear();
    ++token;
  }
}

TEST_P(WireContract, W4_LongWritesCostManyShortPolls) {
  Job job(GetParam(), 2);
  constexpr uint64_t kBytes = uint64_t{16} << 20;
  std::vector<std::byte> source(kBytes), target(kBytes);
  job.sinks[1].memory[1] = target.data();
  job.wires[0]->send(1, write_packet(0, 1, kBytes), source.data());
  size_t polls = 0;  // of both sides, since either may copy
  const auto landed = [&] { return job.sinks[1].count(What::kLanded) == 1; };
  EXPECT_TRUE(eventually(landed, [&] {
    polls += job.poll(0) > 0;
    polls += job.poll(1) > 0;
  }));
  EXPECT_GE(polls, kBytes / Wire::kPortionBytes);
}

// ---- W7

// The sender does nothing after send(), so the write stalls once the receiver has read
// what is there.
TEST_P(WireContract, W7_AStalledWriteIsGivenUp) {
  Job job(GetParam(), 2);
  constexpr uint64_t kBytes = uint64_t{48} << 20;  // more than a connection or an inbox holds
  std::vector<std::byte> source(kBytes, std::byte{1});
  Buffer target(kBytes), other(4096);
  job.sinks[1].memory[1] = target.data();
  job.sinks[1].memory[2] = other.data();
  job.wires[0]->send(1, atomic_packet(0, 0), nullptr);
  ASSERT_TRUE(job.pump([&] { return job.sinks[1].count(What::kAtomic) == 1; }));
  job.wires[0]->send(1, write_packet(0, 1, kBytes), source.data());
  const auto take_all = [&] {
    for (int quiet = 0; quiet < 1000; ++quiet) {
      if (job.poll(1) > 0)
        quiet = 0;
      std::this_thread::yield();
    }
  };
  take_all();
  ASSERT_EQ(job.sinks[1].count(What::kPlaced), 1u);
  if (job.sinks[1].count(What::kLanded) == 1)
    return;  // the write did not need the sender

  EXPECT_TRUE(job.wires[1]->give_up_stalled(1, job.sinks[1]));
  EXPECT_TRUE(job.wires[1]->give_up_stalled(2, job.sinks[1]));
  EXPECT_TRUE(job.wires[1]->give_up_stalled(2, job.sinks[1]));
  EXPECT_EQ(job.sinks[1].count(What::kAbandoned), 0u) << "checked only once, and another region";
  job.poll(0);
  job.poll(0);
  take_all();
  EXPECT_TRUE(job.wires[1]->give_up_stalled(1, job.sinks[1]));
  EXPECT_EQ(job.sinks[1].count(What::kAbandoned), 0u) << "the write has grown";
  EXPECT_EQ(target.data()[0], std::byte{1});
  EXPECT_TRUE(job.wires[1]->give_up_stalled(1, job.sinks[1]));
  EXPECT_EQ(job.sinks[1].abandoned_for, std::vector{Code::kNotFound});
  std::fill(target.data(), target.data() + kBytes, std::byte{7});

  job.wires[1]->send(0, {.kind = PacketKind::kAck, .code = Code::kNotFound, .source = 1, .token = 1}, nullptr);
  job.wires[0]->send(1, write_packet(0, 2, 4096, /*key=*/2), source.data());
  ASSERT_TRUE(job.pump([&] { return job.sinks[1].count(What::kLanded) == 1; }));
  job.settle();
  EXPECT_EQ(job.sinks[1].count(What::kLanded), 1u);
  EXPECT_EQ(job.sinks[1].count(What::kAbandoned), 1u);
  EXPECT_EQ(job.sinks[1].count(What::kThrownAway), 0u);
  EXPECT_TRUE(std::all_of(target.data(), target.data() + kBytes, [](std::byte byte) { return byte == std::byte{7}; }));
  EXPECT_EQ(other.data()[4095], std::byte{1});
}

}  // namespace lanyard::wire_contract

#endif  // LANYARD_TESTS_WIRE_CONTRACT_H_
