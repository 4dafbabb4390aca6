// The protocol on random workloads under random schedules: which rank's host goes on, which stream,
// which entry fires and which packet arrives is drawn. A seed tells everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/core_step_job.h"

namespace lanyard {
namespace {

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : random_(seed) {
    const auto ranks = static_cast<uint32_t>(1 + draw(3));
    iterations_ = 1 + draw(4);
    const bool overflow = draw(4) != 0;
    StepJobOptions options;
    options.overflow = overflow;
    options.stream_calls = draw(2) == 0;
    options.limits.max_message_bytes = draw(2) == 0 ? 64 : 1 << 20;
    options.limits.max_in_flight = draw(4) == 0 ? 1 : 1024;
    if (overflow && draw(3) != 0)
      options.limits.deferred_depth = static_cast<uint32_t>(1 + draw(6));
    const std::vector<Plan> plans = draw_plans(ranks);
    // Without overflow an epoch must fit; the longest message has six pieces.
    if (!overflow)
      options.limits.deferred_depth = static_cast<uint32_t>(9 * plans.size());
    job_ = std::make_unique<StepJob>(ranks, options);
    for (uint32_t rank = 0; rank < ranks; ++rank)
      usage_.push_back((*job_)[rank].nic().usage());
    for (const Plan& plan : plans)
      pairs_.push_back({Pair(*job_, plan.from, plan.to, plan.bytes, plan.ready, static_cast<int>(draw(2))), plan.ready,
                        pairs_.size() + 1});
    programs_.resize(ranks);
    for (uint64_t i = 1; i <= iterations_; ++i)
      for (uint32_t rank = 0; rank < ranks; ++rank)
        write_program(rank, i);
  }

  void run() {
    int fruitless = 0;
    while (fruitless < 2) {
      if (draw(3'000) != 0) {
        step();
        continue;
      }
      // Now and then, and in the end, whatever is left to do.
      bool moved = false;
      for (uint32_t rank = 0; rank < job_->size(); ++rank)
        moved |= host_step(rank);
      const uint64_t before = unpacked_;
      job_->run();
      fruitless = moved || unpacked_ != before ? 0 : fruitless + 1;
    }
  }

  void check() {
    for (uint32_t rank = 0; rank < job_->size(); ++rank)
      ASSERT_TRUE(programs_[rank].empty() && (*job_)[rank].stream.empty())
          << "rank " << rank << " is stuck: " << (*job_)[rank].queue->explain_stall();
    ASSERT_TRUE(job_->over());
    EXPECT_EQ(wrong_, "");
    EXPECT_EQ(unpacked_, pairs_.size() * iterations_);
    for (Matched& matched : pairs_) {
      Pair& pair = matched.pair;
      EXPECT_TRUE(works(pair.sender.endpoint.free_request(&pair.send)));
      EXPECT_TRUE(works(pair.receiver.endpoint.free_request(&pair.receive)));
    }
    for (uint32_t rank = 0; rank < job_->size(); ++rank) {
      StepJob::Rank& r = (*job_)[rank];
      EXPECT_EQ(r.nic().free_entries(), r.nic().caps().deferred_depth);
      EXPECT_EQ(r.nic().failures(), 0u);
      EXPECT_EQ(r.queue->epoch_entries(), 0u);
      EXPECT_EQ(r.nic().usage().counters, usage_[rank].counters);
      EXPECT_LE(r.nic().usage().regions, usage_[rank].regions + 1) << "but for a slab of words";
    }
  }

 private:
  struct Plan {
    uint32_t from = 0, to = 0;
    uint64_t bytes = 0;
    bool ready = false;
  };
  struct Matched {
    Pair pair;
    bool ready = false;
    uint64_t number = 0;
    uint64_t started = 0;  // receives that the stream has reached: what makes a ready send one
  };
  using Action = std::function<Status()>;

  uint64_t draw(uint64_t n) { return random_() % n; }

  std::vector<Plan> draw_plans(uint32_t ranks) {
    std::vector<Plan> plans(1 + draw(5));
    for (Plan& plan : plans)
      plan = {.from = static_cast<uint32_t>(draw(ranks)),
              .to = static_cast<uint32_t>(draw(ranks)),
              .bytes = draw(8) == 0 ? 0 : draw(380),
              .ready = draw(3) == 0};
    return plans;
  }
  static uint64_t seed_of(const Matched& matched, uint64_t iteration) { return 100 * matched.number + iteration; }
  void kernel(uint32_t rank, std::function<void()> body) {
    programs_[rank].push_back([this, rank, body = std::move(body)]() -> Status {
      (*job_)[rank].stream.launch(body);
      return {};
    });
  }
  void start(uint32_t rank, std::vector<Request*> requests, bool is_start) {
    std::shuffle(requests.begin(), requests.end(), random_);
    while (!requests.empty()) {
      // All in one call, or in several.
      const size_t count = draw(2) == 0 ? requests.size() : 1 + draw(requests.size());
      std::vector<Request*> call(requests.end() - static_cast<ptrdiff_t>(count), requests.end());
      requests.resize(requests.size() - count);
      programs_[rank].push_back([this, rank, call, is_start] {
        core::Queue& queue = *(*job_)[rank].queue;
        return is_start ? queue.start(call) : queue.wait(call);
      });
    }
  }

  // One iteration of a rank: every start before the first wait, receives before ready sends.
  void write_program(uint32_t rank, uint64_t i) {
    std::vector<Request*> receives, sends, ready_sends, all;
    for (Matched& matched : pairs_) {
      if (matched.pair.receiver.rank == rank)
        receives.push_back(&matched.pair.receive);
      if (matched.pair.sender.rank == rank)
        (matched.ready ? ready_sends : sends).push_back(&matched.pair.send);
    }
    for (const auto* part : {&receives, &sends, &ready_sends})
      all.insert(all.end(), part->begin(), part->end());

    const bool sends_first = draw(2) == 0;
    if (sends_first)
      pack_and_start(rank, i, sends, false);
    for (Matched& matched : pairs_)
      if (matched.pair.receiver.rank == rank && !matched.ready)
        kernel(rank, [this, &matched] {
          if (!is_clear(matched.pair.receive))
            wrong_ += "a message before its clear-to-send; ";
        });
    start(rank, receives, true);
    for (Matched& matched : pairs_)
      if (matched.pair.receiver.rank == rank)
        kernel(rank, [&matched] { ++matched.started; });
    if (!sends_first)
      pack_and_start(rank, i, sends, false);
    pack_and_start(rank, i, ready_sends, true);

    start(rank, all, false);
    for (Matched& matched : pairs_) {
      if (matched.pair.sender.rank == rank)
        kernel(rank, [&matched] { fill(matched.pair.send, 99); });
      if (matched.pair.receiver.rank != rank)
        continue;
      kernel(rank, [this, &matched, i] {
        if (!holds(matched.pair.receive, seed_of(matched, i)))
          wrong_ += "not the right message; ";
        clear(matched.pair.receive);
        ++unpacked_;
      });
    }
  }
  void pack_and_start(uint32_t rank, uint64_t i, const std::vector<Request*>& sends, bool ready) {
    for (Matched& matched : pairs_) {
      if (matched.pair.sender.rank != rank || matched.ready != ready)
        continue;
      if (ready)
        gate(rank, &matched.started, i);
      kernel(rank, [&matched, i] { fill(matched.pair.send, seed_of(matched, i)); });
    }
    start(rank, sends, true);
  }
  void gate(uint32_t rank, uint64_t* word, uint64_t value) {
    programs_[rank].push_back([this, rank, word, value] {
      const gpu::StreamOp op{.kind = gpu::StreamOp::Kind::kWait64, .word = word, .value = value};
      return (*job_)[rank].stream.enqueue({&op, 1});
    });
  }

  void step() {
    const auto rank = static_cast<uint32_t>(draw(job_->size()));
    switch (draw(6)) {
      case 0: host_step(rank); return;
      case 1: (*job_)[rank].stream.step(); return;
      case 2: (*job_)[rank].endpoint.overflow().drain(); return;
      default: job_->fabric.step([this](size_t n) { return static_cast<size_t>(draw(n)); }); return;
    }
  }
  bool host_step(uint32_t rank) {
    if (programs_[rank].empty())
      return false;
    const Status status = programs_[rank].front()();
    if (status.code() == Code::kAgain)
      return false;
    if (!status.ok())
      wrong_ += status.to_string() + "; ";
    programs_[rank].pop_front();
    return true;
  }

  std::mt19937_64 random_;
  uint64_t iterations_ = 0;
  std::unique_ptr<StepJob> job_;
  std::vector<nic::Usage> usage_;
  std::deque<Matched> pairs_;
  std::vector<std::deque<Action>> programs_;  // what each host has still to do
  uint64_t unpacked_ = 0;
  std::string wrong_;
};

// Sharded, so that a report says where and a machine with cores can use them.
class RandomProtocol : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomProtocol, TwoHundredSeeds) {
  for (uint64_t seed = 200 * GetParam(); seed < 200 * (GetParam() + 1); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun run(seed);
    run.run();
    ASSERT_NO_FATAL_FAILURE(run.check());
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(Core, RandomProtocol, ::testing::Range<uint64_t>(0, 10));

}  // namespace
}  // namespace lanyard
