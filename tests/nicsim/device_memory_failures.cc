// Device memory on the simulated NIC, with failures: copies fail, peers die, devices
// report wrongly.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nicsim/model/packet.h"
#include "nicsim/threaded/lagging_memory.h"
#include "nicsim/threaded/threaded_nic.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/wire.h"
#include "tests/nicsim/device_nic_fixture.h"
#include "tests/support/sanitizers.h"

namespace lanyard {
namespace {

using std::chrono::microseconds;

#if defined(LANYARD_ADDRESS_SANITIZER) || defined(LANYARD_THREAD_SANITIZER)
constexpr uint64_t kRounds = 40;
#else
constexpr uint64_t kRounds = 200;
#endif

TEST_P(DeviceNic, AFailedCopyFailsItsOperation) {
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
      on_all([](FakeDeviceMemory& each) { each.fail_copies = true; });
      fails(Code::kFailed);
      on_all([](FakeDeviceMemory& each) { each.fail_copies = false, each.fail_starts = true; });
      fails(Code::kFailed);
      on_all([](FakeDeviceMemory& each) { each.fail_starts = false; });
      const bool needs_staging = from == kHost || to == kHost || (rank == 1 && !GetParam().pulls());
      if (needs_staging) {
        on_all([](FakeDeviceMemory& each) { each.exhaust_staging = true; });
        fails(Code::kExhausted);
        on_all([](FakeDeviceMemory& each) { each.exhaust_staging = false; });
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

// A peer that cannot borrow the memory gets the data by staging. The NIC never tries to lend again.
TEST_P(DeviceNic, RefusedPullsFallBackSilently) {
  start();
  const CounterId done = counter();
  memory(1).refuse_borrows = true;
  std::vector<std::pair<Buffer, Buffer>> pairs;
  for (uint64_t i = 0; i < 8; ++i) {
    pairs.emplace_back(buffer(0, 0, 10'000), buffer(1, static_cast<int>(i % 3) - 1, 10'000));
    write(pairs.back().first, 0, pattern(i, 10'000));
  }
  for (const auto& [source, target] : pairs)
    issue(write_op(source, 0, target, 0, 10'000, done));
  ASSERT_TRUE(reaches(done, 8));
  memory(1).refuse_borrows = false;
  issue(write_op(pairs[0].first, 0, pairs[1].second, 0, 10'000, done));
  ASSERT_TRUE(reaches(done, 9));
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(read(pairs[i].second, 0, 10'000) == pattern(i == 1 ? 0 : i, 10'000)) << i;
    drop(pairs[i].first);
    drop(pairs[i].second);
  }
  EXPECT_EQ(memory(1).borrows_made, 0u);
  EXPECT_EQ(nic().failures(), 0u);
}

// A new allocation at an address that was lent before.
TEST_P(DeviceNic, ReallocatedMemoryIsLentAnew) {
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

// A loan is borrowed once per device.
TEST_P(DeviceNic, ALoanIsBorrowedOncePerDevice) {
  start();
  const CounterId done = counter();
  const Buffer source = buffer(0, 0, 5000);
  write(source, 0, pattern(3, 5000));
  const Buffer targets[2] = {buffer(1, 0, 5000), buffer(1, 1, 5000)};
  for (uint64_t i = 1; i <= 6; ++i) {
    issue(write_op(source, 0, targets[i % 2], 0, 5000, done));
    ASSERT_TRUE(reaches(done, i));
  }
  for (const Buffer& target : targets)
    EXPECT_TRUE(read(target, 0, 5000) == pattern(3, 5000)) << "wrong data on device " << target.device;
  const bool pulled = GetParam().pulls();
  EXPECT_EQ(memory(1).borrows_made, pulled ? 2u : 0u);
}

// The lender states the message's place in the loan. The borrower must not read outside the loan.
TEST_P(DeviceNic, PullsOutsideTheLoanAreRefused) {
  if (GetParam().wire != LocalOptions::Wire::kShm || !GetParam().pulls())
    GTEST_SKIP() << "this setting does not pull";
  FakeDeviceMemory lender, borrower;
  {
    std::unique_ptr<nicsim::Wire> rogue = std::move(nicsim::make_shm_wire().value());
    nicsim::ThreadedNic nic({}, std::move(nicsim::make_shm_wire().value()), {.memory = &borrower});
    const std::vector<nic::Address> peers{rogue->address(), nic.address()};
    ASSERT_TRUE(rogue->set_peers(peers, 0).ok() && nic.set_peers(peers, 1).ok());
    const CounterId arrived = nic.open_counter().value();
    std::byte* const target = borrower.allocate(0, 1000);
    const nic::RegionId region = nic.register_region(target, 1000, arrived).value();
    std::byte* const lent = lender.allocate(0, 5000);
    const DeviceMemory::Loan loan = lender.lend(lent + 1000, 1000).value();
    const std::vector<std::byte> sent = pattern(1, 1000);
    const std::vector<std::byte> last(sent.begin() + 900, sent.end());
    lender.write(lent + 1000, sent);
    nicsim::Packet packet{.kind = nicsim::PacketKind::kPull, .key = nic.key(region).value().value, .bytes = 100};
    for (const uint64_t operand : {uint64_t{901}, uint64_t{1000}, uint64_t{4000}, ~uint64_t{0}, ~uint64_t{0} - 999}) {
      packet.operand = operand;
      ++packet.token;
      rogue->send(1, packet, loan.bytes.data());
    }
    packet.operand = 900;
    rogue->send(1, packet, loan.bytes.data());
    EXPECT_TRUE(lanyard::eventually([&] { return nic.read(arrived).value().success > 0; }, [&] { nic.progress(); }));
    EXPECT_EQ(nic.read(arrived).value(), CounterValue{.success = 1});
    EXPECT_TRUE(borrower.read(target, 100) == last);
    EXPECT_EQ(borrower.copies_made, 1u);
    ASSERT_TRUE(nic.deregister_region(region).ok());
  }
  EXPECT_EQ(borrower.usage(), FakeDeviceMemory::Usage{});
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
      drop(target);  // all arrivals that have begun have ended; later ones are refused
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
  EXPECT_EQ(value(done).success, landed) << "a message counts as a success but has not landed, or the reverse";
  EXPECT_EQ(nic(0).failures() + landed, issued);
}

// ---- Peers that die

TEST_P(DeviceNic, TheTargetDiesWhileItsDeviceCopies) {
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

TEST_P(DeviceNic, TheTargetDiesWhileTheSourcesDeviceCopies) {
  start();
  const CounterId done = counter();
  const Buffer source = buffer(0, 0, 50'000);
  const Buffer target = buffer(1, kHost, 50'000);
  memory(1).refuse_borrows = true;
  // The first message tells NIC 0 that the peer cannot pull.
  issue(write_op(source, 0, target, 0, 50'000, done));
  ASSERT_TRUE(reaches(done, 1));
  memory(0).hold_copies(true);
  for (int i = 0; i < 5; ++i)
    issue(write_op(source, 0, target, 0, 50'000, done));
  settle();
  fabric_->end(1);
  ASSERT_TRUE(reaches(done, CounterValue{.success = 1, .failure = 5}));
  // The device still reads, so the region cannot be deregistered yet.
  std::jthread release([&] {
    std::this_thread::sleep_for(milliseconds(20));
    memory(0).hold_copies(false);
  });
  drop(source);
  memory(0).free(source.data);
}

TEST_P(DeviceNic, TheSourceDiesWhileTheTargetsDeviceCopies) {
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
  issue(write_op(target, 0, source, 0, 0, back), 1);  // makes the NIC notice that the peer is gone
  ASSERT_TRUE(eventually([&] {
    nic(1).progress();
    return value(back, 1).failure == 1;
  }));
  memory(1).hold_copies(false);
  drop(target);
  // Staged data has arrived. Data to be pulled is lost with the peer.
  EXPECT_EQ(value(arrived, 1), (CounterValue{.success = GetParam().pulls() ? 0u : 5u}));
}

// The fault of lagging_memory.h: the device reports the end of a copy too early, so that the flag
// overtakes the data.
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
    EXPECT_TRUE(underneath.read(target.data, 4000) == before) << "the lagging memory already shows the message";
    ASSERT_TRUE(reaches(done, count));
    EXPECT_TRUE(happens_without_us([&] { return underneath.read(target.data, 4000) == message; })) << "never arrives";
  }
  for (const Buffer& each : {from_host, from_device, target})
    drop(each);
  fabric_.reset();
}

}  // namespace
}  // namespace lanyard
