// The deterministic world: runs of the shipped protocol under random schedules.
#include "nicsim/deterministic/world.h"

#include <gtest/gtest.h>

#include <chrono>

#include "nicsim/deterministic/schedulers.h"

namespace lanyard::nicsim {
namespace {

TEST(World, RunsUnderEveryScheduler) {
  for (const bool both : {false, true}) {
    const Exchange exchange = make_halo({.both_ways = both});
    World world(exchange, {});
    for (uint32_t kind = 0; kind < kSchedulerKinds; ++kind) {
      const auto scheduler = make_scheduler(static_cast<SchedulerKind>(kind), world, 62);
      uint64_t steps = 0;
      const auto begin = std::chrono::steady_clock::now();
      constexpr uint64_t kSchedules = 20'000;
      for (uint64_t seed = 0; seed < kSchedules; ++seed) {
        world.reset();
        scheduler->begin(seed);
        const Report& report = world.run(*scheduler);
        ASSERT_TRUE(report.ok()) << report.oracle << ": " << report.text << "\nstep " << report.step;
        steps += world.steps();
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      std::printf("%s %s: %.0f schedules/s, %.1f steps, image %zu B\n", both ? "both" : "one",
                  scheduler_name(static_cast<SchedulerKind>(kind)), kSchedules / took.count(),
                  static_cast<double>(steps) / kSchedules, world.image_bytes());
    }
  }
}

// The first finding of so many random schedules, or none.
Report search(World& world, uint64_t schedules) {
  const auto scheduler = make_scheduler(SchedulerKind::kRandom, world, 100);
  for (uint64_t seed = 0; seed < schedules; ++seed) {
    world.reset();
    scheduler->begin(seed);
    if (const Report& report = world.run(*scheduler); !report.ok()) return report;
  }
  return {};
}

TEST(World, FindsThePoolDeadlock) {
  const Exchange exchange = make_halo({.each_way = 2, .sends_first = true});
  for (uint32_t depth = 4; depth < 8; ++depth) {
    World world(exchange, {.depth = depth, .blocking_post = true});
    const Report report = search(world, 1'000);
    EXPECT_EQ(report.finding, depth <= 5 ? Finding::kDeadlock : Finding::kNone) << depth << report.text;
    std::printf("%s\n", report.text.c_str());
  }
}

TEST(World, AnOverflowSavesThePool) {
  const Exchange exchange = make_halo({.each_way = 2});
  for (uint32_t depth = 1; depth < 9; ++depth) {
    World world(exchange, {.depth = depth});
    const Report report = search(world, 2'000);
    EXPECT_TRUE(report.ok()) << "depth " << depth << ": " << report.oracle << ": " << report.text;
  }
}

TEST(World, AProgramsOwnDeadlockIsItsOwn) {
  Exchange exchange(2);
  const auto there = exchange.message(0, 1, {.tag = 7}), back = exchange.message(1, 0, {.tag = 8});
  exchange.rank(0).start({back.receive}).wait({back.receive}).pack(there).start({there.send}).wait({there.send});
  exchange.rank(1).start({there.receive}).wait({there.receive}).pack(back).start({back.send}).wait({back.send});
  ASSERT_TRUE(exchange.validate().ok());
  World world(exchange, {});
  const Report report = search(world, 100);
  EXPECT_EQ(report.finding, Finding::kUser) << report.text;
  std::printf("%s\n", report.text.c_str());
}

// The sender frees its side, the receiver starts once more: its clear-to-send finds nobody, at whatever moment it comes.
TEST(World, AnEarlyFreeIsTheProgramsMistake) {
  Exchange exchange(2);
  const auto message = exchange.message(0, 1);
  exchange.rank(0).pack(message).start({message.send}).wait({message.send}).free({message.send});
  exchange.rank(1).repeat(2, [&](HostProgram& host) {
    host.start({message.receive}).wait({message.receive}).unpack(message);
  });
  ASSERT_TRUE(exchange.validate().ok());
  World world(exchange, {});
  const auto scheduler = make_scheduler(SchedulerKind::kRandom, world, 100);
  for (uint64_t seed = 0; seed < 5'000; ++seed) {
    world.reset();
    scheduler->begin(seed);
    const Report report = world.run(*scheduler);
    ASSERT_EQ(report.finding, Finding::kUser) << seed << ": " << report.oracle << ": " << report.text;
  }
}

// Nobody can say where its stream is but the stream; yet a request that has completed may go on elsewhere, or be freed.
TEST(World, ACompletedRequestIsFreeToGo) {
  Exchange exchange(2);
  const auto message = exchange.message(0, 1);
  exchange.rank(0).on(0).pack(message).start({message.send}).wait({message.send}).complete({message.send});
  exchange.rank(0).on(1).pack(message).start({message.send}).wait({message.send}).free({message.send});
  exchange.rank(1).repeat(2, [&](HostProgram& host) {
    host.start({message.receive}).wait({message.receive}).unpack(message);
  });
  exchange.rank(1).free({message.receive});
  ASSERT_TRUE(exchange.validate().ok());
  World world(exchange, {});
  const Report report = search(world, 5'000);
  EXPECT_TRUE(report.ok()) << report.oracle << ": " << report.text;
}

TEST(World, ARefusalThatDoesNotComeIsFound) {
  Exchange exchange(2);
  const auto message = exchange.message(0, 1);
  exchange.rank(0).start({message.send}).refused().wait({message.send});
  exchange.rank(1).start({message.receive}).wait({message.receive});
  World world(exchange, {});
  const Report report = search(world, 100);
  EXPECT_STREQ(report.oracle, "refusal") << report.text;
}

}  // namespace
}  // namespace lanyard::nicsim
