// Searches for findings in the deterministic world that a configuration's text describes.
#ifndef LANYARD_TESTS_ENGINE_WORLD_SEARCH_H_
#define LANYARD_TESTS_ENGINE_WORLD_SEARCH_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/fuzz.h"
#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/world.h"
#include "tests/support/expect.h"

namespace lanyard::nicsim {

struct Setting {
  explicit Setting(const std::string& text)
      : config(Config::parse(text).value()), scenario(config.scenario()), world(scenario, config.world) {}
  const Config config;
  const Scenario scenario;
  World world;
};

// The first finding within `schedules` schedules of about `steps` steps, or a clean report.
inline Report search(World& world, SchedulerKind kind, uint64_t schedules, uint64_t steps = 100) {
  const auto scheduler = make_scheduler(kind, world, steps);
  for (uint64_t seed = 0; seed < schedules; ++seed) {
    world.reset();
    scheduler->begin(seed);
    if (const Report& report = world.run(*scheduler); !report.ok())
      return report;
  }
  return {};
}

inline ::testing::AssertionResult clean(const Report& report) {
  return (report.ok() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure())
         << report.oracle << ": " << report.text;
}

inline void expect_clean_under_every_scheduler(const std::string& text, uint64_t schedules, uint64_t steps = 100) {
  Setting setting(text);
  for (uint32_t kind = 0; kind < kSchedulerKinds; ++kind)
    EXPECT_TRUE(clean(search(setting.world, static_cast<SchedulerKind>(kind), schedules, steps)))
        << text << ", " << scheduler_name(static_cast<SchedulerKind>(kind));
}

inline Verdict fuzz_text(const std::string& text, uint64_t schedules) {
  const Result<Config> config = Config::parse(text);
  EXPECT_TRUE(works(config.status())) << text;
  return config.ok() ? fuzz(config.value().scenario(), {.schedules = schedules, .world = config.value().world})
                     : Verdict();
}
inline void expect_clean(const std::string& text, uint64_t schedules) {
  const Verdict verdict = fuzz_text(text, schedules);
  EXPECT_TRUE(clean(verdict.report)) << text << ", seed " << verdict.seed;
}
// The user's error that the report's text names.
inline void expect_user_error(const std::string& text, uint64_t schedules, const std::string& words) {
  const Report report = fuzz_text(text, schedules).report;
  EXPECT_EQ(report.finding, Finding::kUser);
  EXPECT_TRUE(has(report.text, words));
}

}  // namespace lanyard::nicsim

#endif  // LANYARD_TESTS_ENGINE_WORLD_SEARCH_H_
