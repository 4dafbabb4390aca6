// What bench/cg says of outcomes that are right, and of such as are not.
#include "bench/cg/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "bench/cg/work.h"

namespace lanyard::bench::cg {
namespace {

using Values = std::vector<double>;

double dot(const Values& a, const Values& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

class VerdictTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 200;
  static constexpr double kTolerance = 1e-2;

  // The line, solved by plain CG.
  void SetUp() override {
    problem_ = {poisson(1, kRows), Values(kRows, 0), 1, kRows, "unit"};
    const auto centre = static_cast<size_t>(problem_.matrix.centre);
    problem_.b[centre - 1] = problem_.b[centre + 1] = -1;
    problem_.b[centre] = 2;
    outcome_.tolerance = kTolerance;
    Values &x = outcome_.x = Values(kRows, 0), r = problem_.b, p = r;
    std::vector<double>& squares = outcome_.squares = {dot(r, r)};
    while (squares.back() > kTolerance * kTolerance * squares.front()) {
      const Values t = product(p);
      const double alpha = squares.back() / dot(p, t);
      for (size_t i = 0; i < kRows; ++i) {
        x[i] += alpha * p[i];
        r[i] -= alpha * t[i];
      }
      squares.push_back(dot(r, r));
      for (size_t i = 0; i < kRows; ++i)
        p[i] = r[i] + squares.back() / *(squares.end() - 2) * p[i];
    }
  }
  Values product(const Values& p) const {
    Values t(p.size(), 0);
    std::vector<Entry> entries;
    for (size_t row = 0; row < p.size(); ++row) {
      problem_.matrix.row(static_cast<int64_t>(row), entries);
      for (const Entry& entry : entries)
        t[row] += entry.value * p[static_cast<size_t>(entry.column)];
    }
    return t;
  }
  std::string wrong() const { return judge(problem_, outcome_).wrong; }
  testing::AssertionResult says(const std::string& words) const {
    const std::string what = wrong();
    return (what.find(words) != std::string::npos ? testing::AssertionSuccess() : testing::AssertionFailure()) << what;
  }

  Problem problem_;
  Outcome outcome_;
};

TEST_F(VerdictTest, FindsNothingWrongWithWhatIsRight) {
  const Verdict verdict = judge(problem_, outcome_);
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_EQ(outcome_.squares.size() - 1, 9u);
  EXPECT_NEAR(verdict.residual, std::sqrt(3.0) / 2 / (10 * std::sqrt(9.5 * 10.5)), 1e-12);
  EXPECT_NEAR(verdict.true_residual, verdict.residual, 1e-12);
}

TEST_F(VerdictTest, JudgesTheTrueResidual) {
  outcome_.x[7] += 0.1;
  EXPECT_TRUE(says("converged by its recursion only"));
  EXPECT_TRUE(says("(b - A x)[7] is -0.2"));
  outcome_.x[7] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(says("converged by its recursion only"));
}

TEST_F(VerdictTest, ComparesResidualsWithTheClosedForm) {
  outcome_.squares[3] *= 1 + 1e-9;
  EXPECT_TRUE(says("the residual of iteration 3 is"));
  outcome_.is_pipelined = true;  // which may drift
  EXPECT_EQ(wrong(), "");
}

TEST_F(VerdictTest, CountsIterations) {
  outcome_.squares.push_back(outcome_.squares.back() / 2);
  EXPECT_TRUE(says("10 iterations, expected 9"));
  outcome_.squares.resize(9);
  EXPECT_TRUE(says("not converged: the residual is"));
  outcome_.is_broken = true;
  EXPECT_TRUE(says("p.A p is not positive after 8 iterations"));
}

TEST_F(VerdictTest, OfAFixedNumberOfIterations) {
  outcome_.tolerance = 0;
  EXPECT_EQ(wrong(), "");
  outcome_.x[7] += 1e-3;
  EXPECT_TRUE(says("its recursion has drifted"));
}

// The exact solution of the line with b = 1.
TEST_F(VerdictTest, OfOnes) {
  problem_.rhs = "ones";
  problem_.b = Values(kRows, 1);
  for (int64_t i = 1; i <= kRows; ++i)
    outcome_.x[static_cast<size_t>(i - 1)] = static_cast<double>(i * (kRows + 1 - i)) / 2;
  outcome_.tolerance = 1e-6;
  outcome_.squares = Values(kRows / 2 + 1, kRows);
  outcome_.squares.back() = 0;
  EXPECT_EQ(wrong(), "");
  EXPECT_EQ(judge(problem_, outcome_).true_residual, 0);
  outcome_.squares.push_back(0);
  EXPECT_TRUE(says("101 iterations, expected 100"));
  problem_.b = Values(kRows, 0);
  EXPECT_TRUE(says("b is 0"));
}

// Published, and by PETSc.
TEST_F(VerdictTest, KnowsCounts) {
  problem_ = {poisson(1, 2000), {}, 1, 2000, "unit"};
  for (const auto& [tolerance, count] : {std::pair(1e-3, 29), {1e-4, 93}, {1e-5, 294}, {1e-6, 930}})
    for (const bool is_pipelined : {false, true})
      EXPECT_EQ(known_iterations(problem_, is_pipelined, tolerance), count);
  EXPECT_EQ(known_iterations({poisson(1, 1800), {}, 1, 1800, "unit"}, false, 1e-6), std::nullopt);
  EXPECT_EQ(known_iterations({poisson(1, 1999), {}, 1, 1999, "ones"}, false, 1e-6), 1000);
  EXPECT_EQ(known_iterations({poisson(1, 1999), {}, 1, 1999, "ones"}, false, 1e-3), std::nullopt);
  EXPECT_EQ(known_iterations({poisson(2, 512), {}, 2, 512, "unit"}, true, 1e-6), 332);
  EXPECT_EQ(known_iterations({poisson(2, 512), {}, 2, 512, "unit"}, true, 1e-5), std::nullopt);
  EXPECT_EQ(known_iterations({poisson(2, 512), {}, 2, 512, "ones"}, true, 1e-6), std::nullopt);
}

// Their table has 1.5985e13 flop for the line of 2^30 points, and 930 iterations.
TEST(Work, IsCountedAsPublished) {
  constexpr int64_t m = int64_t{1} << 30, nonzeros = 3 * m - 2, k = 930;
  double flops = 0;
  for (const Work& work : work_of(false, m, nonzeros, k))
    flops += work.flops;
  EXPECT_NEAR(flops, 1.5985e13, 0.0001e13);
  const std::vector<Work> pipelined = work_of(true, m, nonzeros, k);
  EXPECT_EQ(pipelined[0].calls, k + 2);
  EXPECT_EQ(pipelined[1].calls, k);
  EXPECT_EQ(pipelined[2].calls, k + 1);
  EXPECT_EQ(pipelined[3].calls, 6 * k);
  EXPECT_EQ(pipelined[0].bytes, 20.0 * (nonzeros + m) * (k + 2));
}

}  // namespace
}  // namespace lanyard::bench::cg
