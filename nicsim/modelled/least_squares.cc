#include "nicsim/modelled/calibration.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <boost/numeric/ublas/lu.hpp>
#include <boost/numeric/ublas/matrix.hpp>
#include <boost/numeric/ublas/vector.hpp>
#include <cmath>
#include <limits>
#include <utility>

namespace lanyard::modelled {

namespace {

namespace ublas = boost::numeric::ublas;
using Matrix = ublas::matrix<double>;
using Vector = ublas::vector<double>;

// Differences are wide and to both sides: a step takes the longer of two chains. Near equal lengths
// the slope would be that of one chain only.
constexpr double kRelativeChange = 0.01, kLeastChange = 0.01;
// Start with short steps: a long one may make a chain the shorter of the two,
// which hides its figures.
constexpr double kFirstDamping = 1, kMoreDamping = 4, kLessDamping = 2.5, kMostDamping = 1e6;
constexpr double kLeastGain = 1e-5;

double sum_of_squares(const std::vector<double>& residuals, const std::vector<double>& weights) {
  double sum = 0;
  for (size_t i = 0; i < residuals.size(); ++i)
    sum += weights[i] * residuals[i] * residuals[i];
  return sum;
}

// By row and value.
Matrix jacobian(const LeastSquares& problem, const std::vector<double>& values) {
  Matrix slopes(problem.weights.size(), values.size());
  for (size_t k = 0; k < values.size(); ++k) {
    const double change = std::max(kLeastChange, kRelativeChange * values[k]);
    const double below = std::min(change, values[k]);
    std::vector<double> moved = values;
    moved[k] = values[k] + change;
    const std::vector<double> more = problem.residuals(moved);
    moved[k] = values[k] - below;
    const std::vector<double> less = problem.residuals(moved);
    for (size_t i = 0; i < more.size(); ++i)
      slopes(i, k) = (more[i] - less[i]) / (change + below);
  }
  return slopes;
}

// The matrix of the normal equations.
Matrix normal(const Matrix& slopes, const std::vector<double>& weights) {
  Matrix matrix = ublas::zero_matrix<double>(slopes.size2(), slopes.size2());
  for (size_t i = 0; i < slopes.size1(); ++i)
    for (size_t a = 0; a < slopes.size2(); ++a)
      for (size_t b = 0; b < slopes.size2(); ++b)
        matrix(a, b) += weights[i] * slopes(i, a) * slopes(i, b);
  return matrix;
}

// Returns false if the matrix is singular.
bool solve(Matrix matrix, Vector& right) {
  ublas::permutation_matrix<size_t> order(matrix.size1());
  if (ublas::lu_factorize(matrix, order) != 0)
    return false;
  ublas::lu_substitute(matrix, order, right);
  return true;
}

// Half the 95 % intervals. Infinite for a value that the rows do not determine.
std::vector<double> margins(const Matrix& slopes, const std::vector<double>& weights, double squares) {
  std::vector<double> margins(slopes.size2(), std::numeric_limits<double>::infinity());
  Matrix matrix = normal(slopes, weights);
  std::vector<size_t> determined;
  for (size_t k = 0; k < margins.size(); ++k)
    if (matrix(k, k) > 0)
      determined.push_back(k);
    else
      matrix(k, k) = 1;  // keeps the matrix regular and does not change the other values
  if (slopes.size1() <= determined.size())
    return margins;
  const double freedom = static_cast<double>(slopes.size1() - determined.size());
  const double quantile = boost::math::quantile(boost::math::students_t(freedom), 0.975);
  for (const size_t k : determined) {
    Vector unit = ublas::unit_vector<double>(margins.size(), k);
    if (solve(matrix, unit) && unit(k) > 0)
      margins[k] = quantile * std::sqrt(unit(k) * squares / freedom);
  }
  return margins;
}

}  // namespace

LeastSquares::Fit LeastSquares::fit(std::vector<double> start) const {
  Fit best{std::move(start), {}, {}};
  best.residuals = residuals(best.values);
  double squares = sum_of_squares(best.residuals, weights);
  double damping = kFirstDamping;
  Matrix slopes = jacobian(*this, best.values);
  for (int step = 0; step < most_steps && damping < kMostDamping;) {
    Matrix matrix = normal(slopes, weights);
    Vector right = ublas::zero_vector<double>(best.values.size());
    for (size_t k = 0; k < best.values.size(); ++k) {
      for (size_t i = 0; i < best.residuals.size(); ++i)
        right(k) -= weights[i] * slopes(i, k) * best.residuals[i];
      matrix(k, k) = matrix(k, k) * (1 + damping) + 1e-12;
    }
    std::vector<double> values = best.values;
    if (solve(matrix, right))
      for (size_t k = 0; k < values.size(); ++k)
        values[k] = std::max(0.0, values[k] + right(k));
    std::vector<double> there = residuals(values);
    const double less = sum_of_squares(there, weights);
    if (less >= squares) {
      damping *= kMoreDamping;
      continue;
    }
    const bool converged = less > squares * (1 - kLeastGain);
    best.values = std::move(values);
    best.residuals = std::move(there);
    squares = less;
    damping /= kLessDamping;
    ++step;
    slopes = jacobian(*this, best.values);
    if (converged)
      break;
  }
  best.margins = modelled::margins(slopes, weights, squares);
  return best;
}

}  // namespace lanyard::modelled
