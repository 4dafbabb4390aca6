// Fuzzer: a seed always gives the same run. Exploration of small worlds. Shrinking of long failing
// runs.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "nicsim/deterministic/explore.h"
#include "tests/engine/world_search.h"

namespace lanyard::nicsim {
namespace {

constexpr uint64_t kKinds = kSchedulerKinds;

TEST(Fuzzing, ASeedGivesOneRunWhateverRanBefore) {
  for (const char* text : {"2ranks,2req-each-way,2iter,sync,failures",
                           "2ranks,2req-each-way,2iter,depth=3,cxi-driver,failures,no-room,stolen-entries"}) {
    const Setting setting(text);
    Fuzzer forwards(setting.scenario, setting.config.world), backwards(setting.scenario, setting.config.world);
    constexpr uint64_t kSeeds = 12 * kKinds;
    std::vector<uint64_t> hashes;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      forwards.run(seed);
      hashes.push_back(forwards.world().trace_hash());
      EXPECT_TRUE(forwards.repeats(seed)) << seed;
    }
    for (uint64_t seed = kSeeds; seed-- > 0;) {
      backwards.run(seed);
      EXPECT_EQ(backwards.world().trace_hash(), hashes[seed]) << seed;
    }
  }
}

TEST(Fuzzing, ARecordedScheduleIsTheWholeRun) {
  Setting setting("2ranks,2req-each-way,2iter,sync,failures");
  Fuzzer fuzzer(setting.scenario, setting.config.world);
  World& world = setting.world;
  for (uint64_t seed = 0; seed < 8 * kKinds; ++seed) {
    fuzzer.run(seed);
    const uint64_t hash = fuzzer.world().trace_hash();
    const Schedule schedule = fuzzer.record(seed);
    EXPECT_EQ(fuzzer.world().trace_hash(), hash) << seed;
    Replay replay(schedule);
    world.reset();
    world.run(replay);
    EXPECT_EQ(world.trace_hash(), hash) << seed;
    EXPECT_EQ(replay.misfits(), 0u) << seed;
  }
}

// ---- Exhaustive exploration of small worlds

Exploration explored(const std::string& text, bool reduced) {
  Setting setting(text);
  Result<Exploration> result = explore(setting.world, {.reduced = reduced});
  EXPECT_TRUE(works(result.status()));
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

// ---- A long failing run becomes a short one

TEST(Shrink, ThePoolDeadlock) {
  const Config config = Config::parse("2ranks,2req-each-way,2iter,sends-first,depth=5,blocking-post").value();
  const Verdict verdict = fuzz_text(config.to_string(), 1'000);
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
  const Verdict verdict = fuzz_text(config.to_string(), 1'000);
  ASSERT_FALSE(verdict.ok());
  const Shrunk shrunk = shrink(config, verdict.schedule, std::chrono::minutes(4));
  EXPECT_EQ(shrunk.report.finding, verdict.report.finding);
  EXPECT_EQ(shrunk.config.halo.ranks, 2u);
  EXPECT_EQ(shrunk.config.halo.each_way, 1u);
  EXPECT_LE(deviations(shrunk.schedule), 1u) << "only the lost ring may deviate";
}

}  // namespace
}  // namespace lanyard::nicsim
