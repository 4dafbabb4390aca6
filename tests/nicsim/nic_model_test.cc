// NicModel: the pure state machine itself, one thread, one step at a time.
#include "nicsim/model/nic_model.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/allocation_counter.h"

namespace lanyard::nicsim {
namespace {

using nic::AtomicKind;
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
  static Op counter_op(OpKind kind, CounterId counter, uint64_t value) {
    Op op;
    op.kind = kind;
    op.counter = counter;
    op.value = value;
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
  void ack(uint32_t token, Code code = Code::kOk, uint64_t old = 0, uint32_t from = kPeer) {
    model.complete({.kind = PacketKind::kAck, .code = code, .source = from, .token = token, .operand = old});
  }

  NicModel model;
  uint64_t word = 1;
  RegionId region;
  std::vector<uint32_t> tokens;  // of what fire_all() launched
};

using Ids = std::vector<uint64_t>;

// ---- Descriptors

TEST(NicModelDescriptors, StayInsideTheRegionsThatTheyName) {
  Card card;
  std::vector<std::byte> memory(100);
  const RegionId region = card.model.register_region(memory.data(), memory.size(), {}).value();
  const CounterId trigger = card.counter();
  const auto code = [&](uint64_t offset, uint64_t bytes) {
    Op op;
    op.kind = OpKind::kWrite;
    op.local = {region, offset};
    op.remote.peer = kPeer;
    op.bytes = bytes;
    const Code issued = card.model.validate(op).code();
    EXPECT_EQ(card.model.validate(DeferredOp{.op = op, .trigger = trigger, .threshold = 1}).code(), issued);
    return issued;
  };
  EXPECT_EQ(code(0, 100), Code::kOk);
  EXPECT_EQ(code(100, 0), Code::kOk);
  EXPECT_EQ(code(99, 1), Code::kOk);
  EXPECT_EQ(code(0, 101), Code::kInvalidArgument);
  EXPECT_EQ(code(99, 2), Code::kInvalidArgument);
  EXPECT_EQ(code(101, 0), Code::kInvalidArgument);
  EXPECT_EQ(code(~uint64_t{0}, 2), Code::kInvalidArgument);
  ASSERT_TRUE(card.model.deregister_region(region).ok());
  EXPECT_EQ(code(0, 1), Code::kNotFound);
}

// ---- Thresholds and order (N1, N2)

TEST(NicModelOrder, ByThresholdThenByAge) {
  Card card;
  const CounterId trigger = card.counter();
  const uint64_t thresholds[] = {5, 3, 5, 1, 3, 4};
  for (uint64_t id = 0; id < 6; ++id)
    card.post(trigger, thresholds[id], card.sum(id));
  EXPECT_FALSE(card.model.ready().has_value());
  EXPECT_EQ(card.model.waiting_on(trigger), 6u);
  ASSERT_TRUE(card.model.add(trigger, 100).ok());
  EXPECT_EQ(card.fire_all(), (Ids{3, 1, 4, 5, 0, 2}));
}

TEST(NicModelOrder, OfTiesTheNewestFirstWhereThatIsWanted) {
  Card card({.newest_tie_first = true});
  const CounterId trigger = card.counter();
  const uint64_t thresholds[] = {5, 3, 5, 1, 3, 4};
  for (uint64_t id = 0; id < 6; ++id)
    card.post(trigger, thresholds[id], card.sum(id));
  ASSERT_TRUE(card.model.add(trigger, 100).ok());
  EXPECT_EQ(card.fire_all(), (Ids{3, 4, 1, 5, 2, 0}));
}

TEST(NicModelOrder, FailuresTriggerNothingWhereThatIsWanted) {
  Card card({.failures_trigger = false});
  const CounterId trigger = card.counter();
  card.post(trigger, 2, card.sum(1));
  ASSERT_TRUE(card.model.add_error(trigger, 5).ok());
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  EXPECT_EQ(card.fire_all(), Ids{});
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  EXPECT_EQ(card.fire_all(), Ids{1});
}

TEST(NicModelOrder, SettingChangesOneHalfAndFiresWhatIsDue) {
  Card card;
  const CounterId trigger = card.counter();
  card.post(trigger, 9, card.sum(1));
  ASSERT_TRUE(card.model.set(trigger, 5).ok());
  EXPECT_EQ(card.fire_all(), Ids{});
  ASSERT_TRUE(card.model.set_error(trigger, 4).ok());
  EXPECT_EQ(card.fire_all(), Ids{1});
  ASSERT_TRUE(card.model.set(trigger, 0).ok());
  EXPECT_EQ(card.value(trigger), (CounterValue{0, 4}));
  EXPECT_EQ(card.model.set(trigger, kMaxSuccess + 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(card.model.set_error(trigger, kMaxFailure + 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(card.model.set(CounterId{9}, 0).code(), Code::kNotFound);
  EXPECT_EQ(card.value(trigger), (CounterValue{0, 4}));
}

TEST(NicModelOrder, CounterSetLeavesFailuresWhereThatIsWanted) {
  for (const bool clears : {true, false}) {
    Card card({.set_clears_failures = clears});
    const CounterId trigger = card.counter(), target = card.counter();
    ASSERT_TRUE(card.model.add_error(target, 3).ok());
    card.post(trigger, 0, Card::counter_op(OpKind::kCounterSet, target, 7));
    card.fire_all();
    EXPECT_EQ(card.value(target), (CounterValue{7, clears ? 0u : 3u}));
  }
}

// Entries of one counter that become ready by several increments do not overtake each other, and
// one that is met when it is posted goes behind those that are ready.
TEST(NicModelOrder, ReadyEntriesKeepTheOrderInWhichTheyBecameReady) {
  Card card;
  const CounterId a = card.counter();
  const CounterId b = card.counter();
  card.post(a, 2, card.sum(1));
  card.post(b, 1, card.sum(2));
  card.post(a, 1, card.sum(3));
  ASSERT_TRUE(card.model.add(a, 1).ok());
  ASSERT_TRUE(card.model.add(b, 1).ok());
  ASSERT_TRUE(card.model.add(a, 1).ok());
  card.post(b, 0, card.sum(4));
  EXPECT_EQ(card.fire_all(), (Ids{3, 2, 1, 4}));
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

TEST(NicModelOrder, FailuresCountAndARegisterOf48BitsWraps) {
  Card card;
  const CounterId trigger = card.counter();
  card.post(trigger, 3, card.sum(1));
  ASSERT_TRUE(card.model.add_error(trigger, 2).ok());
  EXPECT_EQ(card.fire_all(), Ids{});
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  EXPECT_EQ(card.fire_all(), (Ids{1}));
  ASSERT_TRUE(card.model.add(trigger, kMaxSuccess - 1).ok());
  EXPECT_EQ(card.model.add(trigger, 1).code(), Code::kInvalidArgument);
  card.model.ring(trigger, 2);
  EXPECT_EQ(card.value(trigger), (CounterValue{1, 2}));
  card.model.ring(CounterId{4000}, 1);  // a late ring of a closed counter
}

// A chain of counter operations that trigger each other is walked step by step, not by recursion.
TEST(NicModelOrder, CounterOperationsHappenAsTheyFire) {
  Card card;
  const CounterId trigger = card.counter();
  const CounterId other = card.counter();
  card.post(trigger, 1, Card::counter_op(OpKind::kCounterAdd, other, 5));
  card.post(other, 5, Card::counter_op(OpKind::kCounterSet, trigger, 0));
  card.post(trigger, 2, card.sum(1));
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  EXPECT_EQ(card.value(other), (CounterValue{0, 0}));
  EXPECT_FALSE(card.model.fire(*card.model.ready()).has_value());
  EXPECT_EQ(card.value(other), (CounterValue{5, 0}));
  EXPECT_EQ(card.fire_all(), Ids{});
  EXPECT_EQ(card.value(trigger), (CounterValue{0, 0}));
  EXPECT_EQ(card.model.in_flight(), 0u) << "counter operations are done at once";
  EXPECT_EQ(card.model.waiting_on(trigger), 1u);
}

// ---- In flight

TEST(NicModelFlight, NothingFiresWithoutRoom) {
  Card card({.max_in_flight = 2});
  const CounterId trigger = card.counter();
  const CounterId done = card.counter();
  for (uint64_t id = 1; id <= 4; ++id)
    card.post(trigger, 0, card.sum(id, done));
  EXPECT_EQ(card.fire_all(), (Ids{1, 2}));
  EXPECT_FALSE(card.model.room_in_flight());
  EXPECT_FALSE(card.model.ready().has_value());
  card.ack(card.tokens[1]);
  EXPECT_EQ(card.fire_all(), (Ids{3}));
  card.ack(card.tokens[0]);
  card.ack(card.tokens[2]);
  EXPECT_EQ(card.fire_all(), (Ids{4}));
  card.ack(card.tokens[3], Code::kNotFound);
  EXPECT_EQ(card.value(done), (CounterValue{3, 1}));
  EXPECT_EQ(card.model.in_flight(), 0u);
}

TEST(NicModelFlight, OperandsAreReadAndFetchedWordsWrittenAtTheirTime) {
  Card card;
  const CounterId trigger = card.counter();
  uint64_t fetched = 0;
  const RegionId into = card.model.register_region(&fetched, sizeof fetched, {}).value();
  Op op = card.sum(1);
  op.atomic = AtomicKind::kFetchSum;
  op.fetch = {into, 0};
  card.post(trigger, 1, op);
  card.word = 77;
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  const std::optional<Launch> launch = card.model.fire(*card.model.ready());
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(launch->packet.operand, 77u);
  EXPECT_EQ(launch->peer, kPeer);
  EXPECT_EQ(card.model.deregister_region(into).code(), Code::kInvalidState);
  card.ack(launch->packet.token, Code::kOk, 123);
  EXPECT_EQ(fetched, 123u);
  EXPECT_TRUE(card.model.deregister_region(into).ok());
}

TEST(NicModelFlight, LosingAPeerFailsWhatIsAndWillBeUnderWayToIt) {
  Card card;
  const CounterId trigger = card.counter();
  const CounterId done = card.counter();
  const CounterId other = card.counter();
  card.post(trigger, 1, card.sum(1, done));
  card.post(trigger, 1, card.sum(2, other, kPeer + 1));
  card.post(trigger, 2, card.sum(3, done));
  card.post(done, 2, card.sum(4, {}, kPeer + 1));
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  EXPECT_EQ(card.fire_all(), (Ids{1, 2}));
  card.model.lose_peer(kPeer);
  EXPECT_EQ(card.value(done), (CounterValue{0, 1}));
  EXPECT_EQ(card.value(other), (CounterValue{0, 0})) << "another peer's operation goes on";
  EXPECT_EQ(card.model.in_flight(), 1u);
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  EXPECT_EQ(card.fire_all(), (Ids{4})) << "the failure fires the chain (N1)";
  EXPECT_EQ(card.value(done), (CounterValue{0, 2}));
  for (const uint64_t context : {1u, 3u}) {
    const std::optional<nic::FailureRecord> record = card.model.take_failure();
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record->context, context);
    EXPECT_EQ(record->peer, kPeer);
    EXPECT_EQ(record->code, Code::kFailed);
  }
  EXPECT_FALSE(card.model.take_failure().has_value());
  card.ack(card.tokens[1], Code::kOk, 0, kPeer + 1);
  EXPECT_EQ(card.value(other), (CounterValue{1, 0}));
}

// What a broken peer may write into the wire.
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
  packet.atomic = static_cast<nic::AtomicKind>(4);
  EXPECT_EQ(card.model.locate(packet).code, Code::kInvalidArgument);
  packet.atomic = nic::AtomicKind::kCompareSwap;
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

TEST(NicModelRegion, KeysMayBeChosen) {
  NicModel model({}, kSelf);
  uint64_t words[2] = {};
  const RegionId local = model.register_region(words, 8, {}, {.remote = false}).value();
  constexpr uint64_t kKey = 0xfeedbeef;
  const RegionId first = model.register_region(words, 8, {}, {.key = kKey}).value();
  EXPECT_EQ(model.key(first).value().value, kKey);
  EXPECT_EQ(model.register_region(words, 8, {}, {.key = kKey}).status().code(), Code::kInvalidState);
  const RegionId second = model.register_region(&words[1], 8, {}, {.key = kKey + 1}).value();
  Packet packet{.kind = PacketKind::kWrite, .source = kPeer, .key = kKey + 1, .bytes = 8};
  EXPECT_EQ(model.locate(packet).address, reinterpret_cast<std::byte*>(&words[1]));
  EXPECT_EQ(model.deregister_region(second).code(), Code::kAgain);
  model.landed(packet);
  ASSERT_TRUE(model.deregister_region(second).ok());
  EXPECT_EQ(model.locate(packet).code, Code::kNotFound);
  // Local memory is nobody's target, whatever its key.
  packet.key = model.key(local).value().value;
  EXPECT_EQ(model.locate(packet).code, Code::kNotFound);
  // Such a key lives again in another region.
  ASSERT_TRUE(model.deregister_region(first).ok());
  packet.key = kKey;
  EXPECT_EQ(model.locate(packet).code, Code::kNotFound);
  ASSERT_TRUE(model.register_region(&words[1], 8, {}, {.key = kKey}).ok());
  EXPECT_EQ(model.locate(packet).address, reinterpret_cast<std::byte*>(&words[1]));
  model.landed(packet);
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

TEST(NicModelRegion, ArrivalsStayInside) {
  Card card;
  alignas(8) std::byte memory[64];
  const RegionId region = card.model.register_region(memory, sizeof memory, {}).value();
  const nic::RemoteKey key = card.model.key(region).value();
  EXPECT_EQ(card.model.locate(write_to(key, 0, 64)).code, Code::kOk);
  EXPECT_EQ(card.model.locate(write_to(key, 64, 0)).code, Code::kOk);
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 65}, {1, 64}, {65, 0}, {64, 1}, {~uint64_t{0}, 1}, {~uint64_t{0}, ~uint64_t{0}}})
    EXPECT_EQ(card.model.locate(write_to(key, offset, bytes)).code, Code::kInvalidArgument);
  Packet atomic = write_to(key, 60, 0);
  atomic.kind = PacketKind::kAtomic;
  EXPECT_EQ(card.model.locate(atomic).code, Code::kInvalidArgument);
  const RegionId none = card.model.register_region(nullptr, 0, {}).value();
  EXPECT_NE(card.model.locate(write_to(card.model.key(none).value(), 0, 0)).address, nullptr);
  EXPECT_EQ(card.model.register_region(nullptr, 1, {}).status().code(), Code::kInvalidArgument);
}

// ---- Failures, flush, limits

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

TEST(NicModelFlush, CancelsWhatHasNotFiredAndNothingElse) {
  Card card({.deferred_depth = 8, .max_in_flight = 1});
  const CounterId trigger = card.counter();
  const CounterId done = card.counter();
  for (uint64_t id = 1; id <= 8; ++id)
    card.post(trigger, id <= 4 ? 1 : 2, card.sum(id, done));
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  EXPECT_EQ(card.fire_all(), (Ids{1})) << "three more are ready";
  card.model.flush();
  EXPECT_EQ(card.model.free_entries(), 8u);
  EXPECT_EQ(card.model.waiting_on(trigger), 0u);
  EXPECT_EQ(card.model.close_counter(done).code(), Code::kInvalidState) << "one is under way";
  // What was issued and waits for room is no deferred work.
  card.model.hold(card.sum(9, done));
  card.model.flush();
  EXPECT_EQ(card.model.held(), 1u);
  EXPECT_EQ(card.model.in_flight(), 1u);
  card.ack(card.tokens[0]);
  EXPECT_EQ(card.value(done), (CounterValue{1, 0}));
  const std::optional<Launch> held = card.model.start_held();
  ASSERT_TRUE(held.has_value());
  card.ack(held->packet.token);
  EXPECT_EQ(card.value(done), (CounterValue{2, 0}));
  ASSERT_TRUE(card.model.add(trigger, 5).ok());
  EXPECT_EQ(card.fire_all(), Ids{});
  EXPECT_TRUE(card.model.close_counter(done).ok());
  EXPECT_TRUE(card.model.close_counter(trigger).ok());
  EXPECT_TRUE(card.model.deregister_region(card.region).ok());
}

// ---- The witness

TEST(NicModelWitness, IsToldOnceHowEverythingEnds) {
  struct Notes final : Witness {
    void ended(const Op& op, Code code, CounterValue value) override {
      text += std::to_string(op.context) + code_name(code) + std::to_string(value.success) + "+" +
              std::to_string(value.failure) + " ";
    }
    void canceled(const Op& op) override { text += std::to_string(op.context) + "canceled "; }
    std::string text;
  } notes;
  Card card;
  card.model.set_witness(&notes);
  const CounterId trigger = card.counter(), completion = card.counter();
  Op add = Card::counter_op(OpKind::kCounterAdd, completion, 5);
  add.context = 9;
  card.post(trigger, 1, card.sum(1, completion));
  card.post(trigger, 1, card.sum(2, completion));
  card.post(trigger, 1, add);
  card.post(trigger, 2, card.sum(3, completion));
  ASSERT_TRUE(card.model.add(trigger, 1).ok());
  card.fire_all();
  EXPECT_EQ(notes.text, "9Ok5+0 ");
  card.ack(card.tokens[1], Code::kNotFound);
  card.ack(card.tokens[0]);
  EXPECT_EQ(notes.text, "9Ok5+0 2NotFound5+1 1Ok6+1 ");
  card.model.flush();
  EXPECT_EQ(notes.text, "9Ok5+0 2NotFound5+1 1Ok6+1 3canceled ");
  // Without a completion counter, and to a peer that has gone.
  card.model.lose_peer(kPeer);
  card.post(trigger, 0, card.sum(4));
  card.fire_all();
  EXPECT_EQ(notes.text, "9Ok5+0 2NotFound5+1 1Ok6+1 3canceled 4Failed0+0 ");
}

TEST(NicModelLimits, AreKeptAndNothingAllocates) {
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
  for (CounterId& counter : counters)
    counter = card.model.open_counter().value();
  EXPECT_EQ(card.model.open_counter().status().code(), Code::kExhausted);
  for (RegionId& region : regions)
    region = card.model.register_region(&card.word, 8, {}).value();
  EXPECT_EQ(card.model.register_region(&card.word, 8, {}).status().code(), Code::kExhausted);
  EXPECT_EQ(card.model.open_counters(), 4u);
  EXPECT_EQ(card.model.open_regions(), 4u);
}

}  // namespace
}  // namespace lanyard::nicsim
