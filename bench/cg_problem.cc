#include "bench/cg_problem.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lanyard::bench {

CgProblem::CgProblem(std::unique_ptr<const SparseMatrix> matrix, const PoissonMatrix* poisson, Side side)
    : matrix_(std::move(matrix)), poisson_(poisson), side_(side) {
  matrix_->row(matrix_->centre(), column_);  // which is the column too
}

double CgProblem::at(int64_t row) const {
  if (side_ == Side::kOnes)
    return 1;
  const auto entry = std::lower_bound(column_.begin(), column_.end(), row,
                                      [](const MatrixEntry& e, int64_t column) { return e.column < column; });
  return entry != column_.end() && entry->column == row ? entry->value : 0;
}

std::optional<double> CgProblem::solution(int64_t row) const {
  if (side_ == Side::kUnit)
    return row == matrix_->centre() ? 1 : 0;
  if (poisson_ == nullptr || poisson_->dimensions() != 1)
    return std::nullopt;
  return static_cast<double>(row + 1) * static_cast<double>(poisson_->side() - row) / 2;
}

// The residual of n iterations is that of the infinite line while it ends within the line: n + 1 points from the
// middle.
std::optional<double> CgProblem::closed_form(int64_t iterations) const {
  if (poisson_ == nullptr || poisson_->dimensions() != 1 || side_ != Side::kUnit)
    return std::nullopt;
  const int64_t centre = matrix_->centre();
  if (iterations + 1 > std::min(centre, matrix_->rows() - 1 - centre))
    return std::nullopt;
  const auto n = static_cast<double>(iterations);
  return iterations == 0 ? 1 : std::sqrt(3.0) / 2 / ((n + 1) * std::sqrt((n + 0.5) * (n + 1.5)));
}

std::optional<int64_t> CgProblem::iterations_to(double tolerance) const {
  // By symmetry the line has half as many residuals that are independent, and no fewer are enough.
  if (poisson_ != nullptr && poisson_->dimensions() == 1 && side_ == Side::kOnes)
    return (poisson_->side() + 1) / 2;
  for (int64_t n = 0;; ++n) {
    const std::optional<double> residual = closed_form(n);
    if (!residual || *residual <= tolerance)
      return residual ? std::optional<int64_t>(n) : std::nullopt;
  }
}

}  // namespace lanyard::bench
