// The contract of nicsim/wire/wire.h, written once for every wire. A test file includes this and
// instantiates the suite:
//
//   INSTANTIATE_TEST_SUITE_P(Name, WireContract, ::testing::Values(WireCase{...}), case_name);
//
// This file holds W1 to W4 and set_peers(); sleep is in wire_contract_sleep.h, processes and their
// death in wire_contract_processes.h.
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

TEST_P(WireContract, PeersAreToldOnceAndOnlyWithOwnAddressInPlace) {
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
  EXPECT_NE(unknown.message().find("peer 1"), std::string::npos) << unknown.message();
  EXPECT_NE(unknown.message().find("LANYARD_SIM_WIRE"), std::string::npos) << unknown.message();
  EXPECT_TRUE(a->set_peers(both, 0).ok());  // the failures have changed nothing
  EXPECT_EQ(a->set_peers(both, 0).code(), Code::kInvalidState);
}

TEST_P(WireContract, PollBeforeThePeersAreKnownDoesNothing) {
  std::unique_ptr<Wire> wire = GetParam().make();
  TestSink sink;
  EXPECT_EQ(wire->poll(sink), 0u);
  wire->sleep(Sleeper::kHelper, milliseconds(1), nullptr, nullptr);
  EXPECT_TRUE(sink.events.empty());
}

TEST_P(WireContract, WhatIsSentBeforeTheReceiverKnowsItsPeersArrivesLater) {
  std::unique_ptr<Wire> a = GetParam().make();
  std::unique_ptr<Wire> b = GetParam().make();
  const std::vector<nic::Address> both{a->address(), b->address()};
  TestSink sink_a, sink_b;
  ASSERT_TRUE(a->set_peers(both, 0).ok());
  a->send(1, atomic_packet(0, 7), nullptr);
  for (int i = 0; i < 10; ++i) {
    a->poll(sink_a);
    b->poll(sink_b);
  }
  EXPECT_TRUE(sink_b.events.empty());
  ASSERT_TRUE(b->set_peers(both, 1).ok());
  for (const auto start = steady_clock::now(); sink_b.events.empty() && steady_clock::now() - start < kPatience;) {
    a->poll(sink_a);
    b->poll(sink_b);
  }
  EXPECT_EQ(sink_b.count(What::kAtomic), 1u);
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
    EXPECT_EQ(got.compare, sent[i].compare);
  }
}

// Both send far more than fits anywhere before either looks.
TEST_P(WireContract, W2_TwoThatFloodEachOtherBothGoOn) {
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

TEST_P(WireContract, W1_EightToEachOther) {
  constexpr uint32_t kRanks = 8, kCount = 500 / kSlow, kBytes = 5000;
  Job job(GetParam(), kRanks);
  std::vector<std::vector<std::byte>> source(kRanks), target(kRanks);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    source[rank].resize(kBytes);
    fill(source[rank].data(), kBytes, rank);
    target[rank].resize(kBytes * kRanks);
    job.sinks[rank].answers = job.wires[rank].get();
    for (uint32_t peer = 0; peer < kRanks; ++peer)
      job.sinks[rank].memory[peer + 1] = target[rank].data() + peer * kBytes;
  }
  for (uint32_t i = 0; i < kCount; ++i) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      for (uint32_t peer = 0; peer < kRanks; ++peer) {
        if (peer == rank)
          continue;
        const uint64_t bytes = i % 50 == 0 ? kBytes : i % 100;
        job.wires[rank]->send(peer, write_packet(rank, i, bytes, rank + 1), source[rank].data());
      }
      job.poll(rank);
    }
  }
  ASSERT_TRUE(job.pump([&] {
    return std::all_of(job.sinks.begin(), job.sinks.end(), [&](const TestSink& sink) {
      return sink.count(What::kAck) == kCount * (kRanks - 1) && sink.count(What::kLanded) == kCount * (kRanks - 1);
    });
  }));
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    std::vector<uint32_t> next(kRanks, 0);
    for (const Event& event : job.sinks[rank].events) {
      if (event.what != What::kPlaced)
        continue;
      ASSERT_EQ(event.packet.token, next[event.packet.source]++);
    }
    for (uint32_t peer = 0; peer < kRanks; ++peer) {
      if (peer == rank)
        continue;
      EXPECT_EQ(next[peer], kCount);
      EXPECT_EQ(first_difference(target[rank].data() + peer * kBytes, kBytes, peer), kBytes);
    }
  }
}

// A NIC refuses a write as soon as it has seen its head. The initiator's operation has ended then, and its memory may
// go, though most of the payload has not been sent.
TEST_P(WireContract, W2_APayloadIsNotReadAnyMoreOnceItsAckIsHere) {
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
    // A NIC acknowledges what has landed; afterwards the payload is the initiator's again.
    job.wires[1]->send(0, {.kind = PacketKind::kAck, .source = 1, .token = token}, nullptr);
    ASSERT_TRUE(job.pump([&] { return job.sinks[0].count(What::kAck) == token + 1; }));
    std::fill(source.begin(), source.end(), std::byte{0xEE});
    job.settle(milliseconds(2));
    EXPECT_EQ(first_difference(target.data(), bytes, token), bytes);
    job.sinks[1].events.clear();
    ++token;
  }
}

// A loan travels with its packet whatever the message's length is; other packets go before and after it, in order.
TEST_P(WireContract, W1_PullsCarryTheirLoan) {
  Job job(GetParam(), 2);
  constexpr uint32_t kPulls = 200;
  std::vector<std::vector<std::byte>> loans(kPulls, std::vector<std::byte>(nicsim::kLoanBytes));
  std::vector<std::byte> text(9), target(9);
  fill(text.data(), text.size(), 5);
  job.sinks[1].memory[1] = target.data();
  EXPECT_TRUE(job.wires[0]->shares_host(1));
  for (uint32_t i = 0; i < kPulls; ++i) {
    fill(loans[i].data(), loans[i].size(), i);
    const Packet pull{.kind = PacketKind::kPull, .token = 2 * i, .bytes = uint64_t{i} << 20, .operand = i};
    job.wires[0]->send(1, pull, loans[i].data());
    job.wires[0]->send(1, write_packet(0, 2 * i + 1, text.size()), text.data());
  }
  ASSERT_TRUE(job.pump([&] { return job.sinks[1].count(What::kLanded) == kPulls; }));
  ASSERT_EQ(job.sinks[1].loans.size(), kPulls);
  EXPECT_TRUE(job.sinks[1].loans == loans);
  uint32_t token = 0;
  for (const Event& event : job.sinks[1].events) {
    if (event.what != What::kPull && event.what != What::kLanded)
      continue;
    EXPECT_EQ(event.packet.token, token);
    EXPECT_EQ(event.what, token % 2 == 0 ? What::kPull : What::kLanded);
    if (token % 2 == 0) {
      EXPECT_EQ(event.packet.bytes, uint64_t{token / 2} << 20);
      EXPECT_EQ(event.packet.operand, token / 2);
      job.wires[1]->send(0, {.kind = PacketKind::kCannotPull, .source = 1, .token = token}, nullptr);
    }
    ++token;
  }
  ASSERT_TRUE(job.pump([&] { return job.sinks[0].count(What::kCannotPull) == kPulls; }));
}

TEST_P(WireContract, W4_LongWritesCostManyShortPolls) {
  Job job(GetParam(), 2);
  constexpr uint64_t kBytes = uint64_t{16} << 20;
  std::vector<std::byte> source(kBytes), target(kBytes);
  job.sinks[1].memory[1] = target.data();
  job.wires[0]->send(1, write_packet(0, 1, kBytes), source.data());
  size_t polls = 0;  // of both sides: either may be the one that copies
  const steady_clock::time_point deadline = steady_clock::now() + kPatience;
  while (job.sinks[1].count(What::kLanded) == 0 && steady_clock::now() < deadline) {
    polls += job.poll(0) > 0;
    polls += job.poll(1) > 0;
  }
  EXPECT_EQ(job.sinks[1].count(What::kLanded), 1u);
  EXPECT_GE(polls, kBytes / Wire::kPortionBytes);
}

TEST_P(WireContract, W4_LongWritesBothWaysAndShortOnesBetweenThem) {
  Job job(GetParam(), 3);
  constexpr uint64_t kBytes = (uint64_t{3} << 20) + 17;
  constexpr uint32_t kLong = 4, kShort = 200;
  std::vector<std::byte> source(kBytes);
  fill(source.data(), kBytes, 5);
  std::vector<std::vector<Buffer>> targets(3);
  std::vector<std::byte> short_target(64);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    job.sinks[rank].answers = job.wires[rank].get();
    job.sinks[rank].memory[99] = short_target.data();
    for (uint32_t i = 0; i < 3 * kLong; ++i)
      targets[rank].emplace_back(kBytes);
    for (uint32_t i = 0; i < 3 * kLong; ++i)
      job.sinks[rank].memory[100 + i] = targets[rank][i].data();
  }
  for (uint32_t rank = 0; rank < 3; ++rank) {
    for (uint32_t peer = 0; peer < 3; ++peer) {
      if (peer == rank)
        continue;
      uint32_t token = 0;
      for (uint32_t i = 0; i < kLong; ++i) {
        const uint64_t key = 100 + rank * kLong + i;
        job.wires[rank]->send(peer, write_packet(rank, token++, kBytes, key), source.data());
        for (uint32_t k = 0; k < kShort; ++k)
          job.wires[rank]->send(peer, write_packet(rank, token++, 64, 99), source.data());
      }
    }
  }
  constexpr size_t kAll = 2 * kLong * (kShort + 1);
  ASSERT_TRUE(job.pump([&] {
    return std::all_of(job.sinks.begin(), job.sinks.end(),
                       [](const TestSink& sink) { return sink.count(What::kAck) == kAll; });
  }));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job.sinks[rank].count(What::kLanded), kAll);
    for (uint32_t i = 0; i < 3 * kLong; ++i) {
      if (i / kLong == rank)
        continue;
      EXPECT_EQ(first_difference(targets[rank][i].data(), kBytes, 5), kBytes);
      EXPECT_TRUE(targets[rank][i].guards_hold());
    }
  }
}

// Each rank has a thread that polls, so both may copy at the same moment. As soon as a write has
// landed the memory is the sink's own: nothing is written there any more.
// ---- W7

// The sender does nothing after its send(), so that the write stands still once the receiver has all there is.
TEST_P(WireContract, W7_AWriteThatStandsStillIsGivenUp) {
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
    return;  // it needed the sender for nothing

  EXPECT_TRUE(job.wires[1]->give_up_stalled(1, job.sinks[1]));
  EXPECT_TRUE(job.wires[1]->give_up_stalled(2, job.sinks[1]));
  EXPECT_TRUE(job.wires[1]->give_up_stalled(2, job.sinks[1]));
  EXPECT_EQ(job.sinks[1].count(What::kAbandoned), 0u) << "looked at once; and another region";
  job.poll(0);
  job.poll(0);
  take_all();
  EXPECT_TRUE(job.wires[1]->give_up_stalled(1, job.sinks[1]));
  EXPECT_EQ(job.sinks[1].count(What::kAbandoned), 0u) << "it has grown";
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

TEST_P(WireContract, W4_TwoThreadsExchangeLongWrites) {
  Job job(GetParam(), 2);
  constexpr uint32_t kRounds = 40 / kSlow, kAtOnce = 4;
  constexpr uint64_t kSizes[] = {131072, 131073, 200001, 262144, 777777, (uint64_t{3} << 20) + 17};
  constexpr uint64_t kLongest = kSizes[std::size(kSizes) - 1];
  constexpr std::byte kMine{0x3C};
  const auto play = [&](uint32_t rank) {
    TestSink& sink = job.sinks[rank];
    sink.answers = job.wires[rank].get();
    std::vector<Buffer> sources, targets;
    for (uint32_t i = 0; i < 2 * kAtOnce; ++i) {  // the peer may be one round ahead
      sources.emplace_back(kLongest + 2 * i + 1);
      targets.emplace_back(kLongest + 64);
      sink.memory[i] = targets[i].data();
    }
    size_t wrong = 0;
    sink.on_event = [&](const Event& event) {
      if (event.what != What::kLanded)
        return;
      const Packet& packet = event.packet;
      std::byte* begin = targets[packet.key].data() + packet.offset;
      wrong += first_difference(begin, packet.bytes, packet.token) != packet.bytes;
      std::fill(begin, begin + packet.bytes, kMine);
    };
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint64_t bytes = kSizes[round % std::size(kSizes)];
      const uint32_t first = round % 2 * kAtOnce;
      for (uint32_t i = first; i < first + kAtOnce; ++i) {
        const uint32_t token = round * kAtOnce + i - first;
        std::byte* payload = sources[i].data() + 2 * i + 1;
        fill(payload, bytes, token);
        job.wires[rank]->send(1 - rank, write_packet(rank, token, bytes, i, round % 61), payload);
      }
      const size_t all = (round + 1) * kAtOnce;
      const steady_clock::time_point deadline = steady_clock::now() + kPatience;
      while (sink.count(What::kAck) < all || sink.count(What::kLanded) < all) {
        if (job.poll(rank) == 0)
          std::this_thread::yield();
        if (steady_clock::now() > deadline)
          return false;
      }
      for (uint32_t i = first; i < first + kAtOnce; ++i) {
        const std::byte* begin = targets[i].data() + round % 61;
        wrong += std::any_of(begin, begin + bytes, [&](std::byte byte) { return byte != kMine; });
        wrong += !targets[i].guards_hold();
      }
      if (wrong > 0)
        return false;
    }
    return true;
  };
  bool other_well = false;
  std::thread other([&] { other_well = play(1); });
  EXPECT_TRUE(play(0));
  other.join();
  EXPECT_TRUE(other_well);
}

TEST_P(WireContract, RefusedWritesAreThrownAwayAndTheNextArrive) {
  Job job(GetParam(), 2);
  std::vector<std::byte> source(200000);
  fill(source.data(), source.size(), 9);
  Buffer target(source.size());
  job.sinks[1].memory[1] = target.data();
  uint32_t token = 0;
  for (uint64_t bytes : {uint64_t{0}, uint64_t{8}, uint64_t{4096}, uint64_t{4097}, uint64_t{200000}}) {
    job.wires[0]->send(1, write_packet(0, token++, bytes, /*key=*/666), source.data());
    job.wires[0]->send(1, write_packet(0, token++, bytes), source.data());
  }
  TestSink& sink = job.sinks[1];
  ASSERT_TRUE(
      job.pump([&] { return sink.count(What::kLanded) == token / 2 && sink.count(What::kThrownAway) == token / 2; }));
  for (const Event& event : sink.events) {
    const bool refused = event.what == What::kRefused || event.what == What::kThrownAway;
    EXPECT_EQ(refused, event.packet.token % 2 == 0);
  }
  EXPECT_EQ(first_difference(target.data(), source.size(), 9), source.size());
  EXPECT_TRUE(target.guards_hold());
}

}  // namespace lanyard::wire_contract

#endif  // LANYARD_TESTS_WIRE_CONTRACT_H_
