// What exploring leaves out must not be what a mistake needs: with each known mistake compiled in, the reduced search
// finds something in a small world exactly where the full one does.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/explore.h"
#include "nicsim/deterministic/mutants.h"
#include "tools/mutants/mutant.h"

namespace lanyard::nicsim {
namespace {

Exploration explored(const std::string& text, bool reduced) {
  const Config config = Config::parse(text).value();
  const Exchange exchange = config.exchange();
  World world(exchange, config.world);
  Result<Exploration> result = explore(world, {.reduced = reduced, .max_states = 300'000});
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.value();
}

class WithMutants : public ::testing::TestWithParam<const char*> {};

TEST_P(WithMutants, ReducedFindsWhereFullDoes) {
  std::vector<uint32_t> numbers{0}, found;
  for (const Mutant& mutant : mutants())
    numbers.push_back(mutant.number);
  for (const uint32_t number : numbers) {
    chosen_mutant = number;
    const Exploration full = explored(GetParam(), false);
    const Exploration reduced = explored(GetParam(), true);
    chosen_mutant = 0;
    SCOPED_TRACE("mutant " + std::to_string(number));
    ASSERT_TRUE(full.complete || !full.report.ok()) << "more states than this test looks at";
    ASSERT_EQ(full.report.ok(), reduced.report.ok())
        << "full: " << full.report.text << "\nreduced: " << reduced.report.text;
    if (!full.report.ok()) {
      found.push_back(number);
      continue;
    }
    EXPECT_EQ(full.ends, reduced.ends);
    EXPECT_EQ(full.ends_digest, reduced.ends_digest);
  }
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found.front(), 0u) << "without a mutant nothing is found";
  // That one needs a count to come before the entry that it meets: no other is as easily left out.
  EXPECT_EQ(std::count(found.begin(), found.end(), 20u), 1);
}

// Not with 'free': most mistakes there end the process.
INSTANTIATE_TEST_SUITE_P(Small, WithMutants,
                         ::testing::Values("2ranks,1req-one-way,1iter", "2ranks,1req-one-way,2iter",
                                           "2ranks,1req-one-way,1iter,sender-flag", "2ranks,1req-one-way,2iter,ready",
                                           "2ranks,1req-one-way,1iter,bytes=24,max-message=16",
                                           "1ranks,1req-one-way,2iter"));

}  // namespace
}  // namespace lanyard::nicsim
