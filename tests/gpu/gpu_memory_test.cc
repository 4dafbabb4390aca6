// GpuMemory over a fake driver on host threads: the contract of device memory, loans between two
// simulated processes, and failures.
#include "gpu/device/gpu_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "gpu/device/device.h"
#include "tests/gpu/device_memory_contract.h"
#include "tests/gpu/fake_driver.h"

namespace lanyard::memory_contract {
namespace {

using gpu::DeviceOptions;
using gpu::GpuMemory;
using gpu::ProcessName;

// One driver and one process's memory; `other` simulates another process on the same host.
struct FakeLab final : MemoryLab {
  explicit FakeLab(const FakeDriver::Options& options, const ProcessName& other_name = {.pid = 2},
                   const DeviceOptions& use = {.copy_linger = std::chrono::microseconds(200)})
      : driver(options),
        own_devices(driver, use),
        other_devices(driver, use),
        own(own_devices, {.pid = 1}),
        other(other_devices, other_name) {}
  DeviceMemory& memory() override { return own; }
  int devices() override { return driver.device_count(); }
  std::byte* make_memory(uint64_t bytes, int device) override { return driver.make_memory(bytes, device); }

  FakeDriver driver;
  gpu::Devices own_devices;
  gpu::Devices other_devices;
  GpuMemory own;
  GpuMemory other;
};

MemoryMaker maker(const char* name, const FakeDriver::Options& options,
                  const DeviceOptions& use = {.copy_linger = std::chrono::microseconds(200)}) {
  return {name, [options, use] { return std::make_unique<FakeLab>(options, ProcessName{.pid = 2}, use); }};
}

INSTANTIATE_TEST_SUITE_P(Fake, DeviceMemoryContract,
                         ::testing::Values(maker("OneDevice", {}), maker("TwoDevices", {.devices = 2}),
                                           maker("AKernelACopy", {.devices = 2}, {}),
                                           maker("KernelsOnly", {.has_memory_ops = false})),
                         memory_maker_name);

TEST(GpuMemoryTest, LongCopiesToAndFromTheHostUseTheCopyEngine) {
  FakeLab lab({});
  constexpr uint64_t kLong = gpu::CopyQueue::kShortestForEngine;
  std::byte* const a = lab.make_memory(kLong, 0);
  std::byte* const b = lab.make_memory(kLong, 0);
  std::byte* const host = lab.own.take_staging(kLong).value();
  ASSERT_TRUE(works(copy(lab.own, a, host, kLong - 1)));
  EXPECT_EQ(lab.driver.submissions("copy engine"), 0u);
  ASSERT_TRUE(works(copy(lab.own, b, a, kLong)));
  EXPECT_EQ(lab.driver.submissions("copy engine"), 0u);
  ASSERT_TRUE(works(copy(lab.own, a, host, kLong)));
  ASSERT_TRUE(works(copy(lab.own, host, a, kLong)));
  EXPECT_EQ(lab.driver.submissions("copy engine"), 2u);
  lab.own.give_staging(host);
}

// ---- Short copies by a kernel that keeps running

constexpr DeviceOptions kServed{.copy_linger = std::chrono::seconds(100)};

// Memory that the lab's own process has queried.
std::byte* known_memory(FakeLab& lab, uint64_t bytes) {
  std::byte* const memory = lab.make_memory(bytes, 0);
  EXPECT_EQ(lab.own.device_of(memory, bytes).value(), 0);
  return memory;
}

TEST(GpuMemoryTest, ShortCopiesShareALaunch) {
  FakeLab lab({}, {.pid = 2}, kServed);
  std::byte* const a = known_memory(lab, 1000);
  std::byte* const b = known_memory(lab, 1000);
  ASSERT_TRUE(works(copy(lab.own, a, b, 1)));
  const uint64_t launches = lab.driver.submissions("serve");
  for (int i = 0; i < 500; ++i) {
    fill(lab.driver.at(b), 1000, static_cast<uint64_t>(i));
    ASSERT_TRUE(works(copy(lab.own, a, b, 1000)));
    ASSERT_TRUE(holds(lab.driver.at(a), 1000, static_cast<uint64_t>(i))) << "copy " << i;
  }
  // The kernel ends by itself now and then.
  EXPECT_LT(lab.driver.submissions("serve") - launches, 250u);
  EXPECT_EQ(lab.driver.submissions("copy"), 1u) << "the only one expected is the first, which opens the device";
}

// A running kernel cannot reach memory mapped after its launch; the driver would fail.
TEST(GpuMemoryTest, NewMemoryIsCopiedByALaterLaunch) {
  FakeLab lab({.devices = 2}, {.pid = 2}, kServed);
  std::byte* const a = known_memory(lab, 1000);
  for (uint64_t round = 1; round <= 100; ++round) {
    std::byte* const fresh = known_memory(lab, 1000);
    fill(lab.driver.at(fresh), 1000, round);
    ASSERT_TRUE(works(copy(lab.own, a, fresh, 1000)));
    ASSERT_TRUE(holds(lab.driver.at(a), 1000, round));
    std::byte* const stranger = lab.make_memory(1000, 1);  // never queried
    ASSERT_TRUE(works(copy(lab.own, stranger, a, 1000)));
    ASSERT_TRUE(holds(lab.driver.at(stranger), 1000, round));
    const Result<std::byte*> staging = lab.own.take_staging(round * 4096);
    ASSERT_TRUE(works(copy(lab.own, staging.value(), stranger, 1000)));
    ASSERT_TRUE(holds(staging.value(), 1000, round));
    const Result<std::byte*> borrowed = lab.other.borrow(lab.own.lend(stranger, 1000).value(), 0);
    std::byte* const far = lab.make_memory(1000, 0);
    ASSERT_TRUE(works(lab.other.device_of(far, 1000).status()));
    ASSERT_TRUE(works(copy(lab.other, far, borrowed.value(), 1000)));
    ASSERT_TRUE(holds(lab.driver.at(far), 1000, round));
    lab.other.give_back(borrowed.value());
  }
}

TEST(GpuMemoryTest, TheRingBoundsTheShortCopiesInFlight) {
  FakeLab lab({}, {.pid = 2}, kServed);
  constexpr size_t kBytes = 64;
  constexpr size_t kCopies = 5 * gpu::CopyServer::kMostUnderWay;  // several rounds of the ring
  std::byte* const a = known_memory(lab, kCopies * kBytes);
  std::byte* const b = known_memory(lab, kCopies * kBytes);
  fill(lab.driver.at(b), kCopies * kBytes, 7);
  std::vector<DeviceMemory::Copy> copies;
  const auto start = [&] {
    const size_t offset = copies.size() * kBytes;
    const Result<DeviceMemory::Copy> started = lab.own.start_copy(a + offset, b + offset, kBytes);
    if (started.ok())
      copies.push_back(started.value());
    return started.status();
  };
  ASSERT_TRUE(works(start()));  // opens the device
  ASSERT_TRUE(works(finish(lab.own, copies.back())));
  while (copies.size() < kCopies) {
    lab.driver.hold_server(true);
    const size_t before = copies.size();
    Status status;
    while (copies.size() < kCopies && (status = start()).ok()) {
    }
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kAgain);
      EXPECT_LE(copies.size() - before, gpu::CopyServer::kMostUnderWay);
      EXPECT_GE(copies.size() - before, gpu::CopyServer::kMostUnderWay - 1);
      known_memory(lab, 8);  // a full ring still accepts the command to end
    }
    lab.driver.hold_server(false);
    ASSERT_TRUE(works(finish(lab.own, copies.back())));
  }
  for (const DeviceMemory::Copy copy : copies)
    EXPECT_TRUE(works(finish(lab.own, copy)));
  EXPECT_TRUE(holds(lab.driver.at(a), kCopies * kBytes, 7));
}

TEST(GpuMemoryTest, ShortCopiesAfterAPauseLaunchAgain) {
  FakeLab lab({}, {.pid = 2}, {.copy_linger = std::chrono::nanoseconds(1)});
  std::byte* const a = lab.make_memory(1000, 0);
  std::byte* const b = lab.make_memory(1000, 0);
  for (uint64_t i = 0; i < 200; ++i) {
    fill(lab.driver.at(b), 1000, i);
    ASSERT_TRUE(works(copy(lab.own, a, b, 1000)));
    ASSERT_TRUE(holds(lab.driver.at(a), 1000, i)) << "copy " << i;
  }
  EXPECT_GT(lab.driver.submissions("serve"), 2u);
}

TEST(GpuMemoryTest, LongCopiesAndCopiesOnASharedDeviceUseOneKernelEach) {
  FakeLab lab({}, {.pid = 2}, kServed);
  constexpr uint64_t kBytes = gpu::CopyQueue::kLongestServed;
  std::byte* const a = lab.make_memory(kBytes + 1, 0);
  std::byte* const b = lab.make_memory(kBytes + 1, 0);
  const auto made_by = [&](const char* kernel, const auto& body) {
    const uint64_t before = lab.driver.submissions(kernel);
    body();
    return lab.driver.submissions(kernel) > before;
  };
  EXPECT_TRUE(made_by("copy", [&] { EXPECT_TRUE(works(copy(lab.own, a, b, kBytes + 1))); }));
  EXPECT_FALSE(made_by("copy", [&] { EXPECT_TRUE(works(copy(lab.own, a, b, kBytes))); }));
  FakeLab shared({}, {.pid = 2}, {.sharing = gpu::Sharing::kShared, .copy_linger = std::chrono::seconds(100)});
  std::byte* const c = shared.make_memory(200, 0);
  EXPECT_TRUE(works(copy(shared.own, c, c + 100, 100)));
  const uint64_t before = shared.driver.submissions("copy");
  EXPECT_TRUE(works(copy(shared.own, c, c + 100, 100)));
  EXPECT_EQ(shared.driver.submissions("copy"), before + 1);
}

// ---- Loans

TEST(GpuMemoryTest, AnotherProcessReachesLentMemory) {
  FakeLab lab({.devices = 2});
  constexpr uint64_t kBytes = 10'000;
  std::byte* const lent = lab.make_memory(kBytes, 1);
  fill(lab.driver.at(lent), kBytes, 5);
  const Result<DeviceMemory::Loan> loan = lab.own.lend(lent + 1000, 3000);
  const Result<DeviceMemory::Loan> second = lab.own.lend(lent + 2000, 8000);
  ASSERT_TRUE(works(loan.status()) && works(second.status()));

  const Result<std::byte*> borrowed = lab.other.borrow(loan.value(), DeviceMemory::kHost);
  ASSERT_TRUE(works(borrowed.status()));
  EXPECT_NE(borrowed.value(), lent + 1000);
  EXPECT_EQ(lab.other.device_of(borrowed.value(), 3000).value(), 1);
  EXPECT_EQ(lab.other.device_of(borrowed.value(), 3001).status().code(), Code::kInvalidArgument);
  std::byte* const host = lab.other.take_staging(kBytes).value();
  ASSERT_TRUE(works(copy(lab.other, host, borrowed.value(), 3000)));
  EXPECT_EQ(std::memcmp(host, lab.driver.at(lent) + 1000, 3000), 0);
  EXPECT_EQ(lab.other.start_copy(host, borrowed.value(), 3001).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(lab.other.lend(borrowed.value(), 10).status().code(), Code::kUnsupported);

  // To and from memory of this process, on either device.
  for (const int device : {0, 1}) {
    std::byte* const near = lab.make_memory(kBytes, device);
    ASSERT_TRUE(works(copy(lab.other, near, borrowed.value(), 3000)));
    EXPECT_EQ(std::memcmp(lab.driver.at(near), lab.driver.at(lent) + 1000, 3000), 0);
    fill(lab.driver.at(near), kBytes, 6);
    ASSERT_TRUE(works(copy(lab.other, borrowed.value(), near, 3000)));
    EXPECT_TRUE(holds(lab.driver.at(lent) + 1000, 3000, 6));
  }

  // Loans of one allocation share a mapping.
  const Result<std::byte*> more = lab.other.borrow(second.value(), DeviceMemory::kHost);
  ASSERT_TRUE(works(more.status()));
  EXPECT_EQ(more.value(), borrowed.value() + 1000);
  EXPECT_EQ(lab.driver.mapped_loans(), 1u);
  lab.other.give_back(borrowed.value());
  EXPECT_EQ(lab.driver.mapped_loans(), 1u);
  ASSERT_TRUE(works(copy(lab.other, host, more.value(), 8000)));
  lab.other.give_back(more.value());
  EXPECT_EQ(lab.driver.mapped_loans(), 0u);
  lab.other.give_staging(host);
}

// A mapping is valid for one device only; each further device needs its own.
TEST(GpuMemoryTest, LentMemoryIsMappedOncePerBorrowingDevice) {
  FakeLab lab({.devices = 2});
  std::byte* const lent = lab.make_memory(1000, 0);
  fill(lab.driver.at(lent), 1000, 5);
  const DeviceMemory::Loan loan = lab.own.lend(lent, 1000).value();
  std::byte* const first = lab.other.borrow(loan, 0).value();
  std::byte* const second = lab.other.borrow(loan, 1).value();
  EXPECT_NE(first, second);
  EXPECT_EQ(lab.driver.mapped_loans(), 2u);
  lab.other.give_back(first);
  EXPECT_EQ(lab.driver.mapped_loans(), 1u);
  std::byte* const near = lab.make_memory(1000, 1);
  ASSERT_TRUE(works(copy(lab.other, near, second, 1000)));
  EXPECT_TRUE(holds(lab.driver.at(near), 1000, 5));
  lab.other.give_back(second);
  EXPECT_EQ(lab.driver.mapped_loans(), 0u);
}

// A loan comes from another process and may hold any bytes.
TEST(GpuMemoryTest, LoansLieWithinTheLendersAllocation) {
  FakeLab lab({});
  constexpr uint64_t kBytes = 10'000;
  const DeviceMemory::Loan loan = lab.own.lend(lab.make_memory(kBytes, 0) + 1000, 3000).value();
  EXPECT_EQ(lab.other.lent_bytes(loan), 3000u);
  EXPECT_EQ(lab.other.lent_bytes({}), 0u);
  // Changes the words that hold `old`: the length or the offset.
  const auto with = [&](uint64_t old, uint64_t changed) {
    DeviceMemory::Loan forged = loan;
    for (size_t at = 0; at + sizeof old <= forged.bytes.size(); at += sizeof old) {
      uint64_t word = 0;
      std::memcpy(&word, forged.bytes.data() + at, sizeof word);
      if (word == old)
        std::memcpy(forged.bytes.data() + at, &changed, sizeof changed);
    }
    return forged;
  };
  for (int known = 0; known < 2; ++known) {
    for (const DeviceMemory::Loan& forged : {with(3000, 9001), with(1000, 7001), with(1000, ~uint64_t{0} - 1000)})
      EXPECT_EQ(lab.other.borrow(forged, DeviceMemory::kHost).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(lab.driver.mapped_loans(), static_cast<uint64_t>(known));
    const Result<std::byte*> largest = lab.other.borrow(with(3000, 9000), DeviceMemory::kHost);
    ASSERT_TRUE(works(largest.status()));
  }
}

TEST(GpuMemoryTest, LoansThatCannotBeReachedSayWhy) {
  const auto refusal = [](const FakeDriver::Options& options, const ProcessName& borrower) {
    FakeLab lab(options, borrower);
    std::byte* const lent = lab.make_memory(100, options.devices - 1);
    const Result<DeviceMemory::Loan> loan = lab.own.lend(lent, 100);
    const Status status = lab.other.borrow(loan.value(), DeviceMemory::kHost).status();
    EXPECT_EQ(status.code(), Code::kUnsupported);
    return status.message();
  };
  ProcessName far{.pid = 1};
  far.boot[0] = std::byte{1};
  EXPECT_TRUE(has(refusal({}, far), "another host"));
  EXPECT_TRUE(has(refusal({.devices = 2, .peers = false}, {.pid = 2}), "cannot reach"));

  // The borrower does not see this device.
  FakeLab lender({.devices = 2});
  const Result<DeviceMemory::Loan> loan = lender.own.lend(lender.make_memory(100, 1), 100);
  FakeLab borrower({});
  const Status status = borrower.other.borrow(loan.value(), DeviceMemory::kHost).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_TRUE(has(status, "does not see"));
}

TEST(GpuMemoryTest, DevicesWithoutAPathAreRefused) {
  FakeLab lab({.devices = 2, .peers = false});
  std::byte* const a = lab.make_memory(100, 0);
  std::byte* const b = lab.make_memory(100, 1);
  EXPECT_EQ(lab.own.start_copy(a, b, 100).status().code(), Code::kUnsupported);
}

TEST(GpuMemoryTest, ALostDeviceEndsCopiesWithAnError) {
  FakeLab lab({});
  std::byte* const device = lab.make_memory(1000, 0);
  std::byte* const host = lab.own.take_staging(1000).value();
  ASSERT_TRUE(works(copy(lab.own, device, host, 1000)));
  lab.driver.lose_device();
  EXPECT_EQ(lab.own.start_copy(device, host, 1000).status().code(), Code::kFailed);
  EXPECT_EQ(lab.own.device_of(device, 1000).status().code(), Code::kFailed);
  EXPECT_EQ(lab.own.take_staging(uint64_t{1} << 20).status().code(), Code::kFailed);
  lab.own.give_staging(host);
}

// Copies by the kernel that keeps running, and by kernels of their own.
TEST(GpuMemoryTest, ACopyInFlightFailsWhenTheDeviceIsLost) {
  for (const uint64_t bytes : {uint64_t{500}, uint64_t{64} << 20}) {
    FakeLab lab({}, {.pid = 2}, kServed);
    std::byte* const a = known_memory(lab, bytes);
    std::byte* const b = known_memory(lab, bytes);
    ASSERT_TRUE(works(copy(lab.own, a, b, 1)));  // opens the device
    lab.driver.hold_server(bytes == 500);
    const Result<DeviceMemory::Copy> first = lab.own.start_copy(a, b, bytes);
    const Result<DeviceMemory::Copy> last = lab.own.start_copy(b, a, bytes);
    ASSERT_TRUE(first.ok() && last.ok());
    lab.driver.lose_device();
    const Status status = finish(lab.own, last.value());
    EXPECT_EQ(status.code(), Code::kFailed) << bytes << ": " << status.to_string();
  }
}

TEST(GpuMemoryTest, TheQueueOfCopiesIsBounded) {
  FakeLab lab({});
  std::byte* const device = lab.make_memory(uint64_t{32} << 20, 0);
  std::byte* const other = lab.make_memory(uint64_t{32} << 20, 0);
  Result<DeviceMemory::Copy> started = lab.own.start_copy(device, other, uint64_t{32} << 20);
  DeviceMemory::Copy last = started.value();
  uint64_t taken = 0;
  while ((started = lab.own.start_copy(other, device, uint64_t{1} << 20)).ok() && ++taken < 10'000)
    last = started.value();
  EXPECT_EQ(started.status().code(), Code::kAgain);
  EXPECT_TRUE(works(finish(lab.own, last)));
  EXPECT_TRUE(works(copy(lab.own, other, device, 1)));
}

// An address inside freed memory may belong to other memory later.
TEST(GpuMemoryTest, AddressesInsideFreedMemoryAreLookedUpAgain) {
  constexpr uint64_t kBytes = uint64_t{64} << 10;
  FakeLab lab({});
  std::byte* const device = known_memory(lab, kBytes);
  std::byte* const target = known_memory(lab, kBytes);
  ASSERT_TRUE(works(copy(lab.own, target, device, kBytes)));
  lab.driver.free(reinterpret_cast<gpu::DeviceAddress>(device));
  void* const middle = device + kBytes / 2;
  void* const host =
      mmap(middle, kBytes / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(host, middle) << "another mapping took the freed address";
  EXPECT_EQ(lab.own.device_of(host, 1000).value(), DeviceMemory::kHost);
  EXPECT_EQ(lab.own.start_copy(target, host, 1000).status().code(), Code::kInvalidArgument) << "pageable memory";
  EXPECT_TRUE(works(copy(lab.own, target, target + 1000, 1000))) << "the refused copy lost the device";
  munmap(host, kBytes / 4);
}

TEST(StagingTest, ReturnedMemoryIsNotFound) {
  FakeDriver driver;
  gpu::Staging staging(driver);
  std::byte* const memory = staging.take(10'000, 0).value();
  EXPECT_TRUE(staging.find(memory + 9'000, 1'000).has_value());
  EXPECT_FALSE(staging.find(memory, 16'385).has_value()) << "longer than the staging memory";
  staging.give(memory);
  EXPECT_FALSE(staging.find(memory, 1).has_value());
  ASSERT_EQ(staging.take(10'000, 0).value(), memory);
  EXPECT_TRUE(staging.find(memory, 1).has_value());
}

TEST(ProcessNameTest, NamesThisProcess) {
  const Result<ProcessName> name = ProcessName::own();
  ASSERT_TRUE(works(name.status()));
  EXPECT_EQ(name.value(), ProcessName::own().value());
  EXPECT_NE(name.value().start_time, 0u);
  EXPECT_NE(name.value().boot, (std::array<std::byte, 16>{}));
}

}  // namespace
}  // namespace lanyard::memory_contract
