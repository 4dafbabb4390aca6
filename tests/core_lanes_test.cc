// Lanes as requests know them: two processes in one, each with a device in software that reaches the other's. What they
// do on streams: device_lanes_test.cc.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/device/device_stream.h"
#include "lanyard/detail/lane_list.h"
#include "tests/core_lanes_job.h"

namespace lanyard {
namespace {

using core::Direction;
using core::Request;
using core::Transfer;
using namespace std::chrono_literals;

// Whatever the strategy is that the card would follow.
class CoreLanes : public testing::TestWithParam<core::Strategy> {};
INSTANTIATE_TEST_SUITE_P(Strategies, CoreLanes,
                         testing::Values(core::Strategy::kTargetCounter, core::Strategy::kSenderFlag,
                                         core::Strategy::kWriteBack));

TEST_P(CoreLanes, AMessageNeedsNoCard) {
  LaneJob job({.strategy = GetParam()});
  const uint64_t bytes = GetParam() == core::Strategy::kWriteBack ? 0 : 5000;
  job.pair(bytes);
  ASSERT_TRUE(job.send->matched() && job.receive->matched());
  ASSERT_TRUE(job.send->lane != nullptr && job.receive->lane != nullptr);
  EXPECT_EQ(job.receive->matched_bytes, bytes);
  EXPECT_EQ(job.send->entries + job.receive->entries, 0u);
  job.iterate(20);
  EXPECT_EQ(job.process(0).endpoint.entries_posted() + job.process(1).endpoint.entries_posted(), 0u);
  job.free(0, *job.send);
  job.free(1, *job.receive);
  job.expect_nothing_left();
  EXPECT_EQ(job.driver.mapped_loans(), 0u);
}

// Lanes are used up and used again, in either order of freeing.
TEST(CoreLanesTest, PairsComeAndGo) {
  LaneJob job;
  for (int i = 0; i < 200; ++i) {
    job.pair(64);
    ASSERT_TRUE(job.send->lane != nullptr && job.receive->lane != nullptr) << i;
    job.iterate(2);
    if (i % 2 == 0) {
      job.free(0, *job.send);
      job.settle();
      job.free(1, *job.receive);
    } else {
      job.free(1, *job.receive);
      job.free(0, *job.send);
    }
    job.expect_nothing_left();
  }
}

// To unmap waits for the device, whose stream waits for a start that comes later: it is put off until then.
TEST(CoreLanesTest, NothingIsUnmappedWhileAStreamWaits) {
  LaneJob job({.unmap_waits = true});
  job.pair(kBeyondSlots);
  Request& first_send = *job.send;
  Request& first_receive = *job.receive;
  job.pair(5000);
  job.start_and_wait(0, first_send);
  for (int i = 0; i < 3; ++i) {
    job.free(0, *job.send);
    job.free(1, *job.receive);
    job.settle();
    job.pair(5000);
    ASSERT_TRUE(job.send->lane != nullptr && job.receive->lane != nullptr) << i;
  }
  EXPECT_FALSE(job.streams[0]->poll());
  EXPECT_GT(job.driver.mapped_loans(), 0u);
  job.start_and_wait(1, first_receive);
  ASSERT_TRUE(job.run(0) && job.run(1));
  job.iterate(1);
  job.free(0, *job.send);
  job.free(1, *job.receive);
  job.free(0, first_send);
  job.free(1, first_receive);
  job.expect_nothing_left();
  EXPECT_EQ(job.driver.mapped_loans(), 0u);
}

// Nor of what the card has borrowed, whose own thread would wait.
TEST(CoreLanesTest, NothingOfTheCardsIsUnmappedWhileAStreamWaits) {
  LaneJob job({.lanes = {false, false}, .unmap_waits = true});
  job.pair(64);
  Request& first_send = *job.send;
  Request& first_receive = *job.receive;
  for (int i = 0; i < 3; ++i) {
    job.pair(5000);
    ASSERT_TRUE(job.send->lane == nullptr && job.receive->lane == nullptr);
    job.iterate(1);
    EXPECT_GT(job.driver.mapped_loans(), 0u) << "the receiver's card pulls";
    job.start_and_wait(1, first_receive);
    job.free(0, *job.send);
    job.free(1, *job.receive);
    job.settle();
    EXPECT_FALSE(job.streams[1]->poll());
    job.start_and_wait(0, first_send);
    ASSERT_TRUE(job.run(0) && job.run(1));
  }
  job.free(0, first_send);
  job.free(1, first_receive);
  job.settle();
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (job.driver.mapped_loans() > 0 && std::chrono::steady_clock::now() < until) {
    job.fabric.progress_all();
    job.process(1).endpoint.unmap_memory();
  }
  EXPECT_EQ(job.driver.mapped_loans(), 0u);
}

// Neither of ends, of which a device has fewer, nor of words, counters or mappings.
TEST(CoreLanesTest, TenThousandPairsLeaveNothing) {
  constexpr uint64_t kPairs = 10'000, kWarm = 100;
  static_assert(kPairs > 2 * gpu::Device::kEnds);
  LaneJob job;
  const Transfer send = job.transfer(0, Direction::kSend, 1, 64);
  const Transfer receive = job.transfer(1, Direction::kReceive, 0, 64);
  std::array<nic::Usage, 2> before;
  for (uint64_t i = 1; i <= kPairs; ++i) {
    // Which comes first, and who goes first.
    if (i % 2 == 0)
      job.send = &job.process(0).begin(send);
    job.receive = &job.process(1).begin(receive);
    if (i % 2 != 0)
      job.send = &job.process(0).begin(send);
    job.settle();
    ASSERT_TRUE(job.send->lane != nullptr && job.receive->lane != nullptr) << i;
    if (i % 1000 == 0)
      job.iterate(1);
    const uint32_t first = i / 2 % 2;
    for (const uint32_t rank : {first, 1 - first}) {
      job.free(rank, rank == 0 ? *job.send : *job.receive);
      if (i % 3 == 0)
        job.settle();
    }
    job.expect_nothing_left();
    ASSERT_EQ(job.driver.mapped_loans(), 0u) << i;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const nic::Usage now = job.fabric.nic(rank).usage();
      if (i <= kWarm)
        before[rank] = now;
      ASSERT_EQ(now.counters, before[rank].counters) << "pair " << i << ", rank " << rank;
      ASSERT_EQ(now.regions, before[rank].regions) << "pair " << i << ", rank " << rank;
    }
  }
}

TEST(CoreLanesTest, WhereOneSideCannotTheCardCarries) {
  for (const auto& options :
       {LaneJobOptions{.lanes = {true, false}}, LaneJobOptions{.lanes = {false, true}},
        LaneJobOptions{.indivisible = false}, LaneJobOptions{.confined = 0}, LaneJobOptions{.confined = 1}}) {
    LaneJob job(options);
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

TEST(CoreLanesTest, MemoryThatCannotBeLentIsTheCards) {
  for (const uint32_t pooled : {0u, 1u}) {
    LaneJob job;
    Transfer send = job.transfer(0, Direction::kSend, 1, 1000);
    Transfer receive = job.transfer(1, Direction::kReceive, 0, 1000);
    (pooled == 0 ? send : receive).buffer = job.driver.make_pool_memory(1000, static_cast<int>(pooled));
    job.send = &job.process(0).begin(send);
    job.receive = &job.process(1).begin(receive);
    job.settle();
    ASSERT_TRUE(job.send->matched() && job.receive->matched());
    EXPECT_TRUE(job.send->lane == nullptr && job.receive->lane == nullptr);
    job.iterate(3);
    job.free(0, *job.send);
    job.free(1, *job.receive);
    job.expect_nothing_left();
  }
}

// It could not be started there.
TEST(CoreLanesTest, WhereAQueueIsOfAnotherDeviceTheCardCarries) {
  LaneJob job;
  for (const uint32_t rank : {0u, 1u}) {
    gpu::Device& other = *job.gpus[rank]->devices.of_ordinal(rank == 0 ? 1 : 0).value();
    const gpu::StreamHandle handle = job.driver.make_program_stream(rank == 0 ? 1 : 0);
    const auto stream = std::move(gpu::DeviceStream::make(other, job.gpus[rank]->pages, handle, {}).value());
    for (const bool has_other : {true, false}) {
      auto queue = std::move(core::Queue::create(job.process(rank).endpoint, *stream).value());
      if (!has_other)
        queue.reset();
      job.pair(1000);
      EXPECT_EQ(job.send->lane == nullptr, has_other) << "rank " << rank;
      EXPECT_EQ(job.receive->lane == nullptr, has_other) << "rank " << rank;
      job.iterate(2);
      job.free(0, *job.send);
      job.free(1, *job.receive);
    }
    stream->halt();
  }
  job.expect_nothing_left();
}

TEST(CoreLanesTest, OneSideMayAskForTheCard) {
  for (const uint32_t asking : {0u, 1u}) {
    LaneJob job;
    Transfer send = job.transfer(0, Direction::kSend, 1, 64);
    Transfer receive = job.transfer(1, Direction::kReceive, 0, 64);
    (asking == 0 ? send : receive).by_card = true;
    job.send = &job.process(0).begin(send);
    job.receive = &job.process(1).begin(receive);
    job.settle();
    ASSERT_TRUE(job.send->matched() && job.receive->matched());
    EXPECT_TRUE(job.send->lane == nullptr && job.receive->lane == nullptr);
    job.iterate(2);
    job.free(0, *job.send);
    job.free(1, *job.receive);
    job.expect_nothing_left();
  }
}

TEST(CoreLanesTest, WhatDoesNotMatchLeavesNothing) {
  LaneJob job;
  // Too long.
  Request& send = job.process(0).begin(job.transfer(0, Direction::kSend, 1, 100));
  Request& receive = job.process(1).begin(job.transfer(1, Direction::kReceive, 0, 10));
  job.settle();
  EXPECT_EQ(send.match_error.code(), Code::kTruncated);
  EXPECT_EQ(receive.match_error.code(), Code::kTruncated);
  job.expect_nothing_left();
  // Withdrawn before anybody received it, and after.
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
  EXPECT_GT(job.process(0).endpoint.unparted(), 0u) << "its memory is the receiver's to write yet";
  job.free(1, taken);
  job.expect_nothing_left();
}

TEST(CoreLanesTest, WhoIsFreedIsNotStartedWith) {
  LaneJob job;
  job.pair(64);
  job.iterate(1);
  job.free(1, *job.receive);
  job.settle();
  EXPECT_EQ(job.process(1).endpoint.unparted(), 1u);
  Request* const only[] = {job.send};
  EXPECT_EQ(job.queue(0).start(only).code(), Code::kFailed);
  job.free(0, *job.send);
  job.expect_nothing_left();
}

// A wait that will never be met is let pass once the failure has been told.
TEST(CoreLanesTest, WhatFailedIsLetGoOf) {
  LaneJob job;
  job.pair(kBeyondSlots);
  job.start_and_wait(0, *job.send);
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (job.queue(0).progress_of(*job.send, 1) != core::Queue::Progress::kReached &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(100us);
  EXPECT_FALSE(job.streams[0]->poll());
  EXPECT_NE(job.queue(0).explain_stall().find("has not started its side"), std::string::npos)
      << job.queue(0).explain_stall();
  job.process(0).endpoint.end_peer(*job.send, 0, true);
  EXPECT_EQ(job.process(0).endpoint.take_failed(job.queue(0)), job.send);
  job.process(0).endpoint.release(*job.send);
  EXPECT_TRUE(job.run(0));
  job.free(0, *job.send);
  job.free(1, *job.receive);
  job.expect_nothing_left();
}

// Nobody is told that a side is gone before its last kernel has run.
TEST(CoreLanesTest, TheOtherSideIsToldOnceNothingIsEnqueued) {
  LaneJob job;
  job.pair(kBeyondSlots);
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
  EXPECT_EQ(job.process(1).endpoint.unparted(), 1u) << "the sender's kernels may write there yet";
  // Nor is anybody given the words that its kernels tell the host by.
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

// A queue is through when all starts have completed, also those without a wait.
TEST(CoreLanesTest, AQueueIsSettledWithoutTheProgramsWaits) {
  LaneJob job;
  job.pair(64);
  Request* const send[] = {job.send};
  Request* const receive[] = {job.receive};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(works(job.queue(0).start(send)));
    ASSERT_TRUE(works(job.queue(1).start(receive)));
    ASSERT_TRUE(job.run(0) && job.run(1));
    ASSERT_TRUE(works(job.queue(0).wait(send)));
    ASSERT_TRUE(works(job.queue(1).wait(receive)));
    EXPECT_TRUE(job.streams[0]->poll()) << "the queue has waited already";
    ASSERT_TRUE(job.run(0) && job.run(1));
  }
  job.iterate(2);
}

TEST(CoreLanesTest, AReceiveIsWithdrawnBeforeItsSenderHasConnected) {
  for (const int confined : {-1, 0}) {
    LaneJob job({.confined = confined});
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
      // It is still there for another receive.
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

// Each takes its side back before it has heard of the other.
TEST(CoreLanesTest, BothSidesAreWithdrawnAtOnce) {
  LaneJob job;
  Request& send = job.process(0).begin(job.transfer(0, Direction::kSend, 1, 64));
  Request& receive = job.process(1).begin(job.transfer(1, Direction::kReceive, 0, 64));
  while (receive.peer_lane == 0)
    job.process(1).matcher.progress();
  job.process(0).matcher.withdraw(send);
  job.process(1).matcher.withdraw(receive);
  job.free(0, send);
  job.free(1, receive);
  job.expect_nothing_left();
}

// Not by its first start.
TEST(CoreLanesTest, AQueueWhoseStreamDoesNotReachTheCardsBellIsRefused) {
  LaneJob job;
  gpu::HostPages pages(job.driver);
  gpu::Device& device = *job.gpus[0]->devices.of_ordinal(0).value();
  const gpu::StreamHandle handle = job.driver.make_program_stream(0);
  const auto stream = std::move(gpu::DeviceStream::make(device, pages, handle, {}).value());
  core::Endpoint& endpoint = job.process(0).endpoint;
  const nic::Usage before = endpoint.nic().usage();
  job.gpus[0]->pages.forget_all();  // of the job's own queue
  job.driver.refuse_registration(true);
  EXPECT_FALSE(core::Queue::create(endpoint, *stream).ok());
  EXPECT_EQ(endpoint.nic().usage().counters, before.counters);
  job.driver.refuse_registration(false);
  EXPECT_TRUE(core::Queue::create(endpoint, *stream).ok());
}

// What a capture began is undone where the stream refuses it.
TEST(CoreLanesTest, ACaptureThatFailsLeavesTheRequestAsItWas) {
  LaneJob job;
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

// As MPI has it, of short messages too.
TEST(CoreLanesTest, ASynchronousSendWaitsForItsReceiver) {
  LaneJob job;
  core::Transfer sent = job.transfer(0, core::Direction::kSend, 1, 64);
  sent.synchronous = true;
  job.send = &job.process(0).begin(sent);
  job.receive = &job.process(1).begin(job.transfer(1, core::Direction::kReceive, 0, 64));
  job.settle();
  job.start_and_wait(0, *job.send);
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(job.streams[0]->poll());
  job.start_and_wait(1, *job.receive);
  ASSERT_TRUE(job.run(0) && job.run(1));
  job.iterate(3);
}

// What the program knows from its stream alone is asked of the device.
TEST(CoreLanesTest, WhatAStreamHasPassedIsStartedOnAnother) {
  LaneJob job;
  job.pair(64);
  job.start_and_wait(0, *job.send);
  job.start_and_wait(1, *job.receive);
  for (const auto& each : job.streams) {
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (!each->poll() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(100us);
  }
  const gpu::StreamHandle handle = job.driver.make_program_stream(0);
  const auto stream = std::move(
      gpu::DeviceStream::make(*job.gpus[0]->devices.of_ordinal(0).value(), job.gpus[0]->pages, handle, {}).value());
  const auto queue = std::move(core::Queue::create(job.process(0).endpoint, *stream).value());
  Request* const only[] = {job.send};
  ASSERT_TRUE(works(queue->start(only)));
  ASSERT_TRUE(works(queue->wait(only)));
  job.start_and_wait(1, *job.receive);
  ASSERT_TRUE(job.run(1));
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (!(stream->poll() && queue->settled()) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(100us);
  EXPECT_TRUE(queue->settled());
  stream->halt();
}

// Of a capture that came to nothing nothing is left, whatever else is in the stream.
TEST(CoreLanesTest, ACaptureThatDiesLeavesTheRequestToBeStartedOtherwise) {
  LaneJob job;
  job.pair(64);
  Request* const only[] = {job.send};
  std::atomic<bool> go{false};
  for (const bool captured_again : {false, true}) {
    job.driver.begin_capture(job.handles[0]);
    ASSERT_TRUE(works(job.queue(0).start(only)));
    job.driver.drop_capture(job.handles[0]);
    if (captured_again) {
      job.driver.begin_capture(job.handles[0]);
      ASSERT_TRUE(works(job.queue(0).start(only)));
      ASSERT_TRUE(works(job.queue(0).wait(only)));
      job.driver.drop_capture(job.handles[0]);
    }
    go = false;
    job.driver.call_host(job.handles[0], [&] { go.wait(false); });
    job.start_and_wait(0, *job.send);
    go = true;
    go.notify_all();
    job.start_and_wait(1, *job.receive);
    ASSERT_TRUE(job.run(0) && job.run(1));
    job.iterate(2);
  }
}

// A graph's starts are the host's to see as those of a queue are.
TEST(CoreLanesTest, AReplayIsUnderWay) {
  LaneJob job;
  job.pair(kBeyondSlots);
  Request* const only[] = {job.send};
  const gpu::StreamHandle handle = job.handles[0];
  job.driver.begin_capture(handle);
  ASSERT_TRUE(works(job.queue(0).start(only)));
  ASSERT_TRUE(works(job.queue(0).wait(only)));
  const auto graph = job.driver.end_capture(handle);
  ASSERT_TRUE(graph.has_value());
  EXPECT_EQ(job.queue(0).first_under_way(), nullptr);
  job.driver.replay(*graph, handle);
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (job.queue(0).first_under_way() == nullptr && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(100us);
  EXPECT_EQ(job.queue(0).first_under_way(), job.send);
  EXPECT_NE(job.queue(0).explain_stall().find("rank 1 has not started its side"), std::string::npos)
      << job.queue(0).explain_stall();
  // That the other side is gone is found out.
  job.free(1, *job.receive);
  job.settle();
  EXPECT_EQ(job.process(0).endpoint.take_failed(job.queue(0)), job.send);
  job.process(0).endpoint.release(*job.send);
  EXPECT_TRUE(job.run(0));
  job.free(0, *job.send);
  job.expect_nothing_left();
}

// What a kernel starts and waits for is an ordinary request again once it is dismissed.
TEST(CoreLanesTest, KernelsStartAndWait) {
  LaneJob job;
  job.pair(5000);
  job.iterate(2);
  Request* const send[] = {job.send};
  Request* const receive[] = {job.receive};
  ASSERT_TRUE(works(job.queue(0).stand(send)));
  ASSERT_TRUE(works(job.queue(1).stand(receive)));
  EXPECT_EQ(job.queue(0).start(send).code(), Code::kInvalidState);
  constexpr uint64_t kStarts = 10;
  const auto launch = [&](uint32_t rank, uint64_t end) {
    job.driver.launch_block(job.handles[rank], [end](FakeTeam& team) {
      const gpu::LaneList lanes{&end, 1, 1};
      gpu::LaneGroup<2> group;
      for (uint64_t i = 0; i < kStarts; ++i) {
        start_lanes(team, group, lanes, 0, 1);
        (void)wait_for_lanes(
            team, group, lanes, 0, 1, [](uint32_t) { return false; },
            [&](uint32_t count) { end_waits_in_hand(team, group, 0, count, 1, 1); });
      }
    });
  };
  launch(0, job.send->lane->end);
  std::this_thread::sleep_for(2ms);
  EXPECT_EQ(job.queue(0).first_under_way(), job.send);
  EXPECT_EQ(job.queue(0).dismiss(send).code(), Code::kInvalidState);
  launch(1, job.receive->lane->end);
  ASSERT_TRUE(job.run(0) && job.run(1));
  ASSERT_TRUE(works(job.queue(0).dismiss(send)));
  ASSERT_TRUE(works(job.queue(1).dismiss(receive)));
  EXPECT_EQ(job.send->starts, 2 + kStarts);
  job.iterate(3);
}

// A kernel that waits ends with what it waits for.
TEST(CoreLanesTest, KernelsAreLetGoOf) {
  LaneJob job;
  job.pair(kBeyondSlots);
  Request* const send[] = {job.send};
  ASSERT_TRUE(works(job.queue(0).stand(send)));
  std::atomic<bool> passed{true};
  job.driver.launch_block(job.handles[0], [&passed, end = job.send->lane->end](FakeTeam& team) {
    const gpu::LaneList lanes{&end, 1, 1};
    gpu::LaneGroup<1> group;
    start_lanes(team, group, lanes, 0, 1);
    passed = wait_for_lanes(
        team, group, lanes, 0, 1, [&](uint32_t) { return gpu::is_gone(team, gpu::view_lane(team, end, false)); },
        [](uint32_t) {});
  });
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (job.queue(0).first_under_way() == nullptr && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(100us);
  job.free(1, *job.receive);
  job.settle();
  EXPECT_EQ(job.process(0).endpoint.take_failed(job.queue(0)), job.send);
  job.process(0).endpoint.release(*job.send);
  EXPECT_TRUE(job.run(0));
  EXPECT_FALSE(passed);
  ASSERT_TRUE(works(job.queue(0).dismiss(send)));
  job.free(0, *job.send);
  job.expect_nothing_left();
}

// A stream of another device does not reach the lane's end as it has to.
TEST(CoreLanesTest, KernelsOfAnotherDeviceAreRefused) {
  LaneJob job;
  job.pair(64);
  gpu::Device& other = *job.gpus[0]->devices.of_ordinal(1).value();
  const auto stream =
      std::move(gpu::DeviceStream::make(other, job.gpus[0]->pages, job.driver.make_program_stream(1), {}).value());
  {
    const auto queue = std::move(core::Queue::create(job.process(0).endpoint, *stream).value());
    Request* const only[] = {job.send};
    EXPECT_EQ(queue->stand(only).code(), Code::kUnsupported);
    EXPECT_EQ(job.send->standing, nullptr);
  }
  stream->halt();
  job.iterate(1);
}

}  // namespace
}  // namespace lanyard
