// Fuzzer: a seed always gives the same run.
#include <gtest/gtest.h>

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

TEST_F(Fuzzing, ASeedGivesOneRunWhateverRanBefore) {
  for (const char* text : {"2ranks,2req-each-way,2iter,sync,failures",
                           "2ranks,2req-each-way,2iter,depth=3,cxi-driver,failures,no-room,stolen-entries"}) {
    const Config config = parse(text);
    const Scenario scenario = config.scenario();
    Fuzzer forwards(scenario, config.world), backwards(scenario, config.world);
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

TEST_F(Fuzzing, ARecordedScheduleIsTheWholeRun) {
  Fuzzer fuzzer(scenario_, config_.world);
  World world(scenario_, config_.world);
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

}  // namespace
}  // namespace lanyard::nicsim
