// The protocol in random programs under random schedules: what is left of it in the end. That every program comes to
// its end, every message is the right one at the right time, nothing is lost and everything may be freed, the World
// itself sees to (tests/engine/random_config_test.cc); here is what only the core and its card can tell.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "nicsim/deterministic/fuzz.h"
#include "nicsim/deterministic/random_config.h"
#include "transport/core/queue.h"

namespace lanyard::nicsim {
namespace {

bool all_are_freed(const World& world, uint32_t rank) {
  for (uint32_t index = 0; index < 2 * world.exchange().messages().size(); ++index)
    if (world.side({index}).rank == rank && world.side({index}).core != nullptr)
      return false;
  return true;
}

// Returns whether it could be told that all is given back.
bool check_rest(const World& world, uint32_t rank) {
  const Process& process = world.process(rank);
  for (const auto& lane : process.lanes) {
    EXPECT_TRUE(lane->queue->settled());
    EXPECT_EQ(lane->queue->unwaited(), 0u);
    EXPECT_EQ(lane->queue->epoch_entries(), 0u);
  }
  EXPECT_EQ(process.card().failures(), 0u);
  if (!all_are_freed(world, rank))
    return false;
  EXPECT_EQ(process.card().free_entries(), process.card().caps().deferred_depth);
  EXPECT_EQ(process.card().usage().counters, process.lanes.size()) << "but for those of the queues";
  EXPECT_LE(process.card().usage().regions, 1u) << "but for a slab of words";
  return true;
}

TEST(RandomProtocol, LeavesNothingBehind) {
  constexpr uint64_t kPrograms = 500, kSchedules = 4;
  uint64_t freed = 0;
  for (uint64_t program = 0; program < kPrograms; ++program) {
    const Config config = random_config(1'000'000 + program);
    if (config.world.failures || config.world.kills)
      continue;
    SCOPED_TRACE(config.to_string());
    const Exchange exchange = config.exchange();
    Fuzzer fuzzer(exchange, config.world, {});
    for (uint64_t seed = 0; seed < kSchedules; ++seed) {
      const Report& report = fuzzer.run(program * kSchedules + seed);
      ASSERT_TRUE(report.ok()) << report.oracle << ": " << report.text;
      ASSERT_TRUE(fuzzer.world().finished());
      for (uint32_t rank = 0; rank < exchange.ranks(); ++rank)
        freed += check_rest(fuzzer.world(), rank) ? 1 : 0;
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GE(freed, kPrograms);
}

}  // namespace
}  // namespace lanyard::nicsim
