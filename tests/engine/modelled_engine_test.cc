// The model's engine against times computed by hand.
#include "nicsim/modelled/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "nicsim/modelled/calendar.h"
#include "nicsim/modelled/lowering.h"
#include "nicsim/modelled/workload.h"
#include "tests/support/expect.h"

namespace lanyard {
namespace {

using namespace modelled;  // NOLINT: all of it is under test
using core::Strategy;

// Prime numbers, so that different sums differ.
Costs costs() {
  Costs costs;
  costs.ring = 1'009;
  costs.wait = 2'003;
  costs.next_wait = 53;
  costs.doorbell = 307;
  costs.fire = 101;
  costs.own_word = 503;
  costs.transmit = 211;
  costs.transmit_byte = 40'000;
  costs.receive = 401;
  costs.chunk_bytes = 64;
  costs.chunk_byte = 10'000;
  costs.delivery = 601;
  costs.link = {70'001, 80'021, 90'001, 100'003};
  return costs;
}

Placement far_apart() { return {.ranks_per_node = 1, .nics_per_node = 1, .nodes_per_group = 1}; }

Result<Timing> run_steps(const Job& job, uint32_t steps) { return run(job, {.steps = steps}); }

std::vector<Picoseconds> ends(const Job& job, uint32_t steps) {
  const Result<Timing> run = run_steps(job, steps);
  EXPECT_TRUE(run.ok()) << run.status().message();
  return run.ok() ? run.value().ends : std::vector<Picoseconds>();
}

// Each rank of a node sends to a rank of the next node. A kernel runs before each send.
Job one_way(const Costs& costs, uint64_t bytes, bool ready, Strategy strategy, Picoseconds kernel,
            uint32_t ranks_per_node = 1) {
  JobBuilder job(costs, {.ranks_per_node = ranks_per_node, .nics_per_node = 1, .nodes_per_group = 1});
  for (uint32_t rank = 0; rank < ranks_per_node; ++rank) {
    StepBuilder sender(strategy, false);
    sender.kernel(kernel);
    const uint32_t send = sender.send(bytes, ready, {ranks_per_node + rank, 0});
    sender.start({send});
    sender.wait({send});
    EXPECT_TRUE(job.add(sender).ok());
  }
  for (uint32_t rank = 0; rank < ranks_per_node; ++rank) {
    StepBuilder receiver(strategy, false);
    const uint32_t receive = receiver.receive(bytes, ready, {rank, 0});
    receiver.start({receive});
    receiver.wait({receive});
    EXPECT_TRUE(job.add(receiver).ok());
  }
  return job.take();
}

TEST(ModelledLowering, TakesTheShippedProtocolsEntries) {
  const auto entries = [](bool ready, bool exchange, Strategy strategy) {
    StepBuilder builder(strategy, exchange);
    const Grid grid{.cells = {80, 80, 1}, .ranks = {4, 4, 1}};
    const Halo halo = add_halo(builder, grid, 0, ready);
    builder.start(halo.requests);
    builder.wait(halo.requests);
    return lower(builder.step()).value().entries.size();
  };
  EXPECT_EQ(entries(true, false, Strategy::kTargetCounter), 24u);
  EXPECT_EQ(entries(false, false, Strategy::kTargetCounter), 32u);
  EXPECT_EQ(entries(true, true, Strategy::kTargetCounter), 9u);
  EXPECT_EQ(entries(false, true, Strategy::kTargetCounter), 17u);
  EXPECT_EQ(entries(true, false, Strategy::kSenderFlag), 24u);
  EXPECT_EQ(entries(false, false, Strategy::kSenderFlag), 32u);
}

TEST(ModelledLowering, ReportsWhatTheProtocolRefuses) {
  StepBuilder builder(Strategy::kTargetCounter, false);
  const uint32_t send = builder.send(8, false, {0, 0});
  builder.start({send});
  builder.start({send});
  const Result<Program> program = lower(builder.step());
  ASSERT_FALSE(program.ok());
  EXPECT_TRUE(has(program.status(), "wait"));
}

TEST(ModelledEngine, AReadySendTakesTheSumOfItsParts) {
  const Costs c = costs();
  const Picoseconds kernel = 50'021;
  for (const uint64_t bytes : {8u, 64u, 4096u}) {
    const Job job = one_way(c, bytes, true, Strategy::kTargetCounter, kernel);
    const Picoseconds wire = c.transmit + times(c.chunk_byte, std::min<uint64_t>(bytes, c.chunk_bytes)) + c.link[3] +
                             c.receive + times(c.transmit_byte, bytes);
    const Picoseconds landed = kernel + c.ring + c.doorbell + c.fire + wire;
    const Picoseconds told = c.fire + c.own_word + c.wait;
    // The receiver's stream waits from the beginning. The sender's stream waits for the
    // acknowledgement as well.
    EXPECT_EQ(ends(job, 1), std::vector<Picoseconds>{landed + c.link[3] + told}) << bytes;
  }
}

TEST(ModelledEngine, RegularSendWaitsForTheLaterOfRingAndClearToSend) {
  const Costs c = costs();
  const auto carried = [&](uint64_t bytes) {
    return c.fire + c.transmit + times(c.chunk_byte, std::min<uint64_t>(bytes, c.chunk_bytes)) + c.link[3] + c.receive +
           times(c.transmit_byte, bytes);
  };
  const Picoseconds cleared = c.ring + c.doorbell + carried(8);
  const Picoseconds end = c.link[3] + c.fire + c.own_word + c.wait;
  for (const Picoseconds kernel : {Picoseconds{1'000}, Picoseconds{900'000}}) {
    const Picoseconds rung = kernel + c.ring + c.doorbell;
    const Job job = one_way(c, 4096, false, Strategy::kTargetCounter, kernel);
    EXPECT_EQ(ends(job, 1), std::vector<Picoseconds>{std::max(rung, cleared) + carried(4096) + end}) << kernel;
  }
}

TEST(ModelledEngine, SenderRaisesTheFlagOnceItsWriteIsDelivered) {
  const Costs c = costs();
  const Picoseconds kernel = 500'009;
  const Picoseconds flag = c.fire + c.transmit + times(c.chunk_byte, 8) + c.link[3] + c.receive +
                           times(c.transmit_byte, 8) + c.delivery + c.link[3];
  const Picoseconds write = c.fire + c.transmit + times(c.chunk_byte, 64) + c.link[3] + c.receive +
                            times(c.transmit_byte, 4096) + c.delivery + c.link[3];
  const Picoseconds both = kernel + c.ring + c.doorbell + write + flag;
  EXPECT_EQ(ends(one_way(c, 4096, true, Strategy::kSenderFlag, kernel), 1),
            std::vector<Picoseconds>{both + c.fire + c.own_word + c.wait});
}

TEST(ModelledEngine, RanksOfANodeShareItsNic) {
  const Costs c = costs();
  const Picoseconds body = times(c.transmit_byte, 4096);
  const Picoseconds wire = times(c.chunk_byte, 64) + c.link[3];
  const Picoseconds first = c.ring + c.doorbell + c.fire + c.transmit, second = first + body + c.transmit;
  const Picoseconds first_landed = first + wire + c.receive + body;
  const Picoseconds landed = std::max(first_landed, second + wire) + c.receive + body;
  EXPECT_EQ(ends(one_way(c, 4096, true, Strategy::kTargetCounter, 0, 2), 1),
            std::vector<Picoseconds>{landed + c.link[3] + c.fire + c.own_word + c.wait});
}

TEST(ModelledEngine, ASlowHostDeterminesTheStep) {
  Costs c = costs();
  c.post = 3 * kMicrosecond;
  c.launch = 2 * kMicrosecond;
  c.enqueue = kMicrosecond / 2;
  // Per step: a kernel, a ring, a wait, two entries.
  const Job job = one_way(c, 8, true, Strategy::kTargetCounter, 1'000);
  const std::vector<Picoseconds> times = ends(job, 12);
  const Picoseconds step = 2 * c.post + c.launch + 2 * c.enqueue;
  for (size_t i = 1; i < times.size(); ++i)
    EXPECT_EQ(times[i] - times[i - 1], step) << i;
  EXPECT_EQ(run_steps(job, 12).value().step_time(), step);
}

TEST(ModelledEngine, StepsOfManyRanksAreThoseOfOne) {
  // All ranks are alike, so a rank that is its own neighbour has the same step time as one of many.
  Costs c = costs();
  c.link = {90'001, 90'001, 90'001, 90'001};
  const auto halo = [&](uint32_t side) {
    JobBuilder job(c, far_apart());
    const Grid grid{.cells = {64u * side, 64u * side, 1}, .ranks = {side, side, 1}};
    for (uint32_t rank = 0; rank < side * side; ++rank) {
      StepBuilder builder(Strategy::kTargetCounter, false);
      const Halo halo = add_halo(builder, grid, rank, true);
      builder.kernel(10'007);
      builder.start(halo.requests);
      builder.wait(halo.requests);
      EXPECT_TRUE(job.add(builder).ok());
    }
    return ends(job.take(), 10);
  };
  EXPECT_EQ(halo(1), halo(3));
  EXPECT_EQ(halo(1), halo(8));
}

TEST(ModelledEngine, EntriesAndTheStreamDelayTheHost) {
  Costs c = costs();
  c.deferred_depth = 1;
  const Result<Timing> refused = run_steps(one_way(c, 8, true, Strategy::kTargetCounter, 0), 2);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  // With two entries the host begins a step only when the step before has fired its last entry.
  c.deferred_depth = 2;
  c.post = 10'007;
  const std::vector<Picoseconds> tight = ends(one_way(c, 8, true, Strategy::kTargetCounter, 0), 6);
  c.deferred_depth = 504;
  const std::vector<Picoseconds> roomy = ends(one_way(c, 8, true, Strategy::kTargetCounter, 0), 6);
  const Picoseconds trip =
      c.fire + c.transmit + times(c.chunk_byte, 8) + c.link[3] + c.receive + times(c.transmit_byte, 8) + c.link[3];
  EXPECT_EQ(tight[5] - tight[4], c.post + trip);
  // With enough entries the next step's write is posted before the stream rings.
  const Picoseconds from_write = trip + c.fire + c.own_word + c.wait;
  EXPECT_EQ(roomy[5] - roomy[4], from_write + c.ring + c.doorbell);
  // With run_ahead 1 the stream must have ended the step before; it rings while the host posts.
  c.run_ahead = 1;
  const std::vector<Picoseconds> in_turn = ends(one_way(c, 8, true, Strategy::kTargetCounter, 0), 6);
  EXPECT_EQ(in_turn[5] - in_turn[4], c.post + from_write);
}

TEST(ModelledEngine, ReportsADeadlock) {
  // Each rank waits for its send before it starts its receive, so each waits for the other's
  // clear-to-send forever.
  JobBuilder job(costs(), far_apart());
  for (uint32_t rank = 0; rank < 2; ++rank) {
    StepBuilder builder(Strategy::kTargetCounter, false);
    const uint32_t send = builder.send(8, false, {1 - rank, 1});
    const uint32_t receive = builder.receive(8, false, {1 - rank, 0});
    builder.start({send});
    builder.wait({send});
    builder.start({receive});
    builder.wait({receive});
    EXPECT_TRUE(job.add(builder).ok());
  }
  const Result<Timing> run = run_steps(job.take(), 3);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.status().message(), "rank 0 makes no progress in step 1: its stream waits for a message");
}

TEST(ModelledCalendar, GivesEventsInTheOrderOfAPriorityQueue) {
  std::mt19937_64 random(7);
  Calendar calendar;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue;
  Picoseconds now = 0;
  for (int i = 0; i < 60'000; ++i) {
    if (queue.empty() || random() % 5 < 3) {
      const Picoseconds ahead = random() % 8 == 0 ? random() % 3'000'000 : random() % 5'000;
      const Event event{now + ahead, static_cast<uint32_t>(random() % 4), static_cast<uint32_t>(random() % 4)};
      calendar.push(event);
      queue.push(event);
      continue;
    }
    Event event;
    ASSERT_TRUE(calendar.pop(event));
    ASSERT_EQ(event, queue.top());
    now = event.time;
    queue.pop();
  }
}

}  // namespace
}  // namespace lanyard
