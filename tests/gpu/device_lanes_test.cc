// Lanes between fake devices: in one process, or between two simulated processes that lend memory.
#include "gpu/device/device_lanes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/device/backend.h"
#include "gpu/device/device_stream.h"
#include "tests/gpu/fake_driver.h"
#include "tests/support/expect.h"

namespace lanyard::gpu {
namespace {

using namespace std::chrono_literals;
using Kind = StreamOp::Kind;

// The GPU state of one process.
struct Process {
  explicit Process(FakeDriver& driver, uint64_t pid) : devices(driver, {}), pages(driver) {
    Result<ProcessName> name = ProcessName::own();
    name.value().pid += pid;
    memory = std::make_unique<GpuMemory>(devices, name.value());
    lanes = std::make_unique<DeviceLanes>(devices, pages, *memory);
  }
  Devices devices;
  HostPages pages;
  std::unique_ptr<GpuMemory> memory;
  std::unique_ptr<DeviceLanes> lanes;
};

// One side of a lane, with its own stream.
struct Side {
  std::byte* buffer = nullptr;
  std::shared_ptr<Lane> lane;
  LaneOffer offer;
  // Page-aligned, because a driver registers whole pages.
  alignas(4096) std::array<uint64_t, 512> words{};
  std::unique_ptr<DeviceStream> stream;

  uint64_t done() const { return std::atomic_ref(const_cast<uint64_t&>(words[0])).load(std::memory_order_acquire); }
  uint64_t begun() const { return std::atomic_ref(const_cast<uint64_t&>(words[16])).load(std::memory_order_acquire); }
  Status enqueue(std::initializer_list<Kind> kinds) {
    std::vector<StreamOp> ops;
    for (const Kind kind : kinds) {
      StreamOp& op = ops.emplace_back();
      op.kind = kind;
      op.object = lane.get();
    }
    return stream->enqueue(ops);
  }
};

class DeviceLanes2 : public testing::TestWithParam<bool> {
 protected:
  // Whether both sides belong to one process.
  static bool alone() { return GetParam(); }

  void SetUp() override {
    first_ = std::make_unique<Process>(driver_, 0);
    second_ = std::make_unique<Process>(driver_, alone() ? 0 : 1);
  }
  Process& process(int which) { return which == 0 || alone() ? *first_ : *second_; }
  void open(Side& side, int which, bool sends, uint64_t bytes) {
    side.buffer = driver_.make_memory(bytes + 64, which);
    Result<Lanes::Opened> opened = process(which).lanes->open(sends, side.buffer, bytes);
    ASSERT_TRUE(works(opened.status()));
    side.lane = std::move(opened.value().lane);
    side.offer = opened.value().offer;
    EXPECT_EQ(side.lane->device, which);
    Device& device = *process(which).devices.of_ordinal(which).value();
    Result<std::unique_ptr<DeviceStream>> stream =
        DeviceStream::make(device, process(which).pages, driver_.make_program_stream(which), {});
    ASSERT_TRUE(works(stream.status()));
    side.stream = std::move(stream.value());
  }
  Status connect(Side& side, const Side& other, int which, uint64_t bytes, bool ready) {
    return process(which).lanes->connect(
        *side.lane, other.offer,
        {.bytes = bytes, .ready = ready, .begun = &side.words[16], .done = &side.words[0], .gone = &side.words[8]});
  }
  void pair(uint64_t bytes, bool ready = false) {
    open(send_, 0, true, bytes);
    open(receive_, 1, false, bytes + 32);
    ASSERT_TRUE(works(connect(receive_, send_, 1, bytes, ready)));
    ASSERT_TRUE(works(connect(send_, receive_, 0, bytes, ready)));
    bytes_ = bytes;
  }
  void fill(uint64_t iteration) {
    for (uint64_t i = 0; i < bytes_; ++i)
      driver_.at(send_.buffer)[i] = static_cast<std::byte>(iteration * 7 + i * 3 + i / 255);
  }
  void expect_received(uint64_t iteration) {
    for (uint64_t i = 0; i < bytes_; ++i)
      ASSERT_EQ(driver_.at(receive_.buffer)[i], static_cast<std::byte>(iteration * 7 + i * 3 + i / 255)) << i;
  }
  static bool becomes(const Side& side, uint64_t done) {
    return eventually([&] { return side.done() >= done; }) && side.done() == done;
  }

  FakeDriver driver_{{.devices = 2}};
  std::unique_ptr<Process> first_, second_;
  uint64_t bytes_ = 0;
  Side send_, receive_;
};

// Either side may start first. Each iteration delivers its own message.
TEST_P(DeviceLanes2, MessagesArriveWhicheverSideStartsFirst) {
  for (const uint64_t bytes : {0ul, 1ul, 8ul, 1000ul, 16384ul, 16385ul, 131'072ul, 131'073ul, 300'001ul}) {
    SCOPED_TRACE(bytes);
    send_ = {};
    receive_ = {};
    pair(bytes);
    for (uint64_t i = 1; i <= 6; ++i) {
      fill(i);
      Side& one = i % 2 == 0 ? send_ : receive_;
      Side& other = i % 2 == 0 ? receive_ : send_;
      ASSERT_TRUE(one.enqueue({Kind::kStartLane}).ok());
      if (i > 2)
        std::this_thread::sleep_for(1ms);
      ASSERT_TRUE(other.enqueue({Kind::kStartLane, Kind::kWaitLane}).ok());
      ASSERT_TRUE(one.enqueue({Kind::kWaitLane}).ok());
      ASSERT_TRUE(becomes(send_, i));
      ASSERT_TRUE(becomes(receive_, i));
      expect_received(i);
    }
  }
}

// A wait needs both starts, but not the other side's wait. Nothing is written before.
TEST_P(DeviceLanes2, AWaitNeedsOnlyBothStarts) {
  pair(100'000);
  fill(1);
  ASSERT_TRUE(send_.enqueue({Kind::kStartLane, Kind::kWaitLane}).ok());
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(send_.done(), 0u);
  EXPECT_EQ(driver_.at(receive_.buffer)[100], std::byte{0});
  ASSERT_TRUE(receive_.enqueue({Kind::kStartLane}).ok());
  ASSERT_TRUE(becomes(send_, 1));
  EXPECT_EQ(receive_.done(), 0u);
  ASSERT_TRUE(receive_.enqueue({Kind::kWaitLane}).ok());
  ASSERT_TRUE(becomes(receive_, 1));
  expect_received(1);
  EXPECT_EQ(driver_.at(receive_.buffer)[100'000], std::byte{0});
  // The other side first.
  fill(2);
  ASSERT_TRUE(receive_.enqueue({Kind::kStartLane, Kind::kWaitLane}).ok());
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(receive_.done(), 1u);
  ASSERT_TRUE(send_.enqueue({Kind::kStartLane}).ok());
  ASSERT_TRUE(becomes(receive_, 2));
  expect_received(2);
  ASSERT_TRUE(send_.enqueue({Kind::kWaitLane}).ok());
  EXPECT_TRUE(becomes(send_, 2));
}

TEST_P(DeviceLanes2, AReadySendNeedsNoClearToSend) {
  pair(64, true);
  ASSERT_TRUE(receive_.enqueue({Kind::kStartLane}).ok());
  fill(1);
  ASSERT_TRUE(send_.enqueue({Kind::kStartLane, Kind::kWaitLane}).ok());
  ASSERT_TRUE(becomes(send_, 1));
  ASSERT_TRUE(receive_.enqueue({Kind::kWaitLane}).ok());
  ASSERT_TRUE(becomes(receive_, 1));
  expect_received(1);
}

TEST_P(DeviceLanes2, ALaneWhosePeerIsGonePasses) {
  pair(64);
  ASSERT_TRUE(receive_.enqueue({Kind::kStartLane, Kind::kWaitLane}).ok());
  std::this_thread::sleep_for(2ms);
  EXPECT_FALSE(receive_.stream->poll());
  std::atomic_ref(receive_.words[8]).fetch_add(1);
  EXPECT_TRUE(eventually([&] { return receive_.stream->poll(); }));
  EXPECT_EQ(receive_.done(), 0u);
}

// A graph keeps its own count. Enqueued starts continue from the graph's last count.
TEST_P(DeviceLanes2, CapturesAndEnqueuedStartsMayMix) {
  pair(2000);
  const StreamHandle sender = driver_.make_program_stream(0);
  Device& device = *process(0).devices.of_ordinal(0).value();
  send_.stream = std::move(DeviceStream::make(device, process(0).pages, sender, {}).value());
  driver_.begin_capture(sender);
  ASSERT_TRUE(send_.enqueue({Kind::kStartLane, Kind::kWaitLane}).ok());
  const std::optional<FakeDriver::Graph> graph = driver_.end_capture(sender);
  ASSERT_TRUE(graph.has_value());
  for (uint64_t i = 1; i <= 20; ++i) {
    fill(i);
    if (i % 3 == 0)
      ASSERT_TRUE(send_.enqueue({Kind::kStartLane, Kind::kWaitLane}).ok());
    else
      driver_.replay(*graph, sender);
    ASSERT_TRUE(receive_.enqueue({Kind::kStartLane, Kind::kWaitLane}).ok());
    ASSERT_TRUE(becomes(receive_, i));
    ASSERT_TRUE(becomes(send_, i));
    expect_received(i);
  }
}

INSTANTIATE_TEST_SUITE_P(Processes, DeviceLanes2, testing::Bool(),
                         [](const auto& info) { return info.param ? "One" : "Two"; });

class DeviceLanesRefusals : public testing::Test {
 protected:
  Status open(FakeDriver& driver, const void* buffer, Sharing sharing = Sharing::kAlone) {
    Devices devices(driver, {.sharing = sharing});
    HostPages pages(driver);
    GpuMemory memory(devices, ProcessName::own().value());
    DeviceLanes lanes(devices, pages, memory);
    return lanes.open(true, const_cast<void*>(buffer), 8).status();
  }
};

TEST_F(DeviceLanesRefusals, HostMemoryAndUnsuitableDevicesUseTheNic) {
  FakeDriver driver, blind({.shares_words = false});
  const uint64_t word = 0;
  EXPECT_EQ(open(driver, &word).code(), Code::kUnsupported);
  EXPECT_EQ(open(blind, blind.make_memory(64)).code(), Code::kUnsupported) << "the device cannot see others' stores";
  EXPECT_EQ(open(driver, driver.make_memory(64), Sharing::kShared).code(), Code::kUnsupported);
}

TEST_F(DeviceLanesRefusals, AreReportedBeforehand) {
  const auto lines = [](const FakeDriver::Options& options) {
    return Backend::make(std::make_unique<FakeDriver>(options), {}).value()->describe_lanes();
  };
  EXPECT_EQ(lines({.devices = 2}),
            (std::vector<std::string>{"devices 0 and 0: yes", "devices 0 and 1: yes", "devices 1 and 1: yes"}));
  const auto confined = lines({.devices = 2, .confined = 1});
  EXPECT_EQ(confined[0], "devices 0 and 0: yes");
  EXPECT_TRUE(confined[1].starts_with("devices 0 and 1: no, ")) << confined[1];
  EXPECT_TRUE(has(lines({.devices = 2, .adds_indivisibly = false})[1], "atomic"));
  EXPECT_TRUE(has(lines({.shares_words = false})[0], "no, "));
}

TEST_F(DeviceLanesRefusals, UnsuitablePeerDevicesAreRefusedAtConnect) {
  for (const bool peers : {false, true}) {
    FakeDriver driver({.devices = 2, .peers = peers, .adds_indivisibly = false});
    Process process(driver, 0);
    Result<Lanes::Opened> send = process.lanes->open(true, driver.make_memory(64, 0), 8);
    Result<Lanes::Opened> receive = process.lanes->open(false, driver.make_memory(64, 1), 8);
    ASSERT_TRUE(send.ok() && receive.ok());
    alignas(4096) std::array<uint64_t, 512> words{};
    const Status status =
        process.lanes->connect(*receive.value().lane, send.value().offer,
                               {.bytes = 8, .begun = &words[2], .done = &words[0], .gone = &words[1]});
    EXPECT_EQ(status.code(), Code::kUnsupported) << status.to_string();
  }
}

// A released lane end is reused and starts empty.
TEST_F(DeviceLanesRefusals, LaneEndsAreReused) {
  FakeDriver driver;
  Process process(driver, 0);
  std::byte* const memory = driver.make_memory(64);
  for (uint32_t i = 0; i < 2 * Device::kEnds; ++i)
    ASSERT_TRUE(process.lanes->open(true, memory, 8).ok()) << i;
  std::vector<std::shared_ptr<Lane>> held;
  for (uint32_t i = 0; i < Device::kEnds; ++i)
    held.push_back(process.lanes->open(true, memory, 8).value().lane);
  EXPECT_EQ(process.lanes->open(true, memory, 8).status().code(), Code::kExhausted);
}

}  // namespace
}  // namespace lanyard::gpu
