// A schedule is the same run whatever compiled the engine: its trace hashes to the same number everywhere, a hundred times.
// The numbers change with every change to the protocol, the model or the world's steps; `lanyard replay` prints the new ones.
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
     "21213232220313020001130120200201103310330022100030030030110222002011011001011322022210113112101120010213102311123010202",
     0xe695c233a1147577, 126},
    {"2ranks,2req-each-way,2iter,depth=5,queues=2",
     "030311212131022331310100122101122012110302022110200221002213112100203113002202310011003110123021122111111001320213100112",
     0xa549077931b075f8, 311},
    {"3ranks,1req-each-way,2iter,ready,failures,kills",
     "000000000000000000020200200000000000000200020000000000000000200000000000000000000002000000000000000000000000102000000001",
     0xec29dbf46c4faa42, 91},
    {"2ranks,2req-each-way,2iter,depth=3,no-room,stale-reads,frozen-reads,stolen-entries",
     "0011302111212232200301122121220111223200012120220013312222221331112320113301302312123110012211201223002013030201210121",
     0x2f10c7b3dd1a5d69, 310},
    {"2ranks,1req-each-way,2iter,bytes=100,max-message=40,timed,slow",
     "300223020121002013002002021201022021200101221112100210222212220102013312030311210020210220030221011110320221030123020021",
     0xa6691d701419b1a6, 174},
};

TEST(TraceHash, IsTheSameEverywhere) {
  for (const KnownRun& run : kRuns) {
    const Config config = Config::parse(run.config).value();
    const Exchange exchange = make_halo(config.halo);
    World world(exchange, config.world);
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
