// What bench/cg finds of results that are right, and of such as are not.
#include "bench/cg_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "bench/mpi_process.h"
#include "bench/sparse_matrix.h"

namespace lanyard::bench {
namespace {

const MpiProcess* the_process = nullptr;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// A line of points, solved by one process with all rows.
class CgCheck : public testing::Test {
 protected:
  static constexpr double kTolerance = 1e-2;

  CgCheck()
      : problem_(std::make_unique<PoissonMatrix>(1, 200), &poisson_, CgProblem::Side::kUnit),
        partition_(RowPartition::blocks(200, the_process->ranks())),
        local_(local_matrix(problem_.matrix(), partition_, the_process->rank())) {
    claim_.tolerance = kTolerance;
    std::vector<double> x(200, 0), r(200);
    for (size_t row = 0; row < r.size(); ++row)
      r[row] = problem_.at(static_cast<int64_t>(row));
    std::vector<double> p = r;
    history_.push_back(dot(r, r));
    while (history_.back() > kTolerance * kTolerance * history_.front()) {
      const std::vector<double> product = multiply(p);
      const double alpha = history_.back() / dot(p, product);
      for (size_t i = 0; i < r.size(); ++i) {
        x[i] += alpha * p[i];
        r[i] -= alpha * product[i];
      }
      history_.push_back(dot(r, r));
      const double beta = history_.back() / history_[history_.size() - 2];
      for (size_t i = 0; i < r.size(); ++i)
        p[i] = r[i] + beta * p[i];
      ++state_.iterations;
    }
    for (const int64_t row : local_.rows)
      solution_.push_back(x[static_cast<size_t>(row)]);
  }
  std::vector<double> multiply(const std::vector<double>& p) const {
    std::vector<double> product(p.size(), 0);
    std::vector<MatrixEntry> entries;
    for (size_t row = 0; row < p.size(); ++row) {
      problem_.matrix().row(static_cast<int64_t>(row), entries);
      for (const MatrixEntry& entry : entries)
        product[row] += entry.value * p[static_cast<size_t>(entry.column)];
    }
    return product;
  }
  std::vector<std::string> mistakes() const {
    return check_cg(problem_, partition_, local_, claim_, state_, history_, solution_, *the_process).mistakes;
  }
  // The only one, which has those words.
  testing::AssertionResult finds(const std::string& words) const {
    const std::vector<std::string> found = mistakes();
    if (found.size() == 1 && found.front().find(words) != std::string::npos)
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << found.size()
                                       << " mistakes, the first one: " << (found.empty() ? "none" : found.front());
  }
  static bool is_last() { return the_process->rank() == the_process->ranks() - 1; }

  const PoissonMatrix poisson_{1, 200};
  const CgProblem problem_;
  const RowPartition partition_;
  const LocalMatrix local_;
  CgClaim claim_;
  CgState state_;
  std::vector<double> history_, solution_;
};

TEST_F(CgCheck, WhatIsRightHasNoMistakes) {
  EXPECT_EQ(mistakes(), std::vector<std::string>());
  claim_.iterations = state_.iterations;
  EXPECT_EQ(mistakes(), std::vector<std::string>());
}

// Of one row of one rank: the residuals of the solver's own recurrence do not tell.
TEST_F(CgCheck, AWrongSolutionIsFound) {
  if (is_last())
    solution_.back() += 0.1;
  EXPECT_TRUE(finds("the true relative residual is"));
  if (is_last())
    solution_.back() = std::nan("");
  EXPECT_TRUE(finds("the true relative residual is"));
}

TEST_F(CgCheck, AWrongResidualIsFound) {
  history_[3] *= 1 + 1e-8;
  EXPECT_TRUE(finds("the relative residual of iteration 3 is"));
}

TEST_F(CgCheck, TooFewIterationsAreFound) {
  history_.pop_back();
  --state_.iterations;
  const std::vector<std::string> found = mistakes();
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found.front().find("the relative residual is"), std::string::npos) << found.front();
}

TEST_F(CgCheck, AnotherNumberOfIterationsIsFound) {
  claim_.iterations = state_.iterations + 1;
  EXPECT_TRUE(finds("iterations, expected " + std::to_string(state_.iterations + 1)));
}

TEST_F(CgCheck, RanksThatDifferAreFound) {
  if (the_process->ranks() == 1)
    GTEST_SKIP() << "needs two ranks";
  if (is_last())
    history_[2] = std::nextafter(history_[2], 0);
  EXPECT_TRUE(finds("the ranks differ"));
}

TEST_F(CgCheck, TrialsThatDifferOnOneRankAreFound) {
  claim_.is_reproducible = !is_last();
  EXPECT_TRUE(finds("trials differ"));
}

TEST_F(CgCheck, AMatrixThatIsNotPositiveDefiniteIsFound) {
  state_.is_indefinite = 1;
  EXPECT_TRUE(finds("p.A p is not positive"));
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  const lanyard::bench::MpiProcess process(&argc, &argv);
  lanyard::bench::the_process = &process;
  testing::InitGoogleTest(&argc, argv);
  const bool passed = RUN_ALL_TESTS() == 0;
  return process.all(passed) ? 0 : 1;
}
