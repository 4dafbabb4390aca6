// Device memory on the simulated NIC, over every wire, pulled and staged. The device is
// fake_device_memory.h: a host access to its memory ends the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "tests/nicsim/device_nic_fixture.h"

namespace lanyard {
namespace {

using std::chrono::microseconds;

constexpr uint64_t kMiB = uint64_t{1} << 20;

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
        ASSERT_EQ(read(target, kShift, bytes), message) << bytes << " bytes: counted before the data is there";
        ASSERT_TRUE(reaches(done, writes)) << bytes;
        std::vector<std::byte> all = before;
        std::copy(message.begin(), message.end(), all.begin() + kShift);
        EXPECT_TRUE(read(target, 0, target.bytes) == all) << bytes << " bytes: wrote outside the message";
      }
      drop(source);
      drop(target);
    }
  }
  EXPECT_EQ(memory(1).borrows_made > 0, GetParam().pulls());
  EXPECT_EQ(nic().failures(), 0u);
}

// Messages in both directions, of all kinds, more than the device copies at once. At the end the
// NICs close while as many messages are in flight again.
TEST_P(DeviceNic, ManyInFlightAlsoAtClose) {
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
  const auto issue_all = [&] {
    for (const auto& [from, to, bytes] : messages)
      issue(write_op(from, 0, to, 0, bytes.size(), done[from.rank]), from.rank);
  };
  issue_all();
  for (const size_t rank : {0u, 1u}) {
    ASSERT_TRUE(reaches(arrived[rank], received[rank], rank));
    ASSERT_TRUE(reaches(done[rank], sent[rank], rank));
  }
  for (const Message& message : messages)
    EXPECT_TRUE(read(message.to, 0, message.bytes.size()) == message.bytes);
  issue_all();
}

// The NIC's own thread ends a copy whose starter no longer polls, even if that thread sleeps.
TEST_P(DeviceNic, CopiesEndWithoutACallOfTheirStarter) {
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

// The end of a copy wakes a thread that sleeps until something happens.
TEST_P(DeviceNic, TheEndOfACopyWakesASleeper) {
  start();
  const CounterId done = counter();
  const Buffer source = buffer(0, 0, 5000);
  const Buffer target = buffer(0, 1, 5000);
  memory(0).hold_copies(true);
  issue(write_op(source, 0, target, 0, 5000, done));
  ASSERT_TRUE(eventually([&] { return memory(0).usage().copies == 1; }));
  std::thread end([&] {
    std::this_thread::sleep_for(milliseconds(250));  // longer than any thread spins without work
    memory(0).hold_copies(false);
  });
  const auto begin = steady_clock::now();
  while (value(done).success == 0 && steady_clock::now() < begin + kBound) {
    const uint64_t seen = nic(0).activity();
    if (value(done).success == 0 && nic(0).progress() == 0)
      nic(0).wait_since(seen, 2 * kBound);
  }
  end.join();
  EXPECT_EQ(value(done), CounterValue{.success = 1});
  EXPECT_LT(steady_clock::now() - begin, kBound);
}

// No counter changes before the device has ended its copy.
TEST_P(DeviceNic, NothingCountsBeforeItsDataIsThere) {
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
  const auto atomic = [&](const Buffer& operand, const Buffer& target) {
    Op op;
    op.kind = OpKind::kAtomic;
    op.completion = done;
    op.local = {operand.region, 0};
    op.remote = {static_cast<uint32_t>(target.rank), target.key, 16};
    op.context = 7;
    return op;
  };
  const Op refused = atomic(device, host);
  EXPECT_EQ(nic().issue(refused).code(), Code::kUnsupported);
  const nic::DeferredOp ops[] = {{.op = atomic(host, host), .trigger = done, .threshold = 1000},
                                 {.op = refused, .trigger = done}};
  EXPECT_EQ(nic().post(ops).code(), Code::kUnsupported);
  EXPECT_EQ(nic().free_entries(), nic().caps().deferred_depth);
  uint32_t failures = 0;
  for (const size_t rank : {0u, 1u}) {
    const CounterId arrived = counter(rank);
    const Buffer target = buffer(rank, 0, 64, arrived);
    issue(atomic(host, target));
    ASSERT_TRUE(reaches(done, CounterValue{.failure = ++failures}));
    const std::optional<nic::FailureRecord> record = nic().take_failure();
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record->code, Code::kUnsupported);
    EXPECT_EQ(record->context, 7u);
    EXPECT_EQ(value(arrived, rank), CounterValue{});
    EXPECT_EQ(read(target, 0, 64), std::vector<std::byte>(64));
    drop(target);  // fails if anything still uses the region
  }
}

TEST_P(DeviceNic, MessagesOutsideARegionFailAtTheSender) {
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
