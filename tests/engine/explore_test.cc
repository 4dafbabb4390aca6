// Exhaustive exploration of small worlds.
#include "nicsim/deterministic/explore.h"

#include <gtest/gtest.h>

#include "nicsim/deterministic/config.h"

namespace lanyard::nicsim {
namespace {

Exploration explored(const std::string& text, bool reduced) {
  const Config config = Config::parse(text).value();
  const Scenario scenario = config.scenario();
  World world(scenario, config.world);
  Result<Exploration> result = explore(world, {.reduced = reduced});
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

}  // namespace
}  // namespace lanyard::nicsim
