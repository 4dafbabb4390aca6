// The figures that benchmarks make of their trials.
#include <gtest/gtest.h>

#include <vector>

#include "bench/statistics.h"

namespace lanyard::bench {
namespace {

TEST(Estimate, OfOneTrialHasNoInterval) {
  const Estimate one = estimate(std::vector<double>{3});
  EXPECT_EQ(one.mean, 3);
  EXPECT_EQ(one.min, 3);
  EXPECT_FALSE(one.ci95);
}

// Tables have 12.706 and 2.776 for one and for four degrees of freedom.
TEST(Estimate, IntervalsAreByStudentsT) {
  const Estimate two = estimate(std::vector<double>{1, 3});
  EXPECT_EQ(two.mean, 2);
  EXPECT_NEAR(two.ci95.value(), 12.706, 0.001);
  const Estimate five = estimate(std::vector<double>{5, 4, 3, 2, 1});
  EXPECT_EQ(five.mean, 3);
  EXPECT_EQ(five.min, 1);
  EXPECT_NEAR(five.ci95.value(), 2.776 * 0.70711, 0.001);
}

TEST(Percentile, IsTheLeastThatEnoughSamplesDoNotExceed) {
  EXPECT_EQ(percentile({7}, 50), 7);
  EXPECT_EQ(percentile({7}, 99), 7);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 50), 2);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 51), 3);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 100), 4);
  std::vector<double> many;
  for (int i = 200; i > 0; --i)
    many.push_back(i);
  EXPECT_EQ(percentile(many, 50), 100);
  EXPECT_EQ(percentile(many, 99), 198);
}

}  // namespace
}  // namespace lanyard::bench
