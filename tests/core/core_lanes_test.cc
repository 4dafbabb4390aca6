// Lanes of requests between two simulated processes, each with a fake device. device_lanes_test.cc
// tests lanes on streams.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/device/device_lanes.h"
#include "gpu/device/device_stream.h"
#include "gpu/device/gpu_memory.h"
#include "tests/core/core_process.h"
#include "tests/gpu/fake_driver.h"
#include "tests/contract/local_fabric.h"

namespace lanyard {
namespace {

using core::Direction;
using core::Request;
using core::Transfer;
using namespace std::chrono_literals;

// The GPU state of one process.
struct Gpus {
  Gpus(FakeDriver& driver, uint64_t pid) : devices(driver, {}), pages(driver) {
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

struct Options {
  std::array<bool, 2> lanes{true, true};
  bool indivisible = true;  // devices add to words of each other atomically
  int confined = -1;        // a device that cannot reach the other's memory
  std::array<bool, 2> by_card{};
  core::Strategy strategy = core::Strategy::kTargetCounter;
};

class Job {
 public:
  explicit Job(const Options& options = {})
      : driver({.devices = 2, .confined = options.confined, .adds_indivisibly = options.indivisible}),
        gpus{std::make_unique<Gpus>(driver, 0), std::make_unique<Gpus>(driver, 1)},
        mail(2),
        fabric(2, with_memory()),
        by_card(options.by_card) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      core::Endpoint::Options endpoint;
      endpoint.strategy = options.strategy;
      endpoint.lanes = options.lanes[rank] ? gpus[rank]->lanes.get() : nullptr;
      processes[rank] = std::make_unique<Process>(fabric.nic(rank), rank, mail, endpoint);
      gpu::Device& device = *gpus[rank]->devices.of_ordinal(static_cast<int>(rank)).value();
      handles[rank] = driver.make_program_stream(static_cast<int>(rank));
      streams[rank] = std::move(gpu::DeviceStream::make(device, gpus[rank]->pages, handles[rank], {}).value());
      queues[rank] = std::move(core::Queue::create(process(rank).endpoint, *streams[rank]).value());
    }
  }
  ~Job() {
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
  // A transfer in the memory of the rank's device.
  Transfer transfer(uint32_t rank, Direction direction, int peer, uint64_t bytes) {
    Transfer made = process(rank).transfer(direction, peer, 7, bytes);
    made.buffer = driver.make_memory(bytes + 64, static_cast<int>(rank));
    made.by_card = by_card[rank];
    return made;
  }
  void settle() {
    do {
      for (auto& each : processes)
        each->matcher.progress();
    } while (mail.under_way() > 0);
  }
  // Matches a send of rank 0 with a receive of rank 1.
  void pair(uint64_t bytes) {
    send = &process(0).begin(transfer(0, Direction::kSend, 1, bytes));
    receive = &process(1).begin(transfer(1, Direction::kReceive, 0, bytes));
    settle();
  }
  void start_and_wait(uint32_t rank, Request& request) {
    Request* const only[] = {&request};
    ASSERT_TRUE(works(queue(rank).start(only)));
    ASSERT_TRUE(works(queue(rank).wait(only)));
  }
  testing::AssertionResult run(uint32_t rank) {
    const auto over = [&] { return streams[rank]->poll() && queue(rank).settled(); };
    const auto drive = [&] {
      fabric.progress_all();
      for (auto& each : processes)
        each->matcher.progress();
      std::this_thread::sleep_for(50us);
    };
    return eventually(over, drive) ? testing::AssertionSuccess()
                                   : testing::AssertionFailure() << queue(rank).explain_stall();
  }
  std::byte* content(const Request& request) { return driver.at(request.transfer.buffer); }
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
  void free(uint32_t rank, Request& request) { EXPECT_TRUE(works(process(rank).matcher.free(request))); }

  FakeDriver driver;
  std::array<std::unique_ptr<Gpus>, 2> gpus;
  Mail mail;
  LocalFabric fabric;
  const std::array<bool, 2> by_card;  // by rank: forces the NIC instead of a lane
  std::array<std::unique_ptr<Process>, 2> processes;
  std::array<gpu::StreamHandle, 2> handles{};
  std::array<std::unique_ptr<gpu::DeviceStream>, 2> streams;
  std::array<std::unique_ptr<core::Queue>, 2> queues;
  Request* send = nullptr;
  Request* receive = nullptr;
};

TEST(CoreLanesTest, AMessageNeedsNoNic) {
  Job job({.strategy = core::Strategy::kSenderFlag});
  constexpr uint64_t kBytes = 5000;
  job.pair(kBytes);
  ASSERT_TRUE(job.send->matched() && job.receive->matched());
  ASSERT_TRUE(job.send->lane != nullptr && job.receive->lane != nullptr);
  EXPECT_EQ(job.receive->matched_bytes, kBytes);
  EXPECT_EQ(job.send->plan.size() + job.receive->plan.size(), 0u);
  job.iterate(20);
  EXPECT_EQ(job.process(0).endpoint.entries_posted() + job.process(1).endpoint.entries_posted(), 0u);
  job.free(0, *job.send);
  job.free(1, *job.receive);
  job.expect_nothing_left();
  EXPECT_EQ(job.driver.mapped_loans(), 0u);
}

TEST(CoreLanesTest, IfOneSideHasNoLaneTheNicIsUsed) {
  for (const auto& options : {Options{.lanes = {true, false}}, Options{.lanes = {false, true}},
                              Options{.indivisible = false}, Options{.confined = 0}, Options{.confined = 1},
                              Options{.by_card = {true, false}}, Options{.by_card = {false, true}}}) {
    Job job(options);
    job.pair(1000);
    ASSERT_TRUE(job.send->matched() && job.receive->matched());
    EXPECT_TRUE(job.send->lane == nullptr && job.receive->lane == nullptr);
    job.iterate(3);
    EXPECT_GT(job.process(0).endpoint.entries_posted(), 0u);
    job.free(0, *job.send);
    job.free(1, *job.receive);
    job.expect_nothing_left();
  }
}

TEST(CoreLanesTest, AFailedMatchLeaksNothing) {
  Job job;
  // The send is longer than the receive.
  Request& send = job.process(0).begin(job.transfer(0, Direction::kSend, 1, 100));
  Request& receive = job.process(1).begin(job.transfer(1, Direction::kReceive, 0, 10));
  job.settle();
  EXPECT_EQ(send.match_error.code(), Code::kTruncated);
  EXPECT_EQ(receive.match_error.code(), Code::kTruncated);
  job.expect_nothing_left();
  // Withdrawn before the match, and after it.
  Request& alone = job.process(0).begin(job.transfer(0, Direction::kSend, 1, 100));
  job.settle();
  job.process(0).matcher.withdraw(alone);
  job.expect_nothing_left();
  Request& crossing = job.process(0).begin(job.transfer(0, Direction::kSend, 1, 100));
  Request& taken = job.process(1).begin(job.transfer(1, Direction::kReceive, 0, 100));
  while (taken.peer_lane == 0)
    job.process(1).matcher.progress();
  job.process(0).matcher.withdraw(crossing);
  job.settle();
  Request* const only[] = {&taken};
  EXPECT_EQ(job.queue(1).start(only).code(), Code::kFailed);
  EXPECT_GT(job.process(0).endpoint.unparted(), 0u) << "the receiver may still write its memory";
  job.free(1, taken);
  job.expect_nothing_left();
}

TEST(CoreLanesTest, AFailedRequestIsReleased) {
  Job job;
  job.pair(64);
  job.start_and_wait(0, *job.send);
  // Wait until the stream has run the start.
  EXPECT_TRUE(eventually([&] { return has(job.queue(0).explain_stall(), "has not started its side"); }))
      << job.queue(0).explain_stall();
  EXPECT_FALSE(job.streams[0]->poll());
  job.process(0).endpoint.end_peer(*job.send, 0, true);
  EXPECT_EQ(job.process(0).endpoint.take_failed(job.queue(0)), job.send);
  job.process(0).endpoint.release(*job.send);
  EXPECT_TRUE(job.run(0));
  job.free(0, *job.send);
  job.free(1, *job.receive);
  job.expect_nothing_left();
}

TEST(CoreLanesTest, MemoryIsKeptUntilTheStreamHasDrained) {
  Job job;
  job.pair(64);
  std::atomic<bool> open{false};
  job.driver.call_host(job.handles[0], [&open] {
    while (!open.load())
      std::this_thread::sleep_for(100us);
  });
  job.start_and_wait(0, *job.send);
  job.free(1, *job.receive);
  job.settle();
  EXPECT_EQ(job.process(0).endpoint.take_failed(job.queue(0)), job.send);
  job.process(0).endpoint.release(*job.send);
  job.free(0, *job.send);
  job.settle();
  EXPECT_EQ(job.process(0).endpoint.unparted(), 1u);
  EXPECT_EQ(job.process(1).endpoint.unparted(), 1u) << "the sender's kernels may still write there";
  // New requests must not reuse the released request's words.
  std::vector<std::pair<uint64_t*, uint64_t>> words;
  for (int i = 0; i < 40; ++i) {
    const Request& next = job.process(0).begin(job.transfer(0, Direction::kSend, 1, 64));
    for (uint64_t* word : {next.done.address, next.moved.address, next.clear_to_send_word.address})
      if (word != nullptr)
        words.emplace_back(word, std::atomic_ref(*word).load());
  }
  open.store(true);
  EXPECT_TRUE(job.run(0));
  for (const auto& [word, value] : words)
    EXPECT_EQ(std::atomic_ref(*word).load(), value);
  job.expect_nothing_left();
}

TEST(CoreLanesTest, AReceiveIsWithdrawnBeforeItsSenderHasConnected) {
  for (const int confined : {-1, 0}) {
    Job job({.confined = confined});
    Request& send = job.process(0).begin(job.transfer(0, Direction::kSend, 1, 64));
    Request& receive = job.process(1).begin(job.transfer(1, Direction::kReceive, 0, 64));
    while (receive.peer_lane == 0)
      job.process(1).matcher.progress();
    EXPECT_FALSE(receive.matched());
    job.process(1).matcher.withdraw(receive);
    job.settle();
    if (confined < 0) {
      ASSERT_TRUE(send.matched());
      Request* const only[] = {&send};
      EXPECT_EQ(job.queue(0).start(only).code(), Code::kFailed);
    } else {
      // Another receive can still match the send.
      EXPECT_FALSE(send.matched());
      job.send = &send;
      job.receive = &job.process(1).begin(job.transfer(1, Direction::kReceive, 0, 64));
      job.settle();
      job.iterate(2);
      job.free(1, *job.receive);
    }
    job.free(0, send);
    job.expect_nothing_left();
  }
}

TEST(CoreLanesTest, AFailedCaptureDoesNotChangeTheRequest) {
  Job job;
  job.pair(64);
  gpu::Device& other = *job.gpus[0]->devices.of_ordinal(1).value();
  const gpu::StreamHandle handle = job.driver.make_program_stream(1);
  const auto stream = std::move(gpu::DeviceStream::make(other, job.gpus[0]->pages, handle, {}).value());
  {
    const auto queue = std::move(core::Queue::create(job.process(0).endpoint, *stream).value());
    Request* const only[] = {job.send};
    job.driver.begin_capture(handle);
    EXPECT_EQ(queue->start(only).code(), Code::kUnsupported);
    EXPECT_EQ(job.send->standing, nullptr);
    EXPECT_TRUE(job.driver.end_capture(handle).has_value());
  }
  stream->halt();
  job.iterate(2);
}

TEST(CoreLanesTest, AReplayIsInFlight) {
  Job job;
  job.pair(64);
  Request* const only[] = {job.send};
  const gpu::StreamHandle handle = job.handles[0];
  job.driver.begin_capture(handle);
  ASSERT_TRUE(works(job.queue(0).start(only)));
  ASSERT_TRUE(works(job.queue(0).wait(only)));
  const auto graph = job.driver.end_capture(handle);
  ASSERT_TRUE(graph.has_value());
  EXPECT_EQ(job.queue(0).first_under_way(), nullptr);
  job.driver.replay(*graph, handle);
  EXPECT_TRUE(eventually([&] { return job.queue(0).first_under_way() != nullptr; }));
  EXPECT_EQ(job.queue(0).first_under_way(), job.send);
  EXPECT_TRUE(has(job.queue(0).explain_stall(), "rank 1 has not started its side"));
  // The queue must notice that the receive has been freed.
  job.free(1, *job.receive);
  job.settle();
  EXPECT_EQ(job.process(0).endpoint.take_failed(job.queue(0)), job.send);
  job.process(0).endpoint.release(*job.send);
  EXPECT_TRUE(job.run(0));
  job.free(0, *job.send);
  job.expect_nothing_left();
}

TEST(CoreLanesTest, KernelsAreRefused) {
  Job job;
  job.pair(64);
  Request* const only[] = {job.send};
  EXPECT_EQ(job.queue(0).stand(only).code(), Code::kUnsupported);
  job.iterate(1);
}

}  // namespace
}  // namespace lanyard
