// The bandwidth that cards allow a pattern: the paper's figures and formulas, and the modelled engine, whose cards have
// serial transmit and receive sides and nothing else that takes time here.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "bench/nic_binding.h"
#include "bench/pattern_families.h"
#include "nicsim/modelled/engine.h"
#include "nicsim/modelled/step_builder.h"

namespace lanyard::bench {
namespace {

constexpr double kNic = 25;  // GB/s

Pattern pattern(int group, int subgroup, Family family, Direction direction, uint64_t bytes) {
  Result<Pattern> made = make_pattern({2, group, subgroup, family, direction, bytes});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? made.value() : Pattern();
}
double rails(int group, int subgroup, const NicBinding& binding) {
  return bandwidth(pattern(group, subgroup, Family::kRail, Direction::kOut, 1000), binding, kNic).value_or(0);
}

TEST(NicBinding, DealsPlacesToCards) {
  const NicBinding packed = NicBinding::packed(6, 4), in_turn = NicBinding::round_robin(6, 4);
  std::vector<int> by_packed, by_turn;
  for (int rank = 0; rank < 12; ++rank) {
    by_packed.push_back(packed.nic(rank));
    by_turn.push_back(in_turn.nic(rank));
    EXPECT_EQ(packed.node(rank), rank / 6);
  }
  EXPECT_EQ(by_packed, (std::vector<int>{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(by_turn, (std::vector<int>{0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(packed.nics(), 2);
  EXPECT_EQ(in_turn.nics(), 4);
}

TEST(BandwidthLaw, GivesThePapersFigures) {
  const std::vector<double> expected = {25, 25, 37.5, 50, 62.5, 75, 87.5, 100};
  for (int k = 1; k <= 8; ++k)
    EXPECT_DOUBLE_EQ(rails(8, k, NicBinding::packed(8, 2)), expected[static_cast<size_t>(k - 1)]) << k;
  EXPECT_DOUBLE_EQ(rails(12, 9, NicBinding::round_robin(12, 8)), 112.5);
}

TEST(BandwidthLaw, IsThePapersEquationsForRailsAndFans) {
  const auto rounded_up = [](int a, int b) { return (a + b - 1) / b; };
  for (int group = 1; group <= 12; ++group)
    for (int k = 1; k <= group; ++k)
      for (int cards = 1; cards <= group; ++cards) {
        const double packed = kNic * (1 + std::max(0, k - cards) / static_cast<double>(cards));
        const double in_turn = kNic * k / rounded_up(k, cards);
        const double receivers = kNic * group / rounded_up(group, cards);
        for (const Family family : {Family::kRail, Family::kFan}) {
          const Pattern p = pattern(group, k, family, Direction::kOut, 1000);
          EXPECT_DOUBLE_EQ(bandwidth(p, NicBinding::packed(group, cards), kNic).value_or(0), packed);
          EXPECT_DOUBLE_EQ(bandwidth(p, NicBinding::round_robin(group, cards), kNic).value_or(0),
                           family == Family::kRail ? in_turn : std::min(in_turn, receivers));
        }
      }
}

TEST(BandwidthLaw, CountsBothWaysOfACardApart) {
  const NicBinding binding = NicBinding::packed(4, 2);
  EXPECT_DOUBLE_EQ(bandwidth(pattern(4, 4, Family::kRail, Direction::kBi, 9), binding, kNic).value_or(0), 100);
  EXPECT_FALSE(bandwidth(pattern(4, 4, Family::kSelf, Direction::kOut, 9), binding, kNic));
}

// The pattern as one step of matched ready sends, on cards that take 40 ps a byte each way.
modelled::Picoseconds modelled_time(const Pattern& pattern, int group, int nics, modelled::NicDeal deal) {
  modelled::Costs costs;
  costs.transmit_byte = 40'000;
  modelled::JobBuilder job(
      costs,
      {.ranks_per_node = static_cast<uint32_t>(group), .nics_per_node = static_cast<uint32_t>(nics), .deal = deal});
  const size_t ranks = static_cast<size_t>(2 * group);
  // Requests are numbered in the order of the messages.
  std::vector<uint32_t> next(ranks);
  std::vector<std::pair<uint32_t, uint32_t>> numbers;
  for (const Message& m : pattern.messages()) {
    const uint32_t send = next[static_cast<size_t>(m.source)]++;
    numbers.emplace_back(send, next[static_cast<size_t>(m.destination)]++);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    modelled::StepBuilder step(core::Strategy::kTargetCounter, false);
    std::vector<uint32_t> requests;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const Message& m = pattern.messages()[i];
      if (static_cast<size_t>(m.source) == rank)
        requests.push_back(step.send(m.bytes, true, {static_cast<uint32_t>(m.destination), numbers[i].second}));
      if (static_cast<size_t>(m.destination) == rank)
        requests.push_back(step.receive(m.bytes, true, {static_cast<uint32_t>(m.source), numbers[i].first}));
    }
    step.start(requests);
    step.wait(requests);
    EXPECT_TRUE(job.add(step).ok());
  }
  const modelled::Job made = job.take();
  const Result<modelled::Timing> run = modelled::run(made, {.steps = 1});
  EXPECT_TRUE(run.ok()) << run.status().message();
  return run.ok() ? run.value().ends.back() : 0;
}

TEST(BandwidthLaw, IsWhatTheModelledEngineTakesForRails) {
  constexpr uint64_t bytes = 1 << 20;
  for (const Direction direction : {Direction::kOut, Direction::kIn, Direction::kBi})
    for (const int group : {4, 8, 12})
      for (int k = 1; k <= group; ++k) {
        const Pattern p = pattern(group, k, Family::kRail, direction, bytes);
        for (int nics = 1; nics <= group; ++nics) {
          EXPECT_EQ(modelled_time(p, group, nics, modelled::NicDeal::kInTurn),
                    static_cast<int64_t>(40 * nic_load(p, NicBinding::round_robin(group, nics)).most));
          if (group % nics == 0) {  // else the engine's portions are not those of the binding
            EXPECT_EQ(modelled_time(p, group, nics, modelled::NicDeal::kPortions),
                      static_cast<int64_t>(40 * nic_load(p, NicBinding::packed(group, group / nics)).most));
          }
        }
      }
}

// Where several cards send to one, what comes first may keep it from what it could have had meanwhile: the law is a
// bound, and it is reached where one card alone sends.
TEST(BandwidthLaw, BoundsTheModelledEngineForFansAndDensePatterns) {
  constexpr uint64_t bytes = 1 << 16;
  for (const Family family : {Family::kFan, Family::kDense})
    for (int k = 1; k <= 8; ++k) {
      const Pattern p = pattern(8, k, family, Direction::kOut, bytes);
      const auto least = static_cast<int64_t>(40 * nic_load(p, NicBinding::packed(8, 2)).most);
      const modelled::Picoseconds time = modelled_time(p, 8, 4, modelled::NicDeal::kPortions);
      EXPECT_GE(time, least);
      EXPECT_LE(time, 2 * least);
      if (k <= 2) {
        EXPECT_EQ(time, least);
      }
    }
}

}  // namespace
}  // namespace lanyard::bench
