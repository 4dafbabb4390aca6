// Exhaustive exploration of small worlds.
#include "nicsim/deterministic/explore.h"

#include <gtest/gtest.h>

#include <chrono>

#include "nicsim/deterministic/config.h"

namespace lanyard::nicsim {
namespace {

Exploration explored(const std::string& text, bool reduced, bool breadth_first = false) {
  const Config config = Config::parse(text).value();
  const Exchange exchange = make_halo(config.halo);
  World world(exchange, config.world);
  const auto begin = std::chrono::steady_clock::now();
  Result<Exploration> result = explore(world, {.reduced = reduced, .breadth_first = breadth_first});
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const Exploration& found = result.value();
  std::printf("%s %s: %lu states, %lu transitions, %lu ends, %.2f s\n", text.c_str(), reduced ? "reduced" : "full",
              found.states, found.transitions, found.ends, took.count());
  return found;
}

TEST(Explore, ReducedAndUnreducedAgree) {
  for (const char* text : {"2ranks,1req-one-way,1iter", "2ranks,1req-one-way,2iter", "2ranks,1req-each-way,1iter",
                           "2ranks,1req-one-way,2iter,ready"}) {
    const Exploration full = explored(text, false), reduced = explored(text, true);
    EXPECT_TRUE(full.complete && reduced.complete) << full.report.text << reduced.report.text;
    EXPECT_EQ(full.ends, reduced.ends);
    EXPECT_EQ(full.ends_digest, reduced.ends_digest);
    EXPECT_LT(reduced.states, full.states);
  }
}

TEST(Explore, TwoEachWayThreeTimes) {
  const Exploration reduced = explored("2ranks,2req-each-way,3iter", true);
  EXPECT_TRUE(reduced.complete) << reduced.report.text;
  EXPECT_EQ(reduced.ends, 1u);
}

}  // namespace
}  // namespace lanyard::nicsim
