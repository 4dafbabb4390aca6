// The NIC contract: limits, objects in use, and calls that are refused (N9).
#ifndef LANYARD_TESTS_NIC_CONTRACT_REFUSALS_H_
#define LANYARD_TESTS_NIC_CONTRACT_REFUSALS_H_

#include <set>

#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

// ---- Limits

TEST_P(NicContract, Limits_CountersRunOutAndAreReused) {
  start({.max_counters = 16});
  const uint32_t most = nic().caps().max_counters;
  NEEDS(most <= 1 << 16, "a number of counters small enough to use up");
  std::set<uint32_t> ids;
  std::vector<CounterId> opened;
  for (uint32_t i = 0; i < most; ++i) {
    opened.push_back(counter());
    ASSERT_TRUE(ids.insert(opened.back().value).second) << "two counters with one id";
    add(opened.back(), i + 1);
  }
  // Reads may lag, and the test must see that a refused call changes nothing.
  for (uint32_t i = 0; i < most; ++i)
    ASSERT_TRUE(reaches(opened[i], i + 1));
  for (int again = 0; again < 3; ++again)
    refused({Code::kExhausted}, "one more", [&] { return nic().open_counter().status(); });
  EXPECT_TRUE(works(close(opened[most / 2])));
  opened[most / 2] = counter();
  EXPECT_EQ(value(opened[most / 2]), (CounterValue{0, 0}));
  add(opened[most / 2], most / 2 + 1);
  ASSERT_TRUE(reaches(opened[most / 2], most / 2 + 1));
  refused({Code::kExhausted}, "one more", [&] { return nic().open_counter().status(); });
  for (uint32_t i = 0; i < most; ++i)
    ASSERT_TRUE(reaches(opened[i], i + 1));
}

TEST_P(NicContract, Limits_RegionsRunOutAndAreReused) {
  start({.max_regions = 16});
  const uint32_t most = nic(1).caps().max_regions;
  NEEDS(most <= 1 << 16, "a number of regions small enough to use up");
  const CounterId arrived = counter(1);
  const CounterId done = counter();
  Memory& source = word(0, 5);
  std::set<uint32_t> ids;
  std::set<uint64_t> keys;
  std::vector<Memory*> targets;
  for (uint32_t i = 0; i < most; ++i) {
    targets.push_back(&memory(1, 8, arrived));
    ASSERT_TRUE(ids.insert(targets[i]->region.value).second) << "two regions with one id";
    ASSERT_TRUE(keys.insert(targets[i]->key.value).second) << "two regions with one key";
  }
  Memory unlucky(1, 8);
  const auto one_more = [&] { return nic(1).register_region(unlucky.data(), 8, arrived).status(); };
  for (int again = 0; again < 3; ++again)
    refused({Code::kExhausted}, "one more", one_more);
  EXPECT_TRUE(works(nic(1).deregister_region(targets[0]->region)));
  ASSERT_NO_FATAL_FAILURE(enroll(*targets[0], arrived));
  EXPECT_TRUE(keys.insert(targets[0]->key.value).second);
  refused({Code::kExhausted}, "one more", one_more);
  for (Memory* target : targets)
    issue(write_op(source, 0, *target, 0, 8, done));
  ASSERT_TRUE(reaches(done, most));
  for (Memory* target : targets)
    EXPECT_EQ(target->load(), 5u);
  EXPECT_TRUE(reaches(arrived, most, 1));
}

TEST_P(NicContract, Limits_MessagesOfTheGreatestLengthAndLonger) {
  start({.max_message_bytes = 10'000});
  const uint64_t most = nic().caps().max_message_bytes;
  NEEDS(most <= uint64_t{64} << 20, "a greatest message small enough to test");
  Memory& source = memory(0, most + 1);
  Memory& target = memory(1, most + 1);
  source.fill(1, 0, most + 1);
  const CounterId trigger = counter();
  const CounterId done = counter();
  refused_op({Code::kInvalidArgument}, "a longer write", trigger, write_op(source, 0, target, 0, most + 1, done));
  add(trigger, 1);
  settle();
  EXPECT_TRUE(target.is_zero(0, most + 1));
  issue(write_op(source, 0, target, 0, most, done));
  ASSERT_TRUE(reaches(done, 1));
  EXPECT_TRUE(target.holds(1, 0, most));
  EXPECT_TRUE(target.is_zero(most, 1));
}

// ---- Objects in use stay open

TEST_P(NicContract, Close_IsRefusedWhileTheCounterIsNamed) {
  Memory& one = memory(0, 8);
  Memory& target = memory(1, 8);
  const CounterId trigger = counter();
  const CounterId done = counter();
  const CounterId bound = counter();
  Memory& region = memory(0, 8, bound);
  const DeferredOp op = when(trigger, 1, sum_op(one, 0, target, 0, done));
  post(op);
  const auto close_is_refused = [&](const char* what, CounterId id) {
    refused({Code::kInvalidState}, what, [&] { return nic().close_counter(id); });
  };
  close_is_refused("a trigger", trigger);
  close_is_refused("a completion counter", done);
  close_is_refused("a region's counter", bound);
  add(trigger, 1);
  ASSERT_TRUE(reaches(done, 1));
  issue(sum_op(one, 0, region, 0, done));
  ASSERT_TRUE(reaches(bound, 1)) << "the counter goes on counting";
  ASSERT_TRUE(reaches(done, 2));
  EXPECT_TRUE(works(nic().deregister_region(region.region)));
  for (CounterId id : {trigger, done, bound})
    EXPECT_TRUE(eventually([&] { return close(id).ok(); }));
}

// ---- N9

TEST_P(NicContract, N9_BadCountersAreRefusedEverywhere) {
  Memory& local = memory(0, 64);
  Memory& target = memory(1, 64);
  const CounterId good = counter();
  add(good, 4);
  ASSERT_TRUE(reaches(good, 4));
  const CounterId closed = counter();
  CounterId foreign = counter(1);
  for (int i = 0; i < 6; ++i)
    foreign = counter(1);
  ASSERT_TRUE(works(close(closed)));
  CounterId never = good;
  never.value += 1'000'000'007;
  const std::pair<const char*, CounterId> none[] = {
      {"the default", CounterId{}}, {"never given", never}, {"closed", closed}, {"another NIC's", foreign}};
  for (const auto& entry : none) {
    const auto bad = entry.second;
    SCOPED_TRACE(entry.first);
    refused({Code::kNotFound}, "close", [&] { return nic().close_counter(bad); });
    refused({Code::kNotFound}, "read", [&] { return nic().read(bad).status(); });
    refused({Code::kNotFound}, "add", [&] { return nic().add(bad, 1); });
    refused({Code::kNotFound}, "add_error", [&] { return nic().add_error(bad, 1); });
    refused({Code::kNotFound}, "reset", [&] { return nic().reset(bad); });
    for (DoorbellKind kind : doorbell_kinds())
      refused({Code::kNotFound}, "doorbell", [&] { return nic().doorbell(bad, kind).status(); });
    const std::vector<Code> codes = {Code::kNotFound, Code::kInvalidArgument};
    const DeferredOp triggered = when(bad, 1, sum_op(local, 0, target, 0));
    refused(codes, "trigger", [&] { return nic().post({&triggered, 1}); });
    if (!bad.valid())
      continue;  // if no counter is allowed, the default means none
    refused_op(codes, "completion", good, sum_op(local, 0, target, 0, bad));
    refused({Code::kNotFound}, "remote_write", [&] { return nic().register_region(local.data(), 64, bad).status(); });
  }
  const State before = state();
  settle();
  EXPECT_EQ(state(), before);
  EXPECT_EQ(value(good), (CounterValue{4, 0}));
  EXPECT_TRUE(target.is_zero(0, 64));
}

TEST_P(NicContract, N9_BadRegionsAreRefusedEverywhere) {
  const CounterId trigger = counter();
  add(trigger, 1);
  ASSERT_TRUE(reaches(trigger, 1));
  Memory& good = memory(0, 64);
  Memory& target = memory(1, 64);
  Memory closed(0, 64);
  ASSERT_NO_FATAL_FAILURE(enroll(closed));
  ASSERT_TRUE(works(nic().deregister_region(closed.region)));
  Memory* foreign = nullptr;
  for (int i = 0; i < 6; ++i)
    foreign = &memory(1, 64);
  RegionId never = good.region;
  never.value += 1'000'000'007;
  const std::pair<const char*, RegionId> none[] = {{"the default", RegionId{}},
                                                   {"never given", never},
                                                   {"closed", closed.region},
                                                   {"another NIC's", foreign->region}};
  for (const auto& entry : none) {
    const auto bad = entry.second;
    SCOPED_TRACE(entry.first);
    refused({Code::kNotFound}, "key", [&] { return nic().key(bad).status(); });
    refused({Code::kNotFound}, "deregister", [&] { return nic().deregister_region(bad); });
    Op write = write_op(good, 0, target, 0, 8);
    write.local.region = bad;
    Op sum = sum_op(good, 0, target, 0);
    sum.local.region = bad;
    for (const Op& op : {write, sum})
      refused_op({Code::kNotFound, Code::kInvalidArgument}, "an operation", trigger, op);
  }
  settle();
  EXPECT_TRUE(target.is_zero(0, 64));
  EXPECT_EQ(nic().free_entries(), depth());
}

TEST_P(NicContract, N9_BadDescriptorsAreRefused) {
  const CounterId trigger = counter();
  add(trigger, 1);
  ASSERT_TRUE(reaches(trigger, 1));
  const CounterId done = counter();
  Memory& local = memory(0, 64);
  Memory& target = memory(1, 4096);
  std::vector<std::pair<const char*, Op>> bad;
  bad.emplace_back("a source past its region", write_op(local, 0, target, 0, 65, done));
  bad.emplace_back("a source that begins past its region", write_op(local, 65, target, 0, 1, done));
  bad.emplace_back("a source whose end wraps", write_op(local, ~uint64_t{0} - 3, target, 0, 8, done));
  bad.emplace_back("an operand past its region", sum_op(local, 64, target, 0, done));
  bad.emplace_back("an operand half past its region", sum_op(local, 60, target, 0, done));
  bad.emplace_back("a misaligned operand", sum_op(local, 4, target, 0, done));
  Op no_peer = write_op(local, 0, target, 0, 8, done);
  no_peer.remote.peer = static_cast<uint32_t>(size());
  bad.emplace_back("a peer that does not exist", no_peer);
  no_peer.remote.peer = UINT32_MAX;
  bad.emplace_back("no peer", no_peer);
  for (const auto& entry : bad) {
    const char* what = entry.first;
    const Op& op = entry.second;
    // A peer that does not exist gives kNotFound; the others are invalid in themselves.
    std::vector<Code> codes = {Code::kInvalidArgument};
    if (op.remote.peer >= size())
      codes.push_back(Code::kNotFound);
    refused_op(codes, what, trigger, op);
  }
  const DeferredOp high = when(trigger, kMaxSuccess + 1, write_op(local, 0, target, 0, 8, done));
  refused({Code::kInvalidArgument}, "a threshold of 49 bits", [&] { return nic().post({&high, 1}); });
  const DeferredOp highest = when(trigger, ~uint64_t{0}, high.op);
  refused({Code::kInvalidArgument}, "a threshold of 64 bits", [&] { return nic().post({&highest, 1}); });
  settle();
  EXPECT_EQ(value(done), (CounterValue{0, 0}));
  EXPECT_TRUE(target.is_zero(0, 4096));
  EXPECT_EQ(nic().free_entries(), depth());
  EXPECT_EQ(nic().failures(), 0u);
}

TEST_P(NicContract, N9_DoorbellKindsThatAreNotListedAreRefused) {
  const CounterId c = counter();
  const std::vector<DoorbellKind> listed = doorbell_kinds();
  for (DoorbellKind kind : {DoorbellKind::kMmioAdd, DoorbellKind::kAtomicAdd, DoorbellKind::kHostCall})
    if (std::find(listed.begin(), listed.end(), kind) == listed.end())
      refused({Code::kUnsupported}, kind_name(kind), [&] { return nic().doorbell(c, kind).status(); });
}

TEST_P(NicContract, N9_WordsOfTotalsAcceptStores) {
  if (!nic().caps().doorbell_totals)
    GTEST_SKIP() << "the NIC lists no totals";
  const CounterId c = counter();
  std::atomic_ref<uint64_t> word(*doorbell(c, DoorbellKind::kAtomicAdd).word);
  uint64_t total = word.load();
  uint64_t rung = 0;
  for (const uint64_t value : {1, 1, 5, 1000, 1}) {
    word.store(total += value);
    rung += value;
    ASSERT_TRUE(reaches(c, rung)) << "by " << value;
  }
  ring(doorbell(c, DoorbellKind::kAtomicAdd), 3);
  ASSERT_TRUE(reaches(c, rung + 3)) << "an add after stores";
  EXPECT_EQ(word.load(), total + 3);
}

// ---- Caps and peers

TEST_P(NicContract, Caps_AreUsable) {
  for (size_t rank = 0; rank < size(); ++rank) {
    const nic::Caps& caps = nic(rank).caps();
    EXPECT_FALSE(caps.name.empty());
    EXPECT_GT(caps.deferred_depth, 0u);
    EXPECT_GT(caps.max_counters, 0u);
    EXPECT_GT(caps.max_regions, 0u);
    EXPECT_GT(caps.max_message_bytes, 0u);
    EXPECT_FALSE(doorbell_kinds(rank).empty()) << "there must be a doorbell";
    EXPECT_EQ(nic(rank).free_entries(), caps.deferred_depth);
    EXPECT_EQ(nic(rank).failures(), 0u);
    EXPECT_FALSE(nic(rank).take_failure().has_value());
    const nic::Address address = nic(rank).address();
    EXPECT_FALSE(address.bytes.empty());
    EXPECT_LE(address.bytes.size(), nic::Address::kMaxBytes);
    EXPECT_EQ(address.bytes, nic(rank).address().bytes) << "an address does not change";
    for (size_t other = 0; other < rank; ++other)
      EXPECT_NE(address.bytes, nic(other).address().bytes);
  }
}

TEST_P(NicContract, Peers_MustBeRight) {
  start({.connected = false});
  const std::vector<nic::Address> all = {nic(0).address(), nic(1).address()};
  const auto set = [&](size_t rank, const std::vector<nic::Address>& peers, uint32_t self) {
    return [this, rank, peers, self] { return nic(rank).set_peers(peers, self); };
  };
  Memory& source = memory(0, 8);
  Memory target(1, 8);
  const CounterId trigger = counter();
  const DeferredOp op = when(trigger, 0, write_op(source, 0, target, 0, 8));
  const std::vector<Code> no_peers = {Code::kNotFound, Code::kInvalidArgument, Code::kInvalidState};
  refused(no_peers, "post before", [&] { return nic().post({&op, 1}); });
  refused(no_peers, "issue before", [&] { return nic().issue(op.op); });
  refused({Code::kInvalidArgument}, "self outside", set(0, all, 2));
  refused({Code::kInvalidArgument}, "self is another NIC", set(0, all, 1));
  refused({Code::kInvalidArgument}, "no peers", set(0, {}, 0));
  refused({Code::kInvalidArgument}, "no own address", set(0, {nic::Address{}, all[1]}, 0));
  nic::Address garbage;
  garbage.bytes.assign(nic::Address::kMaxBytes, std::byte{0xee});
  refused({Code::kInvalidArgument}, "garbage", set(0, {all[0], garbage}, 0));
  ASSERT_TRUE(works(nic(0).set_peers(all, 0))) << "refused calls changed nothing";
  ASSERT_TRUE(works(nic(1).set_peers(all, 1)));
  refused({Code::kInvalidState}, "again", set(0, all, 0));
  ASSERT_NO_FATAL_FAILURE(enroll(target));
  source.store(3);
  const CounterId done = counter();
  issue(write_op(source, 0, target, 0, 8, done));
  ASSERT_TRUE(reaches(done, 1));
  EXPECT_EQ(target.load(), 3u);
  EXPECT_TRUE(works(nic(1).deregister_region(target.region)));
}

TEST_P(NicContract, Peers_MayBecomeKnownLater) {
  start({.connected = false});
  const nic::Address addresses[2] = {nic(0).address(), nic(1).address()};
  ASSERT_TRUE(works(nic(0).set_peers(std::vector{addresses[0], nic::Address{}}, 0)));
  ASSERT_TRUE(works(nic(1).set_peers(std::vector{nic::Address{}, addresses[1]}, 1)));
  Memory& here = memory(0, 8);
  Memory there(1, 8);
  ASSERT_NO_FATAL_FAILURE(enroll(there));
  refused({Code::kNotFound}, "issue to an unknown peer", [&] { return nic().issue(write_op(here, 0, there, 0, 8)); });
  nic::Address garbage;
  garbage.bytes.assign(nic::Address::kMaxBytes, std::byte{0xee});
  const auto add = [&](uint32_t peer, const nic::Address& address) {
    return [this, peer, &address] { return nic(0).add_peer(peer, address); };
  };
  const nic::Address none;
  refused({Code::kInvalidArgument}, "garbage", add(1, garbage));
  refused({Code::kInvalidArgument}, "no address", add(1, none));
  refused({Code::kInvalidArgument}, "no peer", add(2, addresses[1]));
  refused({Code::kInvalidState}, "itself", add(0, addresses[0]));
  // One NIC knows the other and writes before the other knows it.
  ASSERT_TRUE(works(nic(1).add_peer(0, addresses[0])));
  there.store(5);
  nic::Op op = write_op(there, 0, here, 0, 8);
  op.remote.peer = 0;
  Result<CounterId> sent = nic(1).open_counter();
  op.completion = sent.value();
  ASSERT_TRUE(works(nic(1).issue(op)));
  ASSERT_TRUE(eventually([&] {
    nic(0).progress();
    nic(1).progress();
    return nic(1).read(sent.value()).value().reached() == 1;
  }));
  EXPECT_EQ(nic(1).read(sent.value()).value().success, 1u);
  EXPECT_TRUE(eventually([&] { return here.load() == 5; }));
  ASSERT_TRUE(works(nic(0).add_peer(1, addresses[1])));
  refused({Code::kInvalidState}, "again", add(1, addresses[1]));
  here.store(6);
  const CounterId done = counter();
  issue(write_op(here, 0, there, 0, 8, done));
  ASSERT_TRUE(reaches(done, 1));
  EXPECT_TRUE(eventually([&] { return there.load() == 6; }));
  EXPECT_TRUE(works(nic(1).deregister_region(there.region)));
  EXPECT_TRUE(works(nic(1).close_counter(sent.value())));
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_REFUSALS_H_
