// Patterns on a modelled machine whose only cost is its cards' bandwidth, against CommBench's law
// (section 5.2.1).
#include "tools/lanyard/pattern_model.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "nicsim/modelled/engine.h"

namespace lanyard::tools {
namespace {

using namespace bench::patterns;  // NOLINT: all of it is under test

constexpr uint64_t kLong = uint64_t{1} << 30;
constexpr uint32_t kSteps = 20;

// Cards of 25 GB/s each way.
modelled::Machine machine(uint32_t ranks, uint32_t nics) {
  modelled::Machine machine = modelled::Machine::open("frontier").value();
  std::istringstream lines(machine.to_text());
  for (std::string line; std::getline(lines, line);)
    machine.set(line.substr(0, line.find(' ')), 0, "only bandwidth costs");
  machine.set("node.ranks", ranks, "test");
  machine.set("node.nics", nics, "test");
  machine.set("group.nodes", 1, "test");
  machine.set("nic.entries", 100'000, "test");
  machine.set("cpu.run_ahead", 64, "test");
  machine.set("nic.byte", 40, "25 GB/s");
  return machine;
}

// GB/s of all messages, modelled; and by the law.
struct Bandwidth {
  double modelled = 0, law = 0;
};

Bandwidth bandwidth(const Shape& shape, uint32_t nics, bool round_robin, bool ready) {
  const modelled::Machine costs = machine(static_cast<uint32_t>(shape.group), nics);
  PatternModel model{costs.placement(static_cast<uint32_t>(shape.group)), core::Strategy::kTargetCounter, ready, false};
  model.placement.round_robin = round_robin;
  const Plan plan({make_pattern(shape).value()});
  const auto job = make_pattern_job(plan, static_cast<uint32_t>(shape.nodes * shape.group), costs, model);
  EXPECT_TRUE(job.ok()) << job.status().message();
  const auto timing = modelled::run(job.value(), {.steps = kSteps});
  EXPECT_TRUE(timing.ok()) << timing.status().message();
  const auto rate = [&](modelled::Picoseconds time) {
    return static_cast<double>(plan.bytes()) * 1e3 / static_cast<double>(time);
  };
  return {rate(timing.value().ends.back()) * kSteps, rate(least_time(plan, costs, model.placement))};
}

TEST(PatternModel, GivesThePublishedBandwidths) {
  const double packed[] = {25, 25, 37.5, 50, 62.5, 75, 87.5, 100};  // two ranks a card
  for (int k = 1; k <= 8; ++k)
    EXPECT_NEAR(bandwidth({Family::kRail, Direction::kOut, 2, 8, k, kLong}, 4, false, false).modelled, packed[k - 1],
                1e-6 * packed[k - 1]);
  EXPECT_NEAR(bandwidth({Family::kRail, Direction::kOut, 2, 12, 9, kLong}, 8, true, false).modelled, 112.5, 1e-4);
  EXPECT_NEAR(bandwidth({Family::kRail, Direction::kOut, 2, 12, 8, kLong}, 8, true, false).modelled, 200, 1e-4);
}

TEST(PatternModel, FollowsTheLawWhereNoMessageWaitsBehindAnother) {
  for (const Direction direction : {Direction::kOut, Direction::kIn, Direction::kBi, Direction::kOmni})
    for (const bool round_robin : {false, true})
      for (const int k : {1, 3, 8, 12})
        for (const bool ready : {false, true}) {
          const Bandwidth rail = bandwidth({Family::kRail, direction, 3, 12, k, kLong}, 8, round_robin, ready);
          EXPECT_NEAR(rail.modelled, rail.law, 1e-6 * rail.law) << "k " << k;
          // Clear-to-sends of regular sends would wait behind messages.
          const Bandwidth dense =
              bandwidth({Family::kDense, direction, 2, 4, k / 3 + (k < 3), kLong}, 4, round_robin, true);
          EXPECT_NEAR(dense.modelled, dense.law, 1e-6 * dense.law) << "k " << k;
        }
}

TEST(PatternModel, IsNeverFasterThanTheLaw) {
  for (const Family family : {Family::kFan, Family::kDense})
    for (const Direction direction : {Direction::kOut, Direction::kIn, Direction::kBi})
      for (const bool round_robin : {false, true})
        for (const bool ready : {false, true}) {
          const Bandwidth found = bandwidth({family, direction, 3, 12, 7, kLong}, 8, round_robin, ready);
          EXPECT_LE(found.modelled, found.law * (1 + 1e-9));
          EXPECT_GE(found.modelled, found.law / 2);
        }
}

}  // namespace
}  // namespace lanyard::tools
