// The oracles of the deterministic engine find every known mistake, in the workload that is named for it, and nothing
// where there is none.
#include "nicsim/deterministic/mutants.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lanyard::nicsim {
namespace {

constexpr uint64_t kBases = 3;
constexpr uint64_t seed_of(uint64_t base) { return base << 32; }

TEST(Mutants, AreThoseOfTheDesign) {
  uint32_t last = 0;
  for (const Mutant& mutant : mutants()) {
    EXPECT_GT(mutant.number, last);
    last = mutant.number;
    EXPECT_LT(mutant.workload, workloads().size());
  }
  EXPECT_EQ(mutants().size(), 190u);
}

TEST(Mutants, NoneIsFoundWhereThereIsNone) {
  for (uint32_t workload = 0; workload < workloads().size(); ++workload) {
    const std::vector<uint32_t> only{workload};
    const Kill kill = hunt({.seed = seed_of(1), .workloads = only, .schedules = 2'000});
    EXPECT_TRUE(kill.report.ok()) << workloads()[workload] << ", seed " << kill.seed << ": " << kill.report.oracle
                                  << ": " << kill.report.text;
  }
}

TEST(Mutants, EachIsKilled) {
  for (const Mutant& mutant : mutants()) {
    if (mutant.proof != nullptr)
      continue;
    const std::vector<uint32_t> only{mutant.workload};
    for (uint64_t base = 1; base <= kBases; ++base) {
      const Kill kill = hunt({.mutant = mutant.number, .seed = seed_of(base), .workloads = only, .schedules = 100'000});
      EXPECT_FALSE(kill.report.ok()) << mutant.number << " " << mutant.name << " survives " << kill.schedules
                                     << " schedules of " << workloads()[mutant.workload];
    }
  }
}

}  // namespace
}  // namespace lanyard::nicsim
