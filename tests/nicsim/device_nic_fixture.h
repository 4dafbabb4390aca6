// NICs in one process, each with its own fake device memory, and buffers in host or device memory.
#ifndef LANYARD_TESTS_DEVICE_NIC_FIXTURE_H_
#define LANYARD_TESTS_DEVICE_NIC_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/contract/local_fabric.h"
#include "tests/nicsim/fake_device_memory.h"
#include "tests/support/expect.h"
#include "transport/base/device_memory.h"
#include "transport/nic/nic.h"

namespace lanyard {

using nic::CounterId;
using nic::CounterValue;
using nic::Op;
using nic::OpKind;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kHost = DeviceMemory::kHost;

// Source device and target device.
inline const std::vector<std::pair<int, int>> kCombinations = {{kHost, kHost}, {kHost, 0}, {0, kHost},
                                                               {0, 0},         {0, 1},     {1, 0}};

struct DeviceSetting {
  std::string name;
  LocalOptions::Wire wire = LocalOptions::Wire::kShm;
  bool lends = true;
  bool borrows = true;
  bool use_cma = true;
  milliseconds spin_for{20};
  bool pulls() const { return lends && borrows; }
};
inline void PrintTo(const DeviceSetting& setting, std::ostream* out) { *out << setting.name; }

// At most 6 MiB that differ by seed and contain no zero byte. Cut out of one table, because
// sanitizers make loops over bytes slow.
inline std::vector<std::byte> pattern(uint64_t seed, uint64_t bytes) {
  static const std::vector<std::byte> table = [] {
    std::vector<std::byte> made((uint64_t{6} << 20) + 65'536);
    uint64_t state = 1;
    for (std::byte& each : made)
      each = static_cast<std::byte>((state = state * 0xd1342543de82ef95u + 0x9e3779b97f4a7c15u) >> 40 | 1);
    return made;
  }();
  const auto first = table.begin() + static_cast<ptrdiff_t>(seed * 7919 % 65'521);
  return {first, first + static_cast<ptrdiff_t>(bytes)};
}

class DeviceNic : public ::testing::TestWithParam<DeviceSetting> {
 protected:
  static constexpr milliseconds kBound{60'000};  // far longer than any correct operation takes

  // A rank's registered memory.
  struct Buffer {
    size_t rank = 0;
    int device = kHost;
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    nic::RegionId region = {};
    nic::RemoteKey key = {};
  };

  void start(size_t nics = 2, FakeDeviceMemory::Options options = {}, const nicsim::ModelLimits& limits = {}) {
    LocalOptions local{
        .limits = limits, .wire = GetParam().wire, .use_cma = GetParam().use_cma, .spin_for = GetParam().spin_for};
    options.lends = GetParam().lends;
    options.borrows = GetParam().borrows;
    for (size_t rank = 0; rank < nics; ++rank) {
      options.seed = rank + 1;
      memories_.push_back(std::make_unique<FakeDeviceMemory>(options));
      const bool in_place = rank < in_place_.size() && in_place_[rank] != nullptr;
      local.memories.push_back(in_place ? in_place_[rank] : memories_.back().get());
    }
    fabric_ = std::make_unique<LocalFabric>(nics, local);
  }
  void TearDown() override {
    fabric_.reset();
    for (size_t rank = 0; rank < memories_.size(); ++rank)
      EXPECT_EQ(memories_[rank]->usage(), FakeDeviceMemory::Usage{}) << "NIC " << rank << " leaks device memory";
  }

  nic::Nic& nic(size_t rank = 0) { return fabric_->nic(rank); }
  FakeDeviceMemory& memory(size_t rank) { return *memories_[rank]; }

  CounterId counter(size_t rank = 0) { return nic(rank).open_counter().value(); }
  Buffer buffer(size_t rank, int device, uint64_t bytes, CounterId remote_write = {}) {
    Buffer made{.rank = rank, .device = device, .bytes = bytes};
    if (device == kHost)
      made.data = host_.emplace_back(bytes + 1).data();
    else
      made.data = memory(rank).allocate(device, bytes + 1);
    enroll(made, remote_write);
    return made;
  }
  void enroll(Buffer& buffer, CounterId remote_write = {}) {
    const Result<nic::RegionId> region = nic(buffer.rank).register_region(buffer.data, buffer.bytes, remote_write);
    ASSERT_TRUE(works(region.status()));
    buffer.region = region.value();
    buffer.key = nic(buffer.rank).key(buffer.region).value();
  }
  void drop(const Buffer& buffer) { EXPECT_TRUE(works(nic(buffer.rank).deregister_region(buffer.region))); }
  void write(const Buffer& buffer, uint64_t offset, const std::vector<std::byte>& bytes) {
    if (buffer.device == kHost)
      std::copy(bytes.begin(), bytes.end(), buffer.data + offset);
    else
      memory(buffer.rank).write(buffer.data + offset, bytes);
  }
  std::vector<std::byte> read(const Buffer& buffer, uint64_t offset, uint64_t bytes) {
    if (buffer.device == kHost)
      return {buffer.data + offset, buffer.data + offset + bytes};
    return memory(buffer.rank).read(buffer.data + offset, bytes);
  }

  static Op write_op(const Buffer& from, uint64_t from_offset, const Buffer& to, uint64_t to_offset, uint64_t bytes,
                     CounterId completion, uint64_t context = 0) {
    Op op;
    op.kind = OpKind::kWrite;
    op.completion = completion;
    op.local = {from.region, from_offset};
    op.remote = {static_cast<uint32_t>(to.rank), to.key, to_offset};
    op.bytes = bytes;
    op.context = context;
    return op;
  }
  void issue(const Op& op, size_t rank = 0) {
    Status status;
    ASSERT_TRUE(eventually([&] { return (status = nic(rank).issue(op)).code() != Code::kAgain; }));
    ASSERT_TRUE(works(status));
  }

  template <typename Predicate>
  [[nodiscard]] bool eventually(Predicate pred) {
    return lanyard::eventually(pred, [&] {
      if (fabric_->progress_all() == 0)
        std::this_thread::yield();
    });
  }
  CounterValue value(CounterId id, size_t rank = 0) { return nic(rank).read(id).value(); }
  ::testing::AssertionResult reaches(CounterId id, CounterValue wanted, size_t rank = 0) {
    if (eventually([&] { return value(id, rank).reached() >= wanted.reached(); }) && value(id, rank) == wanted)
      return ::testing::AssertionSuccess();
    const CounterValue last = value(id, rank);
    return ::testing::AssertionFailure() << "success " << last.success << ", failure " << last.failure << ", expected "
                                         << wanted.success << " and " << wanted.failure;
  }
  ::testing::AssertionResult reaches(CounterId id, uint64_t success, size_t rank = 0) {
    return reaches(id, CounterValue{.success = success}, rank);
  }
  // Without a call into a NIC.
  template <typename Predicate>
  [[nodiscard]] static bool happens_without_us(Predicate pred) {
    return lanyard::eventually(pred);
  }
  void settle(milliseconds time = milliseconds(20)) {
    const auto end = steady_clock::now() + time;
    while (steady_clock::now() < end) {
      fabric_->progress_all();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  std::vector<DeviceMemory*> in_place_;  // by rank: replaces the fake memory
  std::vector<std::unique_ptr<FakeDeviceMemory>> memories_;
  std::deque<std::vector<std::byte>> host_;
  std::unique_ptr<LocalFabric> fabric_;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_DEVICE_NIC_FIXTURE_H_
