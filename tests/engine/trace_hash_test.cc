// A schedule gives the same run with every compiler: its trace always has the same hash, a hundred
// times. Each change of the protocol, the model or the world's steps changes the hashes; `lanyard
// replay` prints the new ones.
#include <gtest/gtest.h>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {
namespace {

struct KnownRun {
  const char* config;
  const char* schedule;
  uint64_t hash;
  uint64_t steps;
};

constexpr KnownRun kRuns[] = {
    {"2ranks,1req-each-way,2iter",
     "21213232220313020001130120200201103310330022100030030030110222002011011001011322022210113112101120010213102311123"
     "010202",
     0xe695c233a1147577, 126},
    {"2ranks,2req-each-way,2iter,depth=5,queues=2",
     "03031121213102233131010012210112201211030202211020022100221311210020311300220231001100311012302112211111100132021"
     "3100112",
     0xa549077931b075f8, 311},
    {"3ranks,1req-each-way,2iter,ready,failures,kills",
     "00000000000000000002020020000000000000020002000000000000000020000000000000000000000200000000000000000000000010200"
     "0000001",
     0x9da185f7674f6626, 55},
    {"2ranks,2req-each-way,2iter,depth=3,no-room,stale-reads,frozen-reads,stolen-entries",
     "00113021112122322003011221212201112232000121202200133122222213311123201133013023121231100122112012230020130302012"
     "10121",
     0xdaa09518db185e49, 310},
};

TEST(TraceHash, IsTheSameEverywhere) {
  for (const KnownRun& run : kRuns) {
    const Config config = Config::parse(run.config).value();
    const Scenario scenario = config.scenario();
    World world(scenario, config.world);
    const Schedule schedule = decode(run.schedule).value();
    for (int time = 0; time < 100; ++time) {
      world.reset();
      Replay replay(schedule);
      world.run(replay);
      ASSERT_EQ(world.trace_hash(), run.hash) << run.config << ", time " << time;
      ASSERT_EQ(world.steps(), run.steps) << run.config << ", time " << time;
    }
  }
}

}  // namespace
}  // namespace lanyard::nicsim
