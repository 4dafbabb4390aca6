// Fuzzer: a seed stands for one run, though runs begin with the same steps.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/fuzz.h"

namespace lanyard::nicsim {
namespace {

constexpr uint64_t kKinds = kSchedulerKinds;

class Fuzzing : public testing::Test {
 protected:
  static Config parse(const std::string& text) { return Config::parse(text).value(); }
  const Config config_ = parse("2ranks,2req-each-way,2iter,sync,failures");
  const Scenario scenario_ = config_.scenario();
};

TEST_F(Fuzzing, ASeedStandsForOneRunWhateverRanBefore) {
  for (const char* text : {"2ranks,2req-each-way,2iter,sync,failures",
                           "2ranks,2req-each-way,2iter,depth=3,cxi-driver,failures,no-room,stolen-entries"}) {
    const Config config = parse(text);
    const Scenario scenario = config.scenario();
    Fuzzer forwards(scenario, config.world, {}), backwards(scenario, config.world, {});
    constexpr uint64_t kSeeds = 3 * kKinds * Fuzzer::kBranches;
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

TEST_F(Fuzzing, ARecordedScheduleIsTheWholeRun) {
  Fuzzer fuzzer(scenario_, config_.world, {});
  World world(scenario_, config_.world);
  for (uint64_t seed = 0; seed < 2 * kKinds * Fuzzer::kBranches; ++seed) {
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

// With the random scheduler alone, whose runs are hardly ever alike.
TEST_F(Fuzzing, BranchesOfOneTrunkDiffer) {
  Fuzzer fuzzer(scenario_, config_.world, {SchedulerKind::kRandom});
  std::set<uint64_t> runs;
  std::set<std::vector<uint32_t>> beginnings;
  constexpr uint64_t kTrunks = 8, kFirst = 5;
  for (uint64_t seed = 0; seed < kTrunks * Fuzzer::kBranches; ++seed) {
    Schedule schedule = fuzzer.record(seed);
    runs.insert(fuzzer.world().trace_hash());
    schedule.resize(kFirst);
    beginnings.insert(schedule);
  }
  EXPECT_GT(runs.size(), kTrunks * Fuzzer::kBranches * 2 / 3);  // some begin near their end
  EXPECT_LT(beginnings.size(), kTrunks * Fuzzer::kBranches / 2);
  EXPECT_GE(beginnings.size(), kTrunks / 2);
}

}  // namespace
}  // namespace lanyard::nicsim
