// ThreadedNic and its shared-memory wire in orders that seeds choose (tests/interleaving): nobody sleeps for ever
// beside work, nothing is lost or done twice, and nobody drives beside another; and of what would break that, every
// known mistake is found.
//
// A fault comes with its schedule, one word. To see its steps:
//   LANYARD_INTERLEAVING=posting:1f bazel-bin/tests/threaded_interleaving_test --gtest_filter=Interleaving.Replay
// LANYARD_INTERLEAVING_SEED=N tries other schedules than those of every run.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/interleaving/hunt.h"
#include "tests/interleaving/mutants.h"
#include "tests/interleaving/scheduler.h"
#include "tests/interleaving/workloads.h"

namespace lanyard::interleaving {
namespace {

constexpr uint64_t kSchedules = 4'000;  // of each workload
constexpr uint64_t kBases = 5;          // of mutants' seeds

uint64_t seed_of_run() {
  const char* text = std::getenv("LANYARD_INTERLEAVING_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 0);
}

class Workloads : public ::testing::TestWithParam<Workload> {};
INSTANTIATE_TEST_SUITE_P(Interleaving, Workloads, ::testing::ValuesIn(workloads().begin(), workloads().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Workloads, HaveNoFault) {
  const Prey prey{.workload = &GetParam(), .seed = seed_of_run(), .schedules = kSchedules};
  const Find find = hunt(prey);
  EXPECT_EQ(find.fault, "") << "schedule " << find.word << "\n" << find.tail;
  if (find.fault.empty()) {
    EXPECT_EQ(find.schedules, kSchedules);
  }
  std::printf("seeds %#llx to %#llx, %llu steps each\n", static_cast<unsigned long long>(prey.seed),
              static_cast<unsigned long long>(prey.seed + find.schedules - 1),
              static_cast<unsigned long long>(find.steps / find.schedules));
}

TEST_P(Workloads, RunAgainAsTheyRan) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Prey prey{.workload = &GetParam(), .seed = seed};
    const Outcome first = replay(prey, false);
    const Outcome second = replay(prey, false);
    EXPECT_EQ(first.hash, second.hash) << GetParam().name << ", seed " << seed;
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_NE(first.hash, replay({.workload = &GetParam(), .seed = seed + 20}, false).hash);
  }
}

class Mutants : public ::testing::TestWithParam<Mutant> {};
INSTANTIATE_TEST_SUITE_P(Interleaving, Mutants, ::testing::ValuesIn(mutants().begin(), mutants().end()),
                         [](const auto& info) { return "Number" + std::to_string(info.param.number); });

TEST_P(Mutants, AreFound) {
  const Workload* workload = find_workload(GetParam().workload);
  ASSERT_NE(workload, nullptr) << GetParam().workload;
  for (uint64_t base = 1; base <= kBases; ++base) {
    const Find find = hunt({.workload = workload,
                            .mutant = GetParam().number,
                            .seed = seed_of_run() + (base << 32),
                            .schedules = kSchedules});
    EXPECT_NE(find.fault, "") << GetParam().place << " " << GetParam().mistake << ": survives " << kSchedules
                              << " schedules of " << workload->name << " from " << base << " << 32";
    std::printf("%s after %llu: %s\n", find.word.c_str(), static_cast<unsigned long long>(find.schedules),
                find.fault.c_str());
  }
}

// A schedule that ended with a fault does so again.
TEST(Interleaving, FaultsAreReplayed) {
  const Find find = hunt({.workload = find_workload("ringing"), .mutant = 1, .schedules = kSchedules});
  ASSERT_NE(find.fault, "");
  Prey prey;
  ASSERT_TRUE(parse(find.word, prey));
  EXPECT_EQ(prey.mutant, 1u);
  const Find again = hunt(prey);
  EXPECT_EQ(again.fault, find.fault);
  EXPECT_EQ(again.tail, find.tail);
  EXPECT_EQ(again.schedules, 1u);
}

TEST(Interleaving, Replay) {
  const char* word = std::getenv("LANYARD_INTERLEAVING");
  if (word == nullptr)
    GTEST_SKIP() << "LANYARD_INTERLEAVING names no schedule";
  Prey prey;
  ASSERT_TRUE(parse(word, prey)) << word << " is no WORKLOAD:SEED[:MUTANT]";
  const Outcome outcome = replay(prey, true);
  EXPECT_EQ(outcome.fault, "");
}

}  // namespace
}  // namespace lanyard::interleaving
