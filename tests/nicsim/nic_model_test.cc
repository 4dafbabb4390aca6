// NicModel: what the NIC contract over the model (tests/contract) does not show.
#include "nicsim/model/nic_model.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "tests/support/allocation_counter.h"

namespace lanyard::nicsim {
namespace {

using nic::CounterId;
using nic::CounterValue;
using nic::DeferredOp;
using nic::kMaxFailure;
using nic::kMaxSuccess;
using nic::Op;
using nic::OpKind;
using nic::RegionId;

constexpr uint32_t kSelf = 0;
constexpr uint32_t kPeer = 1;

// A model with one registered word, and descriptors that name it.
struct Card {
  explicit Card(const ModelLimits& limits = {}) : model(limits, kSelf) {
    region = model.register_region(&word, sizeof word, {}).value();
  }
  CounterId counter() { return model.open_counter().value(); }
  CounterValue value(CounterId id) { return model.read(id).value(); }
  // An atomic to a peer; `id` comes out again as its packet's offset and its record's context.
  Op sum(uint64_t id = 0, CounterId completion = {}, uint32_t peer = kPeer) {
    Op op;
    op.kind = OpKind::kAtomic;
    op.completion = completion;
    op.local = {region, 0};
    op.remote = {peer, {}, 8 * id};
    op.context = id;
    return op;
  }
  void post(CounterId trigger, uint64_t threshold, const Op& op) {
    const DeferredOp deferred{.op = op, .trigger = trigger, .threshold = threshold};
    ASSERT_TRUE(model.validate(deferred).ok());
    model.post(deferred);
  }
  // Fires whatever may fire, in the model's order; the ids of what was launched.
  std::vector<uint64_t> fire_all() {
    std::vector<uint64_t> ids;
    while (const std::optional<uint32_t> entry = model.ready()) {
      if (const std::optional<Launch> launch = model.fire(*entry)) {
        ids.push_back(launch->packet.offset / 8);
        tokens.push_back(launch->packet.token);
      }
    }
    return ids;
  }
  void ack(uint32_t token, Code code = Code::kOk, uint32_t from = kPeer) {
    model.complete({.kind = PacketKind::kAck, .code = code, .source = from, .token = token});
  }

  NicModel model;
  uint64_t word = 1;
  RegionId region;
  std::vector<uint32_t> tokens;  // of what fire_all() launched
};

using Ids = std::vector<uint64_t>;

// ---- Thresholds and order (N1, N2)

TEST(NicModelOrder, ByThresholdThenByAgeOrAgainstIt) {
  for (const bool newest : {false, true}) {
    Card card({.newest_tie_first = newest});
    const CounterId trigger = card.counter();
    const uint64_t thresholds[] = {5, 3, 5, 1, 3, 4};
    for (uint64_t id = 0; id < 6; ++id)
      card.post(trigger, thresholds[id], card.sum(id));
    EXPECT_FALSE(card.model.ready().has_value());
    ASSERT_TRUE(card.model.add(trigger, 100).ok());
    EXPECT_EQ(card.fire_all(), newest ? (Ids{3, 4, 1, 5, 2, 0}) : (Ids{3, 1, 4, 5, 0, 2}));
  }
}

TEST(NicModelOrder, WhatIsReadyStaysReadyOverAReset) {
  Card card;
  const CounterId trigger = card.counter();
  card.post(trigger, 2, card.sum(1));
  card.post(trigger, 3, card.sum(2));
  ASSERT_TRUE(card.model.add(trigger, 2).ok());
  ASSERT_TRUE(card.model.reset(trigger).ok());
  EXPECT_EQ(card.model.waiting_on(trigger), 1u);
  EXPECT_EQ(card.fire_all(), (Ids{1}));
  ASSERT_TRUE(card.model.add(trigger, 2).ok());
  EXPECT_EQ(card.fire_all(), Ids{});
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  EXPECT_EQ(card.fire_all(), (Ids{2}));
}

TEST(NicModelOrder, RingsWrapARegisterOf48Bits) {
  Card card;
  const CounterId trigger = card.counter();
  ASSERT_TRUE(card.model.add(trigger, kMaxSuccess).ok());
  card.model.ring(trigger, 2);
  EXPECT_EQ(card.value(trigger), (CounterValue{1, 0}));
  card.model.ring(CounterId{4000}, 1);  // a late ring of a closed counter
}

// ---- In flight

TEST(NicModelFlight, LosingAPeerFailsWhatIsAndWillBeUnderWayToIt) {
  Card card;
  const CounterId trigger = card.counter(), done = card.counter(), other = card.counter();
  card.post(trigger, 1, card.sum(1, done));
  card.post(trigger, 1, card.sum(2, other, kPeer + 1));
  card.post(trigger, 2, card.sum(3, done));
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  EXPECT_EQ(card.fire_all(), (Ids{1, 2}));
  card.model.lose_peer(kPeer);
  EXPECT_EQ(card.value(done), (CounterValue{0, 1}));
  EXPECT_EQ(card.value(other), (CounterValue{0, 0})) << "another peer's operation goes on";
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  EXPECT_EQ(card.fire_all(), Ids{});
  EXPECT_EQ(card.value(done), (CounterValue{0, 2}));
  for (const uint64_t context : {1u, 3u}) {
    const nic::FailureRecord record = card.model.take_failure().value();
    EXPECT_EQ(record.context, context);
    EXPECT_EQ(record.peer, kPeer);
    EXPECT_EQ(record.code, Code::kFailed);
  }
  card.ack(card.tokens[1], Code::kOk, kPeer + 1);
  EXPECT_EQ(card.value(other), (CounterValue{1, 0}));
}

TEST(NicModelFlight, AwaitsAnAckFromTheOperationsTargetOnly) {
  Card card;
  const CounterId trigger = card.counter();
  card.post(trigger, 0, card.sum());
  card.fire_all();
  const uint32_t token = card.tokens[0];
  const auto awaits = [&](uint32_t source, uint32_t which) {
    return card.model.awaits({.kind = PacketKind::kAck, .source = source, .token = which});
  };
  EXPECT_FALSE(awaits(kPeer + 1, token)) << "not its target";
  EXPECT_FALSE(awaits(kPeer, token + 1)) << "not under way";
  EXPECT_FALSE(awaits(kPeer, UINT32_MAX)) << "no token at all";
  EXPECT_TRUE(awaits(kPeer, token));
  card.ack(token);
  EXPECT_FALSE(awaits(kPeer, token)) << "over";
}

TEST(NicModelRegion, AnAtomicOfNoKindIsRefused) {
  Card card;
  const nic::RemoteKey key = card.model.key(card.region).value();
  Packet packet{.kind = PacketKind::kAtomic, .source = kPeer, .key = key.value};
  packet.atomic = static_cast<nic::AtomicKind>(2);
  EXPECT_EQ(card.model.locate(packet).code, Code::kInvalidArgument);
  packet.atomic = nic::AtomicKind::kReplace;
  EXPECT_EQ(card.model.locate(packet).code, Code::kOk);
}

// ---- Regions (N8)

Packet write_to(nic::RemoteKey key, uint64_t offset, uint64_t bytes) {
  return {.kind = PacketKind::kWrite, .source = kPeer, .key = key.value, .offset = offset, .bytes = bytes};
}

TEST(NicModelRegion, KeysNeverComeBack) {
  Card card({.max_regions = 3});
  std::set<uint64_t> keys;
  uint64_t memory[2] = {};
  nic::RemoteKey last;
  for (int round = 0; round < 10'000; ++round) {
    const RegionId region = card.model.register_region(memory, sizeof memory, {}).value();
    const nic::RemoteKey key = card.model.key(region).value();
    ASSERT_TRUE(keys.insert(key.value).second);
    ASSERT_EQ(card.model.locate(write_to(last, 0, 8)).code, Code::kNotFound);
    ASSERT_TRUE(card.model.deregister_region(region).ok());
    ASSERT_EQ(card.model.locate(write_to(key, 0, 8)).code, Code::kNotFound);
    last = key;
  }
}

TEST(NicModelRegion, AnArrivalPinsItsRegionUntilItHasLanded) {
  Card card;
  std::byte memory[64];
  const CounterId arrived = card.counter();
  const RegionId region = card.model.register_region(memory, sizeof memory, arrived).value();
  const Packet first = write_to(card.model.key(region).value(), 0, 32);
  const Packet second = write_to(card.model.key(region).value(), 32, 32);
  EXPECT_EQ(card.model.locate(first).address, memory);
  EXPECT_EQ(card.model.locate(second).address, memory + 32);
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(card.model.deregister_region(region).code(), Code::kAgain);
  EXPECT_EQ(card.model.locate(first).code, Code::kNotFound) << "no further arrivals";
  EXPECT_EQ(card.model.key(region).status().code(), Code::kNotFound);
  card.model.landed(first);
  EXPECT_EQ(card.value(arrived), (CounterValue{1, 0}));
  EXPECT_EQ(card.model.deregister_region(region).code(), Code::kAgain);
  EXPECT_EQ(card.model.close_counter(arrived).code(), Code::kInvalidState);
  card.model.abandoned(second);
  EXPECT_EQ(card.value(arrived), (CounterValue{1, 0})) << "what is abandoned does not count";
  EXPECT_TRUE(card.model.deregister_region(region).ok());
  EXPECT_TRUE(card.model.close_counter(arrived).ok());
}

TEST(NicModelRegion, ARegionOfSomeBytesHasAnAddress) {
  Card card;
  EXPECT_EQ(card.model.register_region(nullptr, 1, {}).status().code(), Code::kInvalidArgument);
  const RegionId none = card.model.register_region(nullptr, 0, {}).value();
  EXPECT_NE(card.model.locate(write_to(card.model.key(none).value(), 0, 0)).address, nullptr);
}

// ---- Failures and limits

TEST(NicModelFailures, TheOldestAreKeptAndAllAreCounted) {
  constexpr uint64_t kKept = 1024;
  Card card;
  const CounterId done = card.counter();
  const auto fail = [&](uint64_t id) {
    card.ack(card.model.issue(card.sum(id, done))->packet.token, Code::kInvalidArgument);
  };
  for (uint64_t id = 0; id < kKept + 10; ++id)
    fail(id);
  EXPECT_EQ(card.model.failures(), kKept + 10);
  EXPECT_EQ(card.value(done), (CounterValue{0, kMaxFailure}));
  for (uint64_t id = 0; id < 10; ++id)
    ASSERT_EQ(card.model.take_failure()->context, id);
  for (uint64_t id = 5000; id < 5010; ++id)
    fail(id);
  for (uint64_t id = 10; id < kKept; ++id)
    ASSERT_EQ(card.model.take_failure()->context, id);
  for (uint64_t id = 5000; id < 5010; ++id)
    ASSERT_EQ(card.model.take_failure()->context, id);
  EXPECT_FALSE(card.model.take_failure().has_value());
}

TEST(NicModelLimits, WithinThemNothingAllocates) {
  Card card({.deferred_depth = 16, .max_counters = 4, .max_regions = 4, .max_in_flight = 4});
  std::vector<CounterId> counters(4);
  std::vector<RegionId> regions(3);
  std::vector<uint32_t> tokens(4);
  card.tokens.reserve(1024);
  const uint64_t before = allocation_count();
  for (int round = 0; round < 100; ++round) {
    for (CounterId& counter : counters)
      counter = card.model.open_counter().value();
    for (RegionId& region : regions)
      region = card.model.register_region(&card.word, 8, counters[0]).value();
    for (uint64_t i = 0; i < 16; ++i)
      card.model.post({.op = card.sum(i, counters[1]), .trigger = counters[2], .threshold = i % 4});
    card.model.ring(counters[2], 3);
    for (int i = 0; i < 4; ++i) {
      for (uint32_t& token : tokens)
        token = card.model.fire(*card.model.ready())->packet.token;
      for (uint32_t token : tokens)
        card.ack(token, i % 2 ? Code::kOk : Code::kFailed);
    }
    while (card.model.take_failure().has_value()) {
    }
    for (RegionId region : regions)
      ASSERT_TRUE(card.model.deregister_region(region).ok());
    for (CounterId counter : counters)
      ASSERT_TRUE(card.model.close_counter(counter).ok());
  }
  if (allocations_are_counted()) {
    EXPECT_EQ(allocation_count() - before, 0u);
  }
}

}  // namespace
}  // namespace lanyard::nicsim
