// Standing requests: starts that a replayed capture or a kernel makes, with no host in between.
#include "transport/core/standing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/core/core_local_job.h"

namespace lanyard {
namespace {

constexpr uint64_t kBytes = 64;

// A host stream that can be captured: what is enqueued meanwhile is kept, and runs as often as it is replayed.
class CapturedStream final : public gpu::Stream {
 public:
  const char* kind() const override { return "captured"; }
  bool can_call() const override { return false; }  // so that starts ring words, as a GPU's do
  Status enqueue(std::span<const gpu::StreamOp> ops) override {
    if (capturing_ == 0)
      return inner.enqueue(ops);
    if (refuses)
      return {Code::kUnsupported, "a test's refusal"};
    for (const gpu::StreamOp& op : ops) {
      EXPECT_NE(op.kind, gpu::StreamOp::Kind::kWait64);
      EXPECT_NE(op.kind, gpu::StreamOp::Kind::kAdd64) << "the threaded card takes sums";
    }
    captured.insert(captured.end(), ops.begin(), ops.end());
    return {};
  }
  bool poll() override { return inner.poll(); }
  uint64_t capturing() const override { return capturing_; }
  Result<uint64_t*> take_count(uint64_t value) override {
    ++counts;
    return inner.take_count(value);
  }
  void give_count(uint64_t* count) override {
    --counts;
    inner.give_count(count);
  }

  void begin() {
    capturing_ = ++captures_;
    captured.clear();
  }
  void end() { capturing_ = 0; }
  void replay() { EXPECT_TRUE(works(inner.enqueue(captured))); }
  void launch(std::function<void()> kernel) {
    kernels_.push_back(std::make_unique<std::function<void()>>(std::move(kernel)));
    EXPECT_TRUE(works(inner.launch([](void* argument) { (*static_cast<std::function<void()>*>(argument))(); },
                                   kernels_.back().get())));
  }

  gpu::HostStream inner;
  std::vector<gpu::StreamOp> captured;
  int counts = 0;
  bool refuses = false;

 private:
  uint64_t capturing_ = 0;
  uint64_t captures_ = 0;
  std::vector<std::unique_ptr<std::function<void()>>> kernels_;
};

struct Setting {
  std::string name;
  core::Strategy strategy = core::Strategy::kTargetCounter;
  uint32_t depth = 504;
  bool ready = false;
  uint64_t max_message = uint64_t{1} << 20;
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

LocalJobOptions options_for(const Setting& setting) {
  LocalJobOptions options;
  options.strategy = setting.strategy;
  options.local.limits.deferred_depth = setting.depth;
  options.local.limits.max_message_bytes = setting.max_message;
  return options;
}

// Two ranks that send to each other.
class Standing : public ::testing::TestWithParam<Setting> {
 protected:
  struct Side {
    CapturedStream stream;
    std::unique_ptr<core::Queue> queue;
    Request* send = nullptr;
    Request* receive = nullptr;
    std::vector<Request*> both;
    std::atomic<int> wrong{0};
  };

  explicit Standing(const Setting& setting) : ready_(setting.ready), job(2, options_for(setting)) { build(); }
  Standing() : Standing(GetParam()) {}
  ~Standing() override {
    for (Side& side : sides)
      side.queue.reset();
  }

  void build() {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      Side& side = sides[rank];
      side.queue = std::move(core::Queue::create(job[rank].endpoint, side.stream).value());
      match(rank);
    }
    job.match();
  }
  void match(uint32_t rank) {
    Side& side = sides[rank];
    side.receive = &job[rank].receive(static_cast<int>(1 - rank), 5, kBytes);
    side.send = &job[rank].send(static_cast<int>(1 - rank), 5, kBytes, ready_);
    side.both = {side.receive, side.send};
  }
  static uint64_t seed(uint32_t from, uint64_t i) { return 1000 * (from + 1) + i; }
  void pack(uint32_t rank, uint64_t i) {
    sides[rank].stream.launch([this, rank, i] { fill(*sides[rank].send, seed(rank, i)); });
  }
  void unpack(uint32_t rank, uint64_t i) {
    sides[rank].stream.launch([this, rank, i] {
      if (!holds(*sides[rank].receive, seed(1 - rank, i)))
        ++sides[rank].wrong;
    });
  }
  void drain() {
    const auto end = LocalJob::Clock::now() + LocalJob::kBound;
    const auto both = [this] {
      const bool first = sides[0].stream.poll();
      return sides[1].stream.poll() && first;
    };
    while (!both() && LocalJob::Clock::now() < end)
      std::this_thread::yield();
    for (Side& side : sides)
      EXPECT_TRUE(side.stream.poll()) << side.queue->explain_stall();
  }
  // An ordinary iteration.
  void iterate(uint64_t i) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      pack(rank, i);
      ASSERT_TRUE(works(sides[rank].queue->start(sides[rank].both)));
      ASSERT_TRUE(works(sides[rank].queue->wait(sides[rank].both)));
      unpack(rank, i);
    }
    drain();
  }
  void capture() {
    for (Side& side : sides) {
      side.stream.begin();
      ASSERT_TRUE(works(side.queue->start(side.both)));
      ASSERT_TRUE(works(side.queue->wait(side.both)));
      side.stream.end();
    }
  }

  const bool ready_;
  Side sides[2];
  LocalJob job;
};

// A ready send is only right where the receive was started: the two ranks take turns then.
TEST_P(Standing, ACaptureReplaysForEver) {
  const uint64_t replays = GetParam().depth < 100 ? 200 : 1'000;
  uint64_t i = 0;
  if (!ready_)
    iterate(++i);
  capture();
  for (uint64_t k = 0; k < replays && !ready_; ++k) {
    ++i;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      pack(rank, i);
      sides[rank].stream.replay();
      unpack(rank, i);
    }
  }
  drain();
  for (Side& side : sides)
    EXPECT_EQ(side.wrong, 0);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(sides[rank].send->iterations_done(), i);
    EXPECT_EQ(sides[rank].receive->iterations_done(), i);
    EXPECT_EQ(job[rank].endpoint.nic().failures(), 0u);
  }
  // Ordinary again, from where the replays came to.
  for (Side& side : sides) {
    EXPECT_EQ(side.queue->start(side.both).code(), Code::kInvalidState);
    EXPECT_TRUE(works(side.queue->dismiss()));
    EXPECT_EQ(side.stream.counts, 0);
    EXPECT_EQ(side.send->starts, i);
  }
  if (!ready_)
    iterate(++i);
  for (Side& side : sides)
    EXPECT_EQ(side.wrong, 0);
}

// A kernel that runs on and on: it starts and waits by itself, as device code does. Its rings go on from those before
// it, and ordinary starts go on from its.
TEST_P(Standing, AKernelStartsByItself) {
  constexpr uint64_t kTimes = 300;
  if (ready_)
    return;
  uint64_t done = 0;
  const auto kernel = [this, &done](uint32_t rank) {
    Side& side = sides[rank];
    for (uint64_t i = done + 1; i <= done + kTimes; ++i) {
      fill(*side.send, seed(rank, i));
      for (Request* request : side.both) {
        const core::Standing& standing = *request->standing;
        ASSERT_NE(standing.rings, nullptr);
        std::atomic_ref<uint64_t>(*standing.bell.word).store(++*standing.rings, std::memory_order_release);
      }
      for (Request* request : side.both) {
        const uint64_t wanted = *request->standing->count + 1;
        const auto end = LocalJob::Clock::now() + LocalJob::kBound;
        while (request->done.read() < wanted) {
          ASSERT_LT(LocalJob::Clock::now(), end) << "iteration " << i;
          std::this_thread::yield();
        }
        *request->standing->count = wanted;
      }
      if (!holds(*side.receive, seed(1 - rank, i)))
        ++side.wrong;
    }
  };
  for (int launches = 0; launches < 2; ++launches) {
    iterate(++done);
    for (Side& side : sides)
      ASSERT_TRUE(works(side.queue->stand(side.both)));
    std::thread other(kernel, 1);
    kernel(0);
    other.join();
    done += kTimes;
    for (Side& side : sides) {
      EXPECT_EQ(side.wrong, 0);
      EXPECT_EQ(side.send->iterations_done(), done);
      EXPECT_TRUE(works(side.queue->dismiss()));
      EXPECT_EQ(side.stream.counts, 0);
    }
  }
  iterate(done + 1);
  for (Side& side : sides)
    EXPECT_EQ(side.wrong, 0);
}

TEST_P(Standing, FreeingGivesEverythingBack) {
  const auto usage = [this](uint32_t rank) { return job[rank].endpoint.nic().usage(); };
  const uint32_t free_before = job[0].endpoint.nic().free_entries();
  const nic::Usage before = usage(0);
  capture();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(works(job[rank].endpoint.free_request(sides[rank].send)));
    EXPECT_TRUE(works(job[rank].endpoint.free_request(sides[rank].receive)));
    EXPECT_EQ(sides[rank].stream.counts, 0);
  }
  EXPECT_EQ(job[0].endpoint.nic().free_entries(), free_before);
  for (uint32_t rank = 0; rank < 2; ++rank)
    match(rank);
  job.match();
  EXPECT_EQ(usage(0).counters, before.counters);
  EXPECT_EQ(usage(0).regions, before.regions);
}

INSTANTIATE_TEST_SUITE_P(All, Standing,
                         ::testing::Values(Setting{.name = "TargetCounter"},
                                           Setting{.name = "SenderFlag", .strategy = core::Strategy::kSenderFlag},
                                           Setting{.name = "Pieces", .max_message = 20},
                                           Setting{.name = "EightEntries", .depth = 8},
                                           Setting{.name = "TwoEntries", .depth = 2},
                                           Setting{.name = "Ready", .ready = true}),
                         [](const auto& info) { return info.param.name; });

class StandingErrors : public Standing {
 protected:
  StandingErrors() : Standing(Setting{.name = "errors"}) {}
};
INSTANTIATE_TEST_SUITE_P(Once, StandingErrors, ::testing::Values(Setting{.name = "errors"}),
                         [](const auto& info) { return info.param.name; });

TEST_P(StandingErrors, WhatACaptureMayNotHave) {
  Side& side = sides[0];
  Request* const send[] = {side.send};
  side.stream.begin();
  EXPECT_EQ(side.queue->wait(send).code(), Code::kInvalidState) << "no start to wait for";
  EXPECT_TRUE(works(side.queue->start(send)));
  EXPECT_EQ(side.queue->start(send).code(), Code::kInvalidState) << "a second start before the wait";
  EXPECT_EQ(job[0].endpoint.free_request(side.send).code(), Code::kInvalidState) << "half captured";
  const size_t recorded = side.stream.captured.size();
  EXPECT_EQ(side.queue->unwaited(), 1u);
  side.stream.end();
  EXPECT_EQ(side.queue->wait(send).code(), Code::kInvalidState) << "not captured";
  side.stream.begin();
  Request* const receive[] = {side.receive};
  const Status status = side.queue->start(receive);
  EXPECT_EQ(status.code(), Code::kInvalidState) << "the last capture is unfinished";
  EXPECT_NE(status.message().find("capture"), std::string::npos);
  EXPECT_EQ(side.receive->standing, nullptr);
  EXPECT_EQ(recorded, 1u);
}

// A ring lies in a word of memory until the NIC looks there: it counts at once, or a request would be ended that has
// just been started.
TEST_P(StandingErrors, AStartThatHasJustBeenRungKeepsItStanding) {
  Request* const send[] = {sides[0].send};
  Request* const receive[] = {sides[1].receive};
  for (uint64_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(works(sides[0].queue->stand(send)));
    std::atomic_ref<uint64_t>(*send[0]->standing->bell.word).fetch_add(1, std::memory_order_release);
    EXPECT_EQ(sides[0].queue->dismiss(send).code(), Code::kInvalidState);
    ASSERT_NE(send[0]->standing, nullptr);
    ASSERT_EQ(send[0]->listed, sides[0].queue.get());
    ASSERT_TRUE(works(sides[1].queue->start(receive)));
    ASSERT_TRUE(works(sides[1].queue->wait(receive)));
    drain();
    const auto end = LocalJob::Clock::now() + LocalJob::kBound;
    while (send[0]->iterations_done() < i && LocalJob::Clock::now() < end)
      std::this_thread::yield();
    ASSERT_TRUE(works(sides[0].queue->dismiss(send)));
    EXPECT_EQ(send[0]->starts, i);
  }
}

// Of a call that fails nothing is left.
TEST_P(StandingErrors, ARefusedCaptureChangesNothing) {
  Side& side = sides[0];
  const uint32_t counters = job[0].endpoint.nic().usage().counters;
  side.stream.begin();
  side.stream.refuses = true;
  EXPECT_EQ(side.queue->start(side.both).code(), Code::kUnsupported);
  side.stream.end();
  EXPECT_EQ(side.send->standing, nullptr);
  EXPECT_EQ(side.receive->standing, nullptr);
  EXPECT_EQ(side.stream.counts, 0);
  EXPECT_EQ(job[0].endpoint.nic().usage().counters, counters);
  EXPECT_EQ(job[0].endpoint.nic().free_entries(), job[0].endpoint.nic().caps().deferred_depth);
  iterate(1);
  EXPECT_EQ(side.wrong, 0);
}

// Nothing is posted for the receive of a ready send: that it was started its bell alone tells.
class StandingReady : public Standing {};

TEST_P(StandingReady, AReceiveWhoseSenderIsFreedIsTold) {
  Side& side = sides[1];
  side.stream.begin();
  ASSERT_TRUE(works(side.queue->start({&side.receive, 1})));
  ASSERT_TRUE(works(side.queue->wait({&side.receive, 1})));
  side.stream.end();
  EXPECT_TRUE(works(job[0].matcher.free(*sides[0].send)));
  job.match();
  EXPECT_EQ(job[1].endpoint.take_failed(*side.queue), nullptr) << "nothing has started it";

  side.stream.replay();
  const Request* failed = nullptr;
  const auto end = LocalJob::Clock::now() + LocalJob::kBound;
  while (failed == nullptr && LocalJob::Clock::now() < end) {
    job[1].endpoint.fail_requests_of_lost_peers();
    failed = job[1].endpoint.take_failed(*side.queue);
  }
  ASSERT_EQ(failed, side.receive);
  EXPECT_EQ(job[1].endpoint.explain_failure(*failed), "rank 0 has freed its request");
  EXPECT_FALSE(side.stream.poll()) << "its wait passes when it is given up, not before";
  job[1].endpoint.release(*side.receive);
  drain();
}

INSTANTIATE_TEST_SUITE_P(
    All, StandingReady,
    ::testing::Values(Setting{.name = "TargetCounter", .ready = true},
                      Setting{.name = "SenderFlag", .strategy = core::Strategy::kSenderFlag, .ready = true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lanyard
