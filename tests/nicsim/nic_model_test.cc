// NicModel: tests beyond the NIC contract, which tests/contract runs over the model.
#include "nicsim/model/nic_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <utility>
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

// A model with one registered word, and operations on it.
struct TestedNic {
  explicit TestedNic(const ModelLimits& limits = {}) : model(limits, kSelf) {
    region = model.register_region(&word, sizeof word, {}).value();
  }
  CounterId counter() { return model.open_counter().value(); }
  CounterValue value(CounterId id) { return model.read(id).value(); }
  // An atomic to a peer. `id` becomes its packet's offset and its failure record's context.
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
  // Fires all ready entries in the model's order. Returns the ids of the launched operations.
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
  std::vector<uint32_t> tokens;  // of the operations that fire_all() launched
};

using Ids = std::vector<uint64_t>;

// ---- Thresholds and order (N1, N2)

TEST(NicModelOrder, ByThresholdThenByAgeOrAgainstIt) {
  for (const bool newest : {false, true}) {
    TestedNic nic({.newest_tie_first = newest});
    const CounterId trigger = nic.counter();
    const uint64_t thresholds[] = {5, 3, 5, 1, 3, 4};
    for (uint64_t id = 0; id < 6; ++id)
      nic.post(trigger, thresholds[id], nic.sum(id));
    EXPECT_FALSE(nic.model.ready().has_value());
    ASSERT_TRUE(nic.model.add(trigger, 100).ok());
    EXPECT_EQ(nic.fire_all(), newest ? (Ids{3, 4, 1, 5, 2, 0}) : (Ids{3, 1, 4, 5, 0, 2}));
  }
}

TEST(NicModelOrder, OfRandomThresholdsInSteps) {
  std::mt19937_64 random(19);
  for (int round = 0; round < 30; ++round) {
    TestedNic nic;
    const CounterId trigger = nic.counter();
    std::vector<std::pair<uint64_t, uint64_t>> entries(2 + random() % 7);  // thresholds and ids
    for (uint64_t id = 0; id < entries.size(); ++id) {
      entries[id] = {random() % 6 + (random() % 2 << 33), id};
      nic.post(trigger, entries[id].first, nic.sum(id));
    }
    Ids fired, wanted;
    for (uint64_t step : {1 + random() % 3, 1 + random() % 6, uint64_t{1} << 34}) {
      ASSERT_TRUE(nic.model.add(trigger, step).ok());
      std::ranges::copy(nic.fire_all(), std::back_inserter(fired));
    }
    std::ranges::sort(entries);
    for (const auto& [threshold, id] : entries)
      wanted.push_back(id);
    EXPECT_EQ(fired, wanted) << "round " << round;
  }
}

TEST(NicModelOrder, ReadyEntriesStayReadyOverAReset) {
  TestedNic nic;
  const CounterId trigger = nic.counter();
  nic.post(trigger, 2, nic.sum(1));
  nic.post(trigger, 3, nic.sum(2));
  ASSERT_TRUE(nic.model.add(trigger, 2).ok());
  ASSERT_TRUE(nic.model.reset(trigger).ok());
  EXPECT_FALSE(nic.model.next_waiting(nic.model.first_waiting(trigger).value()));
  EXPECT_EQ(nic.fire_all(), (Ids{1}));
  ASSERT_TRUE(nic.model.add(trigger, 2).ok());
  EXPECT_EQ(nic.fire_all(), Ids{});
  ASSERT_TRUE(nic.model.add(trigger, 1).ok());
  EXPECT_EQ(nic.fire_all(), (Ids{2}));
}

TEST(NicModelOrder, RingsWrapARegisterOf48Bits) {
  TestedNic nic;
  const CounterId trigger = nic.counter();
  ASSERT_TRUE(nic.model.add(trigger, kMaxSuccess).ok());
  nic.model.ring(trigger, 2);
  EXPECT_EQ(nic.value(trigger), (CounterValue{1, 0}));
  nic.model.ring(CounterId{4000}, 1);  // a late ring of a closed counter
}

// ---- In flight

TEST(NicModelFlight, LosingAPeerFailsCurrentAndLaterOperationsToIt) {
  TestedNic nic;
  const CounterId trigger = nic.counter(), done = nic.counter(), other = nic.counter();
  nic.post(trigger, 1, nic.sum(1, done));
  nic.post(trigger, 1, nic.sum(2, other, kPeer + 1));
  nic.post(trigger, 2, nic.sum(3, done));
  ASSERT_TRUE(nic.model.add(trigger, 1).ok());
  EXPECT_EQ(nic.fire_all(), (Ids{1, 2}));
  nic.model.lose_peer(kPeer);
  EXPECT_EQ(nic.value(done), (CounterValue{0, 1}));
  EXPECT_EQ(nic.value(other), (CounterValue{0, 0})) << "another peer's operation must stay in flight";
  ASSERT_TRUE(nic.model.add(trigger, 1).ok());
  EXPECT_EQ(nic.fire_all(), Ids{});
  EXPECT_EQ(nic.value(done), (CounterValue{0, 2}));
  for (const uint64_t context : {1u, 3u}) {
    const nic::FailureRecord record = nic.model.take_failure().value();
    EXPECT_EQ(record.context, context);
    EXPECT_EQ(record.peer, kPeer);
    EXPECT_EQ(record.code, Code::kFailed);
  }
  nic.ack(nic.tokens[1], Code::kOk, kPeer + 1);
  EXPECT_EQ(nic.value(other), (CounterValue{1, 0}));
}

TEST(NicModelFlight, AwaitsAnAckFromTheOperationsTargetOnly) {
  TestedNic nic;
  const CounterId trigger = nic.counter();
  nic.post(trigger, 0, nic.sum());
  nic.fire_all();
  const uint32_t token = nic.tokens[0];
  const auto awaits = [&](uint32_t source, uint32_t which) {
    return nic.model.awaits({.kind = PacketKind::kAck, .source = source, .token = which});
  };
  EXPECT_FALSE(awaits(kPeer + 1, token)) << "the rank is not the target";
  EXPECT_FALSE(awaits(kPeer, token + 1)) << "the operation is not in flight";
  EXPECT_FALSE(awaits(kPeer, UINT32_MAX)) << "the token is invalid";
  EXPECT_TRUE(awaits(kPeer, token));
  nic.ack(token);
  EXPECT_FALSE(awaits(kPeer, token)) << "the operation has ended";
}

TEST(NicModelRegion, AnUnknownAtomicIsRefused) {
  TestedNic nic;
  const nic::RemoteKey key = nic.model.key(nic.region).value();
  Packet packet{.kind = PacketKind::kAtomic, .source = kPeer, .key = key.value};
  packet.atomic = static_cast<nic::AtomicKind>(2);
  EXPECT_EQ(nic.model.locate(packet).code, Code::kInvalidArgument);
  packet.atomic = nic::AtomicKind::kReplace;
  EXPECT_EQ(nic.model.locate(packet).code, Code::kOk);
}

// ---- Regions (N8)

Packet write_to(nic::RemoteKey key, uint64_t offset, uint64_t bytes) {
  return {.kind = PacketKind::kWrite, .source = kPeer, .key = key.value, .offset = offset, .bytes = bytes};
}

TEST(NicModelRegion, AnArrivalPinsItsRegionUntilItHasLanded) {
  TestedNic nic;
  std::byte memory[64];
  const CounterId arrived = nic.counter();
  const RegionId region = nic.model.register_region(memory, sizeof memory, arrived).value();
  const Packet first = write_to(nic.model.key(region).value(), 0, 32);
  const Packet second = write_to(nic.model.key(region).value(), 32, 32);
  EXPECT_EQ(nic.model.locate(first).address, memory);
  EXPECT_EQ(nic.model.locate(second).address, memory + 32);
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(nic.model.deregister_region(region).code(), Code::kAgain);
  EXPECT_EQ(nic.model.locate(first).code, Code::kNotFound) << "the region must refuse further arrivals";
  EXPECT_EQ(nic.model.key(region).status().code(), Code::kNotFound);
  nic.model.landed(first);
  EXPECT_EQ(nic.value(arrived), (CounterValue{1, 0}));
  EXPECT_EQ(nic.model.deregister_region(region).code(), Code::kAgain);
  EXPECT_EQ(nic.model.close_counter(arrived).code(), Code::kInvalidState);
  nic.model.abandoned(second);
  EXPECT_EQ(nic.value(arrived), (CounterValue{1, 0})) << "an abandoned arrival must not count";
  EXPECT_TRUE(nic.model.deregister_region(region).ok());
  EXPECT_TRUE(nic.model.close_counter(arrived).ok());
}

TEST(NicModelRegion, ANonEmptyRegionNeedsAnAddress) {
  TestedNic nic;
  EXPECT_EQ(nic.model.register_region(nullptr, 1, {}).status().code(), Code::kInvalidArgument);
  const RegionId none = nic.model.register_region(nullptr, 0, {}).value();
  EXPECT_NE(nic.model.locate(write_to(nic.model.key(none).value(), 0, 0)).address, nullptr);
}

// ---- Failures and limits

TEST(NicModelFailures, TheOldestAreKeptAndAllAreCounted) {
  constexpr uint64_t kKept = 1024;
  TestedNic nic;
  const CounterId done = nic.counter();
  const auto fail = [&](uint64_t id) {
    nic.model.hold(nic.sum(id, done));
    nic.ack(nic.model.start_held()->packet.token, Code::kInvalidArgument);
  };
  for (uint64_t id = 0; id < kKept + 10; ++id)
    fail(id);
  EXPECT_EQ(nic.model.failures(), kKept + 10);
  EXPECT_EQ(nic.value(done), (CounterValue{0, kMaxFailure}));
  for (uint64_t id = 0; id < 10; ++id)
    ASSERT_EQ(nic.model.take_failure()->context, id);
  for (uint64_t id = 5000; id < 5010; ++id)
    fail(id);
  for (uint64_t id = 10; id < kKept; ++id)
    ASSERT_EQ(nic.model.take_failure()->context, id);
  for (uint64_t id = 5000; id < 5010; ++id)
    ASSERT_EQ(nic.model.take_failure()->context, id);
  EXPECT_FALSE(nic.model.take_failure().has_value());
}

TEST(NicModelLimits, NothingAllocatesWithinTheLimits) {
  TestedNic nic({.deferred_depth = 16, .max_counters = 4, .max_regions = 4, .max_in_flight = 4});
  std::vector<CounterId> counters(4);
  std::vector<RegionId> regions(3);
  std::vector<uint32_t> tokens(4);
  nic.tokens.reserve(1024);
  const uint64_t before = allocation_count();
  for (int round = 0; round < 100; ++round) {
    for (CounterId& counter : counters)
      counter = nic.model.open_counter().value();
    for (RegionId& region : regions)
      region = nic.model.register_region(&nic.word, 8, counters[0]).value();
    for (uint64_t i = 0; i < 16; ++i)
      nic.model.post({.op = nic.sum(i, counters[1]), .trigger = counters[2], .threshold = i % 4});
    nic.model.ring(counters[2], 3);
    for (int i = 0; i < 4; ++i) {
      for (uint32_t& token : tokens)
        token = nic.model.fire(*nic.model.ready())->packet.token;
      for (uint32_t token : tokens)
        nic.ack(token, i % 2 ? Code::kOk : Code::kFailed);
    }
    while (nic.model.take_failure().has_value()) {
    }
    for (RegionId region : regions)
      ASSERT_TRUE(nic.model.deregister_region(region).ok());
    for (CounterId counter : counters)
      ASSERT_TRUE(nic.model.close_counter(counter).ok());
  }
  if (allocations_are_counted()) {
    EXPECT_EQ(allocation_count() - before, 0u);
  }
}

}  // namespace
}  // namespace lanyard::nicsim
