// LaneJob: two processes in one, each with a device in software that reaches the other's.
#ifndef LANYARD_TESTS_CORE_LANES_JOB_H_
#define LANYARD_TESTS_CORE_LANES_JOB_H_

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "gpu/device/device_lanes.h"
#include "gpu/device/device_stream.h"
#include "gpu/device/gpu_memory.h"
#include "tests/core_mail.h"
#include "tests/core_process.h"
#include "tests/fake_driver.h"
#include "tests/local_fabric.h"

namespace lanyard {

// More than goes by slots: a send is through once the receive has started.
inline constexpr uint64_t kBeyondSlots = 20000;

// What a process has of devices.
struct LaneGpus {
  LaneGpus(FakeDriver& driver, uint64_t pid) : devices(driver, {}), pages(driver) {
    gpu::ProcessName name = gpu::ProcessName::own().value();
    name.pid += pid;
    memory = std::make_unique<gpu::GpuMemory>(devices, name);
    lanes = std::make_unique<gpu::DeviceLanes>(devices, pages, *memory);
  }
  gpu::Devices devices;
  gpu::HostPages pages;
  std::unique_ptr<gpu::GpuMemory> memory;
  std::unique_ptr<gpu::DeviceLanes> lanes;
};

struct LaneJobOptions {
  std::array<bool, 2> lanes{true, true};
  bool indivisible = true;
  bool unmap_waits = false;
  int confined = -1;
  core::Strategy strategy = core::Strategy::kTargetCounter;
};

// Rank 0 has device 0 and rank 1 device 1, and each a queue on a stream of it.
class LaneJob {
 public:
  explicit LaneJob(const LaneJobOptions& options = {})
      : driver({.devices = 2,
                .confined = options.confined,
                .adds_indivisibly = options.indivisible,
                .unmap_waits = options.unmap_waits}),
        gpus{std::make_unique<LaneGpus>(driver, 0), std::make_unique<LaneGpus>(driver, 1)},
        mail(2),
        fabric(2, with_memory()) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      core::Endpoint::Options endpoint;
      endpoint.strategy = options.strategy;
      endpoint.memory = gpus[rank]->memory.get();
      endpoint.lanes = options.lanes[rank] ? gpus[rank]->lanes.get() : nullptr;
      processes[rank] = std::make_unique<Process>(fabric.nic(rank), rank, mail, endpoint);
      gpu::Device& device = *gpus[rank]->devices.of_ordinal(static_cast<int>(rank)).value();
      handles[rank] = driver.make_program_stream(static_cast<int>(rank));
      streams[rank] = std::move(gpu::DeviceStream::make(device, gpus[rank]->pages, handles[rank], {}).value());
      queues[rank] = std::move(core::Queue::create(process(rank).endpoint, *streams[rank]).value());
    }
  }
  ~LaneJob() {
    for (auto& stream : streams)
      stream->halt();
  }

  LocalOptions with_memory() const {
    LocalOptions options;
    options.memories = {gpus[0]->memory.get(), gpus[1]->memory.get()};
    return options;
  }
  Process& process(uint32_t rank) { return *processes[rank]; }
  core::Queue& queue(uint32_t rank) { return *queues[rank]; }
  // Of memory of the rank's device.
  core::Transfer transfer(uint32_t rank, core::Direction direction, int peer, uint64_t bytes) {
    core::Transfer made = process(rank).transfer(direction, peer, 7, bytes);
    made.buffer = bytes > 0 ? driver.make_memory(bytes + 64, static_cast<int>(rank)) : nullptr;
    return made;
  }
  void settle() {
    do {
      for (auto& each : processes)
        each->matcher.progress();
    } while (mail.under_way() > 0);
  }
  // 0 sends to 1.
  void pair(uint64_t bytes) {
    send = &process(0).begin(transfer(0, core::Direction::kSend, 1, bytes));
    receive = &process(1).begin(transfer(1, core::Direction::kReceive, 0, bytes));
    settle();
  }
  void start_and_wait(uint32_t rank, core::Request& request) {
    core::Request* const only[] = {&request};
    ASSERT_TRUE(works(queue(rank).start(only)));
    ASSERT_TRUE(works(queue(rank).wait(only)));
  }
  testing::AssertionResult run(uint32_t rank) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!(streams[rank]->poll() && queue(rank).settled())) {
      if (std::chrono::steady_clock::now() > until)
        return testing::AssertionFailure() << queue(rank).explain_stall();
      fabric.progress_all();
      for (auto& each : processes)
        each->matcher.progress();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return testing::AssertionSuccess();
  }
  std::byte* content(const core::Request& request) { return driver.at(request.transfer.buffer); }
  void iterate(uint64_t iterations) {
    for (uint64_t i = 1; i <= iterations; ++i) {
      for (uint64_t at = 0; at < send->transfer.bytes; ++at)
        content(*send)[at] = static_cast<std::byte>(pattern(i, at));
      start_and_wait(0, *send);
      start_and_wait(1, *receive);
      ASSERT_TRUE(run(0) && run(1));
      for (uint64_t at = 0; at < send->transfer.bytes; ++at)
        ASSERT_EQ(content(*receive)[at], static_cast<std::byte>(pattern(i, at))) << i << ", " << at;
    }
  }
  void expect_nothing_left() {
    settle();
    for (auto& each : processes)
      EXPECT_EQ(each->endpoint.unparted(), 0u) << "rank " << each->rank;
  }
  void free(uint32_t rank, core::Request& request) { EXPECT_TRUE(works(process(rank).matcher.free(request))); }

  FakeDriver driver;
  std::array<std::unique_ptr<LaneGpus>, 2> gpus;
  Mail mail;
  LocalFabric fabric;
  std::array<std::unique_ptr<Process>, 2> processes;
  std::array<gpu::StreamHandle, 2> handles{};
  std::array<std::unique_ptr<gpu::DeviceStream>, 2> streams;
  std::array<std::unique_ptr<core::Queue>, 2> queues;
  core::Request* send = nullptr;
  core::Request* receive = nullptr;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_CORE_LANES_JOB_H_
