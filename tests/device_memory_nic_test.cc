// The simulated card moves device memory: every way between host and device, over every wire, pulled and staged, and what
// becomes of it when something fails. The device is tests/fake_device_memory.h, which no host access survives.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "nicsim/threaded/lagging_memory.h"
#include "tests/device_nic_fixture.h"
#include "tests/sanitizers.h"

namespace lanyard {
namespace {

using std::chrono::microseconds;

constexpr uint64_t kMiB = uint64_t{1} << 20;
#if defined(LANYARD_ADDRESS_SANITIZER) || defined(LANYARD_THREAD_SANITIZER)
constexpr uint64_t kRounds = 40;
#else
constexpr uint64_t kRounds = 200;
#endif

const std::vector<std::pair<int, int>> kCombinations = {{kHost, kHost}, {kHost, 0}, {0, kHost}, {0, 0}, {0, 1}, {1, 0}};

// ---- Data

TEST_P(DeviceNic, EveryCombinationAndSize) {
  start();
  EXPECT_TRUE(nic().caps().device_memory);
  constexpr uint64_t kLargest = 5 * kMiB;
  constexpr uint64_t kShift = 13;
  for (const auto& [from, to] : kCombinations) {
    for (const size_t rank : {1u, 0u}) {
      SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to) + " of NIC " + std::to_string(rank));
      const CounterId done = counter();
      const CounterId arrived = counter(rank);
      const Buffer source = buffer(0, from, kLargest + 2 * kShift);
      const Buffer target = buffer(rank, to, kLargest + 2 * kShift, arrived);
      uint64_t writes = 0;
      for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{7}, 4 * 1024 + uint64_t{3}, kLargest}) {
        const std::vector<std::byte> message = pattern(bytes + rank, bytes);
        const std::vector<std::byte> before(target.bytes, std::byte{0xee});
        write(source, 0, pattern(99, source.bytes));
        write(source, 3, message);
        write(target, 0, before);
        issue(write_op(source, 3, target, kShift, bytes, done));
        ++writes;
        ASSERT_TRUE(reaches(arrived, writes, rank)) << bytes;
        ASSERT_EQ(read(target, kShift, bytes), message) << bytes << " bytes, at the moment of the count";
        ASSERT_TRUE(reaches(done, writes)) << bytes;
        std::vector<std::byte> all = before;
        std::copy(message.begin(), message.end(), all.begin() + kShift);
        EXPECT_TRUE(read(target, 0, target.bytes) == all) << bytes << " bytes: something beside the message";
      }
      drop(source);
      drop(target);
    }
  }
  EXPECT_EQ(memory(1).borrows_made() > 0, GetParam().pulls());
  EXPECT_EQ(nic().failures(), 0u);
}

// In both directions, of all kinds, more than the device takes at once.
TEST_P(DeviceNic, ManyAtOnce) {
  start(2, {.most_delay = microseconds(300), .most_copies = 3});
  constexpr uint64_t kMessages = 96;
  struct Message {
    Buffer from, to;
    std::vector<std::byte> bytes;
  };
  std::vector<Message> messages;
  const CounterId done[] = {counter(0), counter(1)};
  const CounterId arrived[] = {counter(0), counter(1)};
  uint64_t sent[2] = {}, received[2] = {};
  for (uint64_t i = 0; i < kMessages; ++i) {
    const auto [from, to] = kCombinations[i % kCombinations.size()];
    const size_t source = i / 2 % 2;
    const size_t target = i % 5 == 0 ? source : 1 - source;
    const uint64_t bytes = i * i * 37 % 70'001;
    Message message{.from = buffer(source, from, bytes),
                    .to = buffer(target, to, bytes, arrived[target]),
                    .bytes = pattern(i, bytes)};
    write(message.from, 0, message.bytes);
    messages.push_back(message);
    ++sent[source];
    ++received[target];
  }
  for (const Message& message : messages)
    issue(write_op(message.from, 0, message.to, 0, message.bytes.size(), done[message.from.rank]), message.from.rank);
  for (const size_t rank : {0u, 1u}) {
    ASSERT_TRUE(reaches(arrived[rank], received[rank], rank));
    ASSERT_TRUE(reaches(done[rank], sent[rank], rank));
  }
  for (const Message& message : messages) {
    EXPECT_TRUE(read(message.to, 0, message.bytes.size()) == message.bytes);
    drop(message.from);
    drop(message.to);
  }
}

// The chain of a message is the device's and the cards' own work: a flag in host memory rises with no host call at all after
// the ring, and then the data is there.
TEST_P(DeviceNic, AloneAMessageAndItsFlag) {
  start();
  constexpr uint64_t kBytes = 10'000;
  for (const auto& [from, to] : kCombinations) {
    const CounterId trigger = counter(0);
    const CounterId done = counter(0);
    const CounterId arrived = counter(1);
    const Buffer source = buffer(0, from, kBytes);
    const Buffer target = buffer(1, to, kBytes, arrived);
    const Buffer number = buffer(1, kHost, 8);
    const Buffer flag = buffer(1, kHost, 8);
    uint64_t* const bell = nic(0).doorbell(trigger, nic::DoorbellKind::kAtomicAdd).value().word;
    for (uint64_t i = 1; i <= 12; ++i) {
      const std::vector<std::byte> message = pattern(i, kBytes);
      write(source, 0, message);
      std::memcpy(number.data, &i, sizeof i);
      const nic::DeferredOp data{.op = write_op(source, 0, target, 0, kBytes, done), .trigger = trigger, .threshold = i};
      Op raise;
      raise.kind = OpKind::kAtomic;
      raise.atomic = nic::AtomicKind::kReplace;
      raise.local = {number.region, 0};
      raise.remote = {1, flag.key, 0};
      const nic::DeferredOp tell{.op = raise, .trigger = arrived, .threshold = i};
      ASSERT_TRUE(nic(0).post({&data, 1}).ok());
      ASSERT_TRUE(nic(1).post({&tell, 1}).ok());
      if (i % 4 == 1)
        std::this_thread::sleep_for(milliseconds(130));  // whatever works in there falls asleep
      std::atomic_ref<uint64_t>(*bell).fetch_add(1);
      std::atomic_ref<uint64_t> raised(*reinterpret_cast<uint64_t*>(flag.data));
      ASSERT_TRUE(happens_without_us([&] { return raised.load(std::memory_order_acquire) == i; }));
      ASSERT_TRUE(read(target, 0, kBytes) == message) << "message " << i << " was flagged before it was there";
      ASSERT_TRUE(reaches(done, i));
    }
    EXPECT_TRUE(eventually([&] { return nic(0).free_entries() == nic(0).caps().deferred_depth; }));
    ASSERT_TRUE(reaches(arrived, 12, 1));
    settle();
    for (const Buffer& each : {source, number, flag, target})
      drop(each);
  }
}

// Who starts a copy, by a host call or while it attends, and goes elsewhere leaves the rest to the card's own thread, however
// deep that sleeps.
TEST_P(DeviceNic, CopiesEndThoughWhoStartedThemHasGone) {
  start(2, {.most_delay = microseconds(3000)});
  constexpr uint64_t kBytes = 3000;
  const CounterId trigger = counter(0);
  const CounterId done = counter(0);
  const nic::Doorbell bell = nic(0).doorbell(trigger, nic::DoorbellKind::kHostCall).value();
  const Buffer number = buffer(0, kHost, 8);
  const Buffer flag = buffer(0, kHost, 8);
  std::atomic_ref<uint64_t> raised(*reinterpret_cast<uint64_t*>(flag.data));
  uint64_t messages = 0;
  for (const auto& [from, to] : {std::pair{kHost, 0}, {0, kHost}, {0, 1}}) {
    for (const size_t rank : {0u, 1u}) {
      for (const bool attends : {false, true}) {
        const Buffer source = buffer(0, from, kBytes);
        const Buffer target = buffer(rank, to, kBytes);
        write(source, 0, pattern(++messages, kBytes));
        std::memcpy(number.data, &messages, sizeof messages);
        Op raise;
        raise.kind = OpKind::kAtomic;
        raise.atomic = nic::AtomicKind::kReplace;
        raise.local = {number.region, 0};
        raise.remote = {0, flag.key, 0};
        const nic::DeferredOp ops[] = {
            {.op = write_op(source, 0, target, 0, kBytes, done), .trigger = trigger, .threshold = messages},
            {.op = raise, .trigger = done, .threshold = messages}};
        ASSERT_TRUE(nic(0).post(ops).ok());
        std::this_thread::sleep_for(milliseconds(130));
        if (attends)
          nic(0).attend();
        bell.call(bell.object, bell.counter, 1);
        if (attends)
          nic(0).leave();
        ASSERT_TRUE(happens_without_us([&] { return raised.load(std::memory_order_acquire) == messages; }));
        EXPECT_TRUE(read(target, 0, kBytes) == pattern(messages, kBytes));
        drop(source);
        drop(target);
      }
    }
  }
}

// While the device has not ended, nothing counts.
TEST_P(DeviceNic, NothingCountsBeforeItIsThere) {
  start();
  const CounterId done = counter();
  for (const auto& [from, to] : {std::pair{kHost, 0}, {0, kHost}, {0, 1}}) {
    for (const size_t rank : {1u, 0u}) {
      const CounterId arrived = counter(rank);
      const Buffer source = buffer(0, from, 100'000);
      const Buffer target = buffer(rank, to, 100'000, arrived);
      const std::vector<std::byte> message = pattern(rank, 100'000);
      write(source, 0, message);
      const uint64_t before = value(done).success;
      memory(0).hold_copies(true);
      memory(rank).hold_copies(true);
      issue(write_op(source, 0, target, 0, 100'000, done));
      settle();
      EXPECT_EQ(value(arrived, rank), CounterValue{});
      EXPECT_EQ(value(done).success, before);
      EXPECT_EQ(nic(0).deregister_region(source.region).code(), Code::kInvalidState);
      std::this_thread::sleep_for(milliseconds(5));
      memory(0).hold_copies(false);
      memory(rank).hold_copies(false);
      ASSERT_TRUE(reaches(arrived, 1, rank));
      EXPECT_TRUE(read(target, 0, 100'000) == message);
      ASSERT_TRUE(reaches(done, before + 1));
      drop(source);
      drop(target);
    }
  }
}

// ---- Refusals

TEST_P(DeviceNic, RegionsLieWithinOneAllocation) {
  start();
  std::byte* const device = memory(0).allocate(0, 4096);
  const Result<nic::RegionId> region = nic().register_region(device + 4000, 200, {});
  EXPECT_EQ(region.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(nic().usage().regions, 0u);
  EXPECT_TRUE(nic().register_region(nullptr, 0, {}).ok());
}

TEST_P(DeviceNic, AtomicsStayInHostMemory) {
  start();
  const CounterId done = counter();
  const Buffer host = buffer(0, kHost, 64);
  const Buffer device = buffer(0, 0, 64);
  const auto atomic = [&](const Buffer& operand, const Buffer& fetch, const Buffer& target, nic::AtomicKind kind) {
    Op op;
    op.kind = OpKind::kAtomic;
    op.atomic = kind;
    op.completion = done;
    op.local = {operand.region, 0};
    op.fetch = {fetch.region, 8};
    op.remote = {static_cast<uint32_t>(target.rank), target.key, 16};
    op.context = 7;
    return op;
  };
  using Kind = nic::AtomicKind;
  for (const Op& op : {atomic(device, host, host, Kind::kSum), atomic(host, device, host, Kind::kFetchSum),
                       atomic(host, device, host, Kind::kCompareSwap)}) {
    EXPECT_EQ(nic().issue(op).code(), Code::kUnsupported);
    const nic::DeferredOp ops[] = {{.op = atomic(host, host, host, Kind::kSum), .trigger = done, .threshold = 1000},
                                   {.op = op, .trigger = done}};
    EXPECT_EQ(nic().post(ops).code(), Code::kUnsupported);
    EXPECT_EQ(nic().free_entries(), nic().caps().deferred_depth);
  }
  uint32_t failures = 0;
  for (const size_t rank : {0u, 1u}) {
    const CounterId arrived = counter(rank);
    const Buffer target = buffer(rank, 0, 64, arrived);
    issue(atomic(host, host, target, Kind::kSum));
    ASSERT_TRUE(reaches(done, CounterValue{.failure = ++failures}));
    const std::optional<nic::FailureRecord> record = nic().take_failure();
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record->code, Code::kUnsupported);
    EXPECT_EQ(record->context, 7u);
    EXPECT_EQ(value(arrived, rank), CounterValue{});
    EXPECT_EQ(read(target, 0, 64), std::vector<std::byte>(64));
    drop(target);  // nothing is pinned
  }
}

TEST_P(DeviceNic, MessagesOutsideFailAtTheirSender) {
  start();
  const CounterId done = counter();
  const Buffer source = buffer(0, 0, 1000);
  const Buffer target = buffer(1, 1, 500);
  issue(write_op(source, 0, target, 0, 501, done));
  ASSERT_TRUE(reaches(done, {.failure = 1}));
  EXPECT_EQ(nic().take_failure()->code, Code::kInvalidArgument);
  drop(target);
  issue(write_op(source, 0, target, 0, 500, done));
  ASSERT_TRUE(reaches(done, {.failure = 2}));
  EXPECT_EQ(nic().take_failure()->code, Code::kNotFound);
  drop(source);
}

// ---- Failures

TEST_P(DeviceNic, CopiesThatFailFailTheirOperation) {
  start();
  for (const auto& [from, to] : {std::pair{kHost, 0}, {0, kHost}, {0, 1}}) {
    for (const size_t rank : {1u, 0u}) {
      SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to) + " of NIC " + std::to_string(rank));
      const CounterId done = counter();
      const CounterId arrived = counter(rank);
      const Buffer source = buffer(0, from, 9000);
      const Buffer target = buffer(rank, to, 9000, arrived);
      uint32_t failures = 0;
      const auto fails = [&](Code code) {
        issue(write_op(source, 0, target, 0, 9000, done, failures + 40));
        ASSERT_TRUE(reaches(done, CounterValue{.failure = ++failures}));
        const std::optional<nic::FailureRecord> record = nic().take_failure();
        ASSERT_TRUE(record.has_value());
        EXPECT_EQ(record->code, code);
        EXPECT_EQ(record->context, failures + 39);
        EXPECT_EQ(record->peer, rank);
      };
      const auto on_all = [&](auto call) {
        for (const size_t each : {0u, 1u})
          call(memory(each));
      };
      on_all([](FakeDeviceMemory& each) { each.fail_copies(true); });
      fails(Code::kFailed);
      on_all([](FakeDeviceMemory& each) { each.fail_copies(false), each.fail_starts(true); });
      fails(Code::kFailed);
      on_all([](FakeDeviceMemory& each) { each.fail_starts(false); });
      const bool needs_staging = rank == 1 ? !GetParam().pulls() || from == kHost || to == kHost : from == kHost || to == kHost;
      if (needs_staging) {
        on_all([](FakeDeviceMemory& each) { each.exhaust_staging(true); });
        fails(Code::kExhausted);
        on_all([](FakeDeviceMemory& each) { each.exhaust_staging(false); });
      }
      EXPECT_EQ(value(arrived, rank), CounterValue{});
      write(source, 0, pattern(3, 9000));
      issue(write_op(source, 0, target, 0, 9000, done));
      ASSERT_TRUE(reaches(done, CounterValue{.success = 1, .failure = failures}));
      EXPECT_TRUE(read(target, 0, 9000) == pattern(3, 9000));
      drop(source);
      drop(target);
    }
  }
}

// A peer that turns out not to reach the memory gets it by staging, and is never asked again.
TEST_P(DeviceNic, RefusedPullsFallBackSilently) {
  start();
  const CounterId done = counter();
  memory(1).refuse_borrows(true);
  std::vector<std::pair<Buffer, Buffer>> pairs;
  for (uint64_t i = 0; i < 8; ++i) {
    pairs.emplace_back(buffer(0, 0, 10'000), buffer(1, static_cast<int>(i % 3) - 1, 10'000));
    write(pairs.back().first, 0, pattern(i, 10'000));
  }
  for (const auto& [source, target] : pairs)
    issue(write_op(source, 0, target, 0, 10'000, done));
  ASSERT_TRUE(reaches(done, 8));
  memory(1).refuse_borrows(false);
  issue(write_op(pairs[0].first, 0, pairs[1].second, 0, 10'000, done));
  ASSERT_TRUE(reaches(done, 9));
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(read(pairs[i].second, 0, 10'000) == pattern(i == 1 ? 0 : i, 10'000)) << i;
    drop(pairs[i].first);
    drop(pairs[i].second);
  }
  EXPECT_EQ(memory(1).borrows_made(), 0u);
  EXPECT_EQ(nic().failures(), 0u);
}

// The memory of an earlier loan is another allocation by now, of which the loan may say the same.
TEST_P(DeviceNic, LoansOfMemoryThatCameAnew) {
  start();
  const CounterId done = counter();
  const Buffer target = buffer(1, 1, 5000);
  for (uint64_t i = 1; i <= 10; ++i) {
    const Buffer source = buffer(0, 0, 5000);
    write(source, 0, pattern(i, 5000));
    issue(write_op(source, 0, target, 0, 5000, done));
    ASSERT_TRUE(reaches(done, i));
    EXPECT_TRUE(read(target, 0, 5000) == pattern(i, 5000)) << i;
    drop(source);
    memory(0).free(source.data);
  }
  drop(target);
}

TEST_P(DeviceNic, DeregistrationUnderTraffic) {
  start(2, {.most_delay = microseconds(400), .most_copies = 4});
  const CounterId done = counter();
  uint64_t issued = 0;
  uint64_t landed = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const int from = round % 3 == 0 ? kHost : 0;
    const size_t rank = round % 4 == 1 ? 0 : 1;
    const CounterId arrived = counter(rank);
    const Buffer source = buffer(0, from, 20'000);
    const Buffer target = buffer(rank, 1, 20'000, arrived);
    for (int i = 0; i < 6; ++i, ++issued)
      issue(write_op(source, 0, target, 0, round % 2 == 0 ? 20'000 : 500, done));
    for (uint64_t turns = 0; turns < round % 40; ++turns)
      fabric_->progress_all();
    if (rank == 1)
      drop(target);  // its arrivals have ended; of the others nothing comes any more
    else
      ASSERT_TRUE(eventually([&] { return nic(0).deregister_region(target.region).ok(); }));
    memory(rank).free(target.data);
    landed += value(arrived, rank).success;
    ASSERT_TRUE(eventually([&] { return value(done).reached() % 128 == issued % 128 || value(done).failure == 127; }));
    ASSERT_TRUE(eventually([&] { return nic(0).deregister_region(source.region).ok(); }));
    if (from != kHost)
      memory(0).free(source.data);
    ASSERT_TRUE(nic(rank).close_counter(arrived).ok());
    while (nic(0).take_failure().has_value()) {
    }
  }
  EXPECT_EQ(value(done).success, landed) << "a success is a message that has landed";
  EXPECT_EQ(nic(0).failures() + landed, issued);
}

// ---- Peers that go

TEST_P(DeviceNic, TheTargetGoesWhileItsDeviceCopies) {
  start();
  const CounterId done = counter();
  const Buffer from_device = buffer(0, 0, 50'000);
  const Buffer from_host = buffer(0, kHost, 50'000);
  const Buffer target = buffer(1, 0, 50'000);
  memory(1).hold_copies(true);
  for (int i = 0; i < 5; ++i) {
    issue(write_op(from_device, 0, target, 0, 50'000, done));
    issue(write_op(from_host, 0, target, 0, 50'000, done));
  }
  settle();
  {
    std::jthread release([&] {
      std::this_thread::sleep_for(milliseconds(10));
      memory(1).hold_copies(false);
    });
    fabric_->end(1);
  }
  ASSERT_TRUE(reaches(done, CounterValue{.failure = 10}));
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(nic(0).take_failure()->code, Code::kFailed);
  drop(from_device);
  drop(from_host);
}

TEST_P(DeviceNic, TheTargetGoesWhileTheSourcesDeviceCopies) {
  start();
  const CounterId done = counter();
  const Buffer source = buffer(0, 0, 50'000);
  const Buffer target = buffer(1, kHost, 50'000);
  memory(1).refuse_borrows(true);
  // The first one says that the peer is there, and cannot pull.
  issue(write_op(source, 0, target, 0, 50'000, done));
  ASSERT_TRUE(reaches(done, 1));
  memory(0).hold_copies(true);
  for (int i = 0; i < 5; ++i)
    issue(write_op(source, 0, target, 0, 50'000, done));
  settle();
  fabric_->end(1);
  ASSERT_TRUE(reaches(done, CounterValue{.success = 1, .failure = 5}));
  // The device still reads: the region stays until it has ended.
  std::jthread release([&] {
    std::this_thread::sleep_for(milliseconds(20));
    memory(0).hold_copies(false);
  });
  drop(source);
  memory(0).free(source.data);
}

TEST_P(DeviceNic, TheSourceGoesWhileTheTargetsDeviceCopies) {
  start();
  const CounterId done = counter();
  const CounterId arrived = counter(1);
  const Buffer source = buffer(0, 0, 50'000);
  const Buffer target = buffer(1, 0, 50'000, arrived);
  const CounterId back = counter(1);
  issue(write_op(target, 0, source, 0, 50'000, back), 1);
  ASSERT_TRUE(reaches(back, 1, 1));
  memory(1).hold_copies(true);
  for (int i = 0; i < 5; ++i)
    issue(write_op(source, 0, target, 0, 50'000, done));
  settle();
  fabric_->end(0);
  issue(write_op(target, 0, source, 0, 0, back), 1);  // it sees that the peer has gone
  ASSERT_TRUE(eventually([&] {
    nic(1).progress();
    return value(back, 1).failure == 1;
  }));
  memory(1).hold_copies(false);
  drop(target);
  // What was staged had arrived; what was pulled from there has not.
  EXPECT_EQ(value(arrived, 1), (CounterValue{.success = GetParam().pulls() ? 0u : 5u}));
}

// The process ends its use of the card with everything under way.
TEST_P(DeviceNic, EndsWithMovesUnderWay) {
  start(2, {.most_delay = microseconds(5000), .most_copies = 2});
  const CounterId done = counter();
  std::vector<Buffer> buffers;
  for (int i = 0; i < 30; ++i) {
    const auto [from, to] = kCombinations[static_cast<size_t>(i) % kCombinations.size()];
    buffers.push_back(buffer(0, from, 30'000));
    buffers.push_back(buffer(i % 2 == 0 ? 1 : 0, to, 30'000));
    issue(write_op(buffers[buffers.size() - 2], 0, buffers.back(), 0, 30'000, done));
  }
  for (int i = 0; i < 20; ++i)
    fabric_->progress_all();
}

// ---- The fault

// The flag overtakes the data where the device says too early that it has ended; who looks at the payload sees that.
TEST_P(DeviceNic, StaleDataIsSeen) {
  FakeDeviceMemory underneath({.lends = GetParam().lends, .borrows = GetParam().borrows});
  const auto lagging = std::move(nicsim::make_lagging_memory(underneath, milliseconds(200)).value());
  in_place_ = {nullptr, lagging.get()};
  start();
  const CounterId done = counter();
  const CounterId arrived = counter(1);
  const Buffer from_host = buffer(0, kHost, 4000);
  const Buffer from_device = buffer(0, 0, 4000);
  Buffer target{.rank = 1, .device = 0, .data = underneath.allocate(0, 4000), .bytes = 4000};
  enroll(target, arrived);
  uint64_t count = 0;
  for (const Buffer& source : {from_host, from_device}) {
    const std::vector<std::byte> before = underneath.read(target.data, 4000);
    const std::vector<std::byte> message = pattern(++count, 4000);
    write(source, 0, message);
    issue(write_op(source, 0, target, 0, 4000, done));
    ASSERT_TRUE(reaches(arrived, count, 1));
    EXPECT_TRUE(underneath.read(target.data, 4000) == before) << "the fault is that nothing is there";
    ASSERT_TRUE(reaches(done, count));
    EXPECT_TRUE(happens_without_us([&] { return underneath.read(target.data, 4000) == message; })) << "for a while";
  }
  for (const Buffer& each : {from_host, from_device, target})
    drop(each);
  fabric_.reset();
}

INSTANTIATE_TEST_SUITE_P(
    Device, DeviceNic,
    ::testing::Values(DeviceSetting{.name = "ShmPulled"}, DeviceSetting{.name = "ShmNotLent", .lends = false},
                      DeviceSetting{.name = "ShmNotBorrowed", .borrows = false},
                      DeviceSetting{.name = "ShmWithoutCma", .borrows = false, .use_cma = false},
                      DeviceSetting{.name = "ShmNeverSpins", .spin_for = milliseconds(0)},
                      DeviceSetting{.name = "TcpPulled", .wire = LocalOptions::Wire::kTcp},
                      DeviceSetting{.name = "TcpStaged", .wire = LocalOptions::Wire::kTcp, .lends = false}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lanyard
