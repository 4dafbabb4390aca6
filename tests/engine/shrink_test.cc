// Shrinks a long failing run to a short one.
#include "nicsim/deterministic/fuzz.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lanyard::nicsim {
namespace {

TEST(Shrink, ThePoolDeadlock) {
  const Config config = Config::parse("2ranks,2req-each-way,2iter,sends-first,depth=5,blocking-post").value();
  const Scenario scenario = config.scenario();
  const Verdict verdict = fuzz(scenario, {.schedules = 1'000, .world = config.world});
  ASSERT_EQ(verdict.report.finding, Finding::kDeadlock);
  const Shrunk shrunk = shrink(config, verdict.schedule, std::chrono::minutes(4));
  EXPECT_EQ(shrunk.report.finding, Finding::kDeadlock);
  EXPECT_EQ(shrunk.config.halo.iterations, 1u);
  EXPECT_LE(deviations(shrunk.schedule), 6u);
  EXPECT_GT(shrunk.shortest, 0u);
  EXPECT_LE(10 * shrunk.report.step, 12 * shrunk.shortest);
}

TEST(Shrink, ALostRing) {
  const Config config = Config::parse("3ranks,2req-each-way,3iter,lost-rings").value();
  const Scenario scenario = config.scenario();
  const Verdict verdict = fuzz(scenario, {.schedules = 1'000, .world = config.world});
  ASSERT_FALSE(verdict.ok());
  const Shrunk shrunk = shrink(config, verdict.schedule, std::chrono::minutes(4));
  EXPECT_EQ(shrunk.report.finding, verdict.report.finding);
  EXPECT_EQ(shrunk.config.halo.ranks, 2u);
  EXPECT_EQ(shrunk.config.halo.each_way, 1u);
  EXPECT_LE(deviations(shrunk.schedule), 1u) << "only the lost ring may deviate";
}

}  // namespace
}  // namespace lanyard::nicsim
