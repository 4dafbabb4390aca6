// Exhaustive exploration of small worlds.
#include "nicsim/deterministic/explore.h"

#include <gtest/gtest.h>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/schedulers.h"

namespace lanyard::nicsim {
namespace {

Exploration explored(const std::string& text, bool reduced, bool breadth_first = false) {
  const Config config = Config::parse(text).value();
  const Scenario scenario = config.scenario();
  World world(scenario, config.world);
  Result<Exploration> result = explore(world, {.reduced = reduced, .breadth_first = breadth_first});
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.value();
}

TEST(Explore, ReducedAndUnreducedAgree) {
  for (const char* text :
       {"2ranks,1req-one-way,1iter", "2ranks,1req-one-way,1iter,sender-flag", "2ranks,1req-one-way,2iter",
        "2ranks,1req-one-way,1iter,merged,sender-flag", "2ranks,1req-each-way,1iter", "2ranks,1req-one-way,2iter,ready",
        "2ranks,1req-one-way,1iter,free"}) {
    const Exploration full = explored(text, false), reduced = explored(text, true);
    EXPECT_TRUE(full.complete && reduced.complete) << full.report.text << reduced.report.text;
    EXPECT_EQ(full.ends, reduced.ends);
    EXPECT_EQ(full.ends_digest, reduced.ends_digest);
    EXPECT_LT(reduced.states, full.states);
  }
}

// The other way to all schedules: one after another, without remembering states.
TEST(Explore, AnOdometerFindsWhatASearchFinds) {
  const Config config = Config::parse("2ranks,1req-one-way,1iter,lost-rings").value();
  const Scenario scenario = config.scenario();
  World world(scenario, config.world);
  const Result<Exploration> search = explore(world, {.breadth_first = true});
  ASSERT_TRUE(search.ok());
  ASSERT_EQ(search.value().report.finding, Finding::kDeadlock);
  Odometer odometer(search.value().schedule.size());
  uint64_t schedules = 0, shortest = UINT64_MAX;
  do {
    world.reset();
    const Report& report = world.run(odometer);
    if (!report.ok())
      shortest = std::min(shortest, report.step);
  } while (++schedules < 20'000 && odometer.advance());
  EXPECT_GE(shortest, search.value().report.step) << "breadth first is shortest";
  EXPECT_LT(shortest, UINT64_MAX);
}

}  // namespace
}  // namespace lanyard::nicsim
