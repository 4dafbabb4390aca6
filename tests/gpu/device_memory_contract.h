// The contract of transport/base/device_memory.h as a test suite. Each implementation
// instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Fake, DeviceMemoryContract, ::testing::Values(MemoryMaker{...}),
//                            memory_maker_name);
//
// It reads and writes device memory only by copies.
#ifndef LANYARD_TESTS_DEVICE_MEMORY_CONTRACT_H_
#define LANYARD_TESTS_DEVICE_MEMORY_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/expect.h"
#include "transport/base/device_memory.h"

namespace lanyard::memory_contract {

// One implementation under test.
struct MemoryLab {
  virtual ~MemoryLab() = default;
  virtual DeviceMemory& memory() = 0;
  virtual int devices() = 0;
  // Allocates device memory, which the lab owns.
  virtual std::byte* make_memory(uint64_t bytes, int device) = 0;
};

struct MemoryMaker {
  std::string name;  // letters and digits
  // Returns null if this machine lacks the hardware or driver; the tests are then skipped.
  std::function<std::unique_ptr<MemoryLab>()> make;
};

inline void PrintTo(const MemoryMaker& maker, std::ostream* out) { *out << maker.name; }
inline std::string memory_maker_name(const ::testing::TestParamInfo<MemoryMaker>& info) { return info.param.name; }

// Waits until the copy has ended. Returns the copy's failure.
inline Status finish(DeviceMemory& memory, DeviceMemory::Copy copy) {
  Result<bool> ended = false;
  const auto over = [&] { return !(ended = memory.has_ended(copy)).ok() || ended.value(); };
  if (!eventually(over, std::this_thread::yield))
    return Status(Code::kTimedOut, "the copy does not end");
  return ended.status();
}
inline Status copy(DeviceMemory& memory, void* to, const void* from, uint64_t bytes) {
  const Result<DeviceMemory::Copy> started = memory.start_copy(to, from, bytes);
  return started.ok() ? finish(memory, started.value()) : started.status();
}

inline std::byte pattern(uint64_t seed, uint64_t i) {
  return static_cast<std::byte>((i * 131 + seed * 17 + i / 251) % 255 + 1);
}
inline void fill(std::byte* memory, uint64_t bytes, uint64_t seed) {
  for (uint64_t i = 0; i < bytes; ++i)
    memory[i] = pattern(seed, i);
}
inline ::testing::AssertionResult holds(const std::byte* memory, uint64_t bytes, uint64_t seed) {
  for (uint64_t i = 0; i < bytes; ++i)
    if (memory[i] != pattern(seed, i))
      return ::testing::AssertionFailure() << "byte " << i << " of " << bytes << " differs";
  return ::testing::AssertionSuccess();
}

class DeviceMemoryContract : public ::testing::TestWithParam<MemoryMaker> {
 protected:
  void SetUp() override {
    lab_ = GetParam().make();
    if (lab_ == nullptr)
      GTEST_SKIP() << "this machine has no " << GetParam().name << " device";
  }
  MemoryLab& lab() { return *lab_; }
  DeviceMemory& memory() { return lab_->memory(); }
  std::byte* staging(uint64_t bytes) {
    const Result<std::byte*> taken = memory().take_staging(bytes);
    EXPECT_TRUE(works(taken.status()));
    return taken.value();
  }
  // Copies staging -> device -> device -> staging at these offsets, with guard bytes
  // around each range.
  void round_trip(uint64_t bytes, uint64_t first_offset, uint64_t second_offset, int first, int second) {
    constexpr uint64_t kGuard = 64;
    const uint64_t room = bytes + 2 * kGuard;
    std::byte* const a = lab().make_memory(room, first);
    std::byte* const b = lab().make_memory(room, second);
    std::byte* const source = staging(room);
    std::byte* const target = staging(room);
    fill(source, room, bytes);
    std::memset(target, 0, room);
    ASSERT_TRUE(works(copy(memory(), b, target, room)));
    ASSERT_TRUE(works(copy(memory(), a + first_offset, source, bytes)));
    ASSERT_TRUE(works(copy(memory(), b + second_offset, a + first_offset, bytes)));
    ASSERT_TRUE(works(copy(memory(), target, b, room)));
    EXPECT_TRUE(holds(target + second_offset, bytes, bytes)) << bytes << "@" << first_offset << "," << second_offset;
    const auto is_zero = [](std::byte value) { return value == std::byte{0}; };
    EXPECT_TRUE(std::all_of(target, target + second_offset, is_zero)) << "wrote before the range";
    EXPECT_TRUE(std::all_of(target + second_offset + bytes, target + room, is_zero)) << "wrote behind the range";
    memory().give_staging(source);
    memory().give_staging(target);
  }

 private:
  std::unique_ptr<MemoryLab> lab_;
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceMemoryContract);

TEST_P(DeviceMemoryContract, ReportsTheDeviceOfMemory) {
  std::vector<std::byte> host(100);
  EXPECT_EQ(memory().device_of(host.data(), host.size()).value(), DeviceMemory::kHost);
  std::byte* const pinned = staging(5000);
  EXPECT_EQ(memory().device_of(pinned, 5000).value(), DeviceMemory::kHost);
  memory().give_staging(pinned);
  for (int device = 0; device < lab().devices(); ++device) {
    std::byte* const own = lab().make_memory(uint64_t{4} << 20, device);
    EXPECT_EQ(memory().device_of(own, uint64_t{4} << 20).value(), device);
    EXPECT_EQ(memory().device_of(own + 12345, 7).value(), device);
    EXPECT_EQ(memory().device_of(own + 12345, uint64_t{1} << 40).status().code(), Code::kInvalidArgument);
  }
}

TEST_P(DeviceMemoryContract, CopiesOfEveryAlignment) {
  for (const uint64_t bytes : {1, 2, 3, 7, 8, 15, 16, 17, 31, 100, 1000, 4099})
    for (const uint64_t first : {0, 1, 4, 8, 15})
      for (const uint64_t second : {0, 1, 2, 8, 12, 16})
        round_trip(bytes, first, second, 0, 0);
}

TEST_P(DeviceMemoryContract, LongCopies) {
  for (const uint64_t bytes : {uint64_t{100'001}, uint64_t{1} << 20, (uint64_t{9} << 20) + 13}) {
    round_trip(bytes, 0, 0, 0, 0);
    round_trip(bytes, 3, 3, 0, 0);
    round_trip(bytes, 0, 5, 0, 0);
  }
}

TEST_P(DeviceMemoryContract, CopiesBetweenDevices) {
  if (lab().devices() < 2)
    GTEST_SKIP() << "needs two devices, found one";
  for (const uint64_t bytes : {uint64_t{8}, uint64_t{4099}, uint64_t{3} << 20, uint64_t{20} << 20}) {
    round_trip(bytes, 0, 0, 0, 1);
    round_trip(bytes, 1, 8, 1, 0);
  }
}

TEST_P(DeviceMemoryContract, ManyCopiesAtATime) {
  constexpr uint64_t kCopies = 2000;
  std::byte* const device = lab().make_memory(kCopies * 64, 0);
  std::byte* const source = staging(kCopies * 64);
  std::byte* const target = staging(kCopies * 64);
  fill(source, kCopies * 64, 1);
  std::vector<DeviceMemory::Copy> copies;
  for (uint64_t i = 0; i < kCopies; ++i) {
    Result<DeviceMemory::Copy> started = memory().start_copy(device + i * 64, source + i * 64, 64);
    while (started.status().code() == Code::kAgain) {
      ASSERT_TRUE(works(finish(memory(), copies.back())));
      started = memory().start_copy(device + i * 64, source + i * 64, 64);
    }
    ASSERT_TRUE(works(started.status()));
    copies.push_back(started.value());
  }
  for (const DeviceMemory::Copy each : copies)
    EXPECT_TRUE(works(finish(memory(), each)));
  ASSERT_TRUE(works(copy(memory(), target, device, kCopies * 64)));
  EXPECT_TRUE(holds(target, kCopies * 64, 1));
  memory().give_staging(source);
  memory().give_staging(target);
}

TEST_P(DeviceMemoryContract, CopiesOfSeveralThreads) {
  constexpr uint64_t kBytes = 50'000;
  std::vector<std::thread> threads;
  std::vector<std::byte*> devices;
  for (int id = 0; id < 4; ++id)
    devices.push_back(lab().make_memory(kBytes, id % lab().devices()));
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      std::byte* const own = staging(kBytes);
      for (uint64_t round = 0; round < 20; ++round) {
        fill(own, kBytes, 100 * static_cast<uint64_t>(id) + round);
        EXPECT_TRUE(works(copy(memory(), devices[static_cast<size_t>(id)], own, kBytes)));
        std::memset(own, 0, kBytes);
        EXPECT_TRUE(works(copy(memory(), own, devices[static_cast<size_t>(id)], kBytes)));
        EXPECT_TRUE(holds(own, kBytes, 100 * static_cast<uint64_t>(id) + round));
      }
      memory().give_staging(own);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

TEST_P(DeviceMemoryContract, ACopyOfNoBytesEndsAtOnce) {
  const Result<DeviceMemory::Copy> nothing = memory().start_copy(nullptr, nullptr, 0);
  ASSERT_TRUE(works(nothing.status()));
  EXPECT_TRUE(memory().has_ended(nothing.value()).value());
}

TEST_P(DeviceMemoryContract, HostMemoryThatDevicesDoNotReachIsRefused) {
  std::vector<std::byte> host(100);
  std::byte* const device = lab().make_memory(100, 0);
  std::byte* const pinned = staging(100);
  EXPECT_EQ(memory().start_copy(device, host.data(), 100).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(memory().start_copy(host.data(), device, 100).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(memory().start_copy(pinned, pinned, 50).status().code(), Code::kInvalidArgument);
  memory().give_staging(pinned);
}

TEST_P(DeviceMemoryContract, StagingMemoryIsUsedAgain) {
  std::byte* const first = staging(10'000);
  EXPECT_EQ(reinterpret_cast<uint64_t>(first) % 4096, 0u);
  std::memset(first, 1, 10'000);
  std::byte* const second = staging(10'000);
  EXPECT_NE(first, second);
  memory().give_staging(first);
  EXPECT_EQ(staging(16'000), first);
  memory().give_staging(first);
  EXPECT_EQ(staging(5'000), first) << "expected the returned, slightly larger staging memory";
  std::byte* const large = staging(uint64_t{1} << 20);
  memory().give_staging(large);
  std::byte* const small = staging(100);
  EXPECT_NE(small, large);
  for (std::byte* memory_of_ours : {first, second, small})
    memory().give_staging(memory_of_ours);
}

TEST_P(DeviceMemoryContract, BorrowingAnOwnLoanReturnsTheMemoryItself) {
  std::byte* const device = lab().make_memory(1000, 0);
  const Result<DeviceMemory::Loan> loan = memory().lend(device + 10, 900);
  ASSERT_TRUE(works(loan.status()));
  EXPECT_EQ(memory().borrow(loan.value(), DeviceMemory::kHost).value(), device + 10);
  memory().give_back(device + 10);
  EXPECT_EQ(memory().device_of(device, 1000).value(), 0);
  EXPECT_EQ(memory().borrow({}, DeviceMemory::kHost).status().code(), Code::kInvalidArgument);
  std::byte* const pinned = staging(100);
  EXPECT_EQ(memory().lend(pinned, 100).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(memory().lend(device, 1 << 30).status().code(), Code::kInvalidArgument);
  memory().give_staging(pinned);
}

}  // namespace lanyard::memory_contract

#endif  // LANYARD_TESTS_DEVICE_MEMORY_CONTRACT_H_
