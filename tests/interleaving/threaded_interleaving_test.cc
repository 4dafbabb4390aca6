// ThreadedNic and its shared-memory wire in orders that seeds choose (tests/interleaving): nobody sleeps for ever
// beside work, nothing is lost or done twice, and nobody drives beside another.
//
// A fault comes with its schedule, one word. To see its steps:
//   LANYARD_INTERLEAVING=posting:1f bazel-bin/tests/interleaving/interleaving_test --gtest_filter=Interleaving.Replay
// LANYARD_INTERLEAVING_SEED=N tries other schedules than those of every run.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/interleaving/hunt.h"
#include "tests/interleaving/scheduler.h"
#include "tests/interleaving/workloads.h"

namespace lanyard::interleaving {
namespace {

constexpr uint64_t kSchedules = 4'000;  // of each workload

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

// A fault of the child process reaches this one, and its schedule ends with it again.
TEST(Interleaving, FaultsAreReplayed) {
  const Workload faulty{.name = "faulty", .naps = true, .run = [] { Scheduler::running()->fail("planted"); }};
  const Find find = hunt({.workload = &faulty, .seed = 0x1f, .schedules = kSchedules});
  EXPECT_EQ(find.fault, "planted");
  EXPECT_EQ(find.word, "faulty:1f");
  EXPECT_EQ(find.schedules, 1u);
  EXPECT_EQ(replay({.workload = &faulty, .seed = 0x1f}, false).fault, find.fault);
  Prey prey;
  ASSERT_TRUE(parse("ringing:1f", prey));
  EXPECT_EQ(prey.workload, find_workload("ringing"));
  EXPECT_EQ(prey.seed, 0x1fu);
  EXPECT_FALSE(parse(find.word, prey));
}

TEST(Interleaving, Replay) {
  const char* word = std::getenv("LANYARD_INTERLEAVING");
  if (word == nullptr)
    GTEST_SKIP() << "LANYARD_INTERLEAVING names no schedule";
  Prey prey;
  ASSERT_TRUE(parse(word, prey)) << word << " is no WORKLOAD:SEED";
  const Outcome outcome = replay(prey, true);
  EXPECT_EQ(outcome.fault, "");
}

}  // namespace
}  // namespace lanyard::interleaving
