// Whether a solve was right, by other ways than it went, and what it took. No MPI.
#ifndef LANYARD_BENCH_CG_VERDICT_H_
#define LANYARD_BENCH_CG_VERDICT_H_

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "bench/cg/matrix.h"

namespace lanyard::bench::cg {

struct Problem {
  Matrix matrix;
  std::vector<double> b;
  int dimensions = 0;  // of a Poisson problem with n points a side; 0: it is another matrix
  int64_t n = 0;
  std::string rhs;  // unit: b is A's column at its centre; ones; or anything else
};

// What a solver says that it did.
struct Outcome {
  bool is_pipelined = false;
  double tolerance = 0;         // 0: it was to make a fixed number of iterations
  bool is_broken = false;       // p.A p was not positive
  std::vector<double> squares;  // r.r after 0, 1, ... iterations, by its recursion
  std::vector<double> x;
};

struct Verdict {
  double residual = 0;       // |r| / |r0| by recursion
  double true_residual = 0;  // |b - A x| / |b|
  std::string wrong;         // empty: all is right
};

// The relative residual after some iterations on a line with rhs "unit". It equals that of an
// infinite line until it meets an end. Nothing where it is not known.
inline std::optional<double> known_residual(const Problem& problem, int64_t iterations) {
  const int64_t to_end = std::min(problem.matrix.centre, problem.matrix.rows - 1 - problem.matrix.centre);
  if (problem.dimensions != 1 || problem.rhs != "unit" || iterations + 1 > to_end)
    return std::nullopt;
  const auto n = static_cast<double>(iterations);
  return iterations == 0 ? 1 : std::sqrt(3.0) / 2 / ((n + 1) * std::sqrt((n + 0.5) * (n + 1.5)));
}

// The iterations that the problem takes, where they are known.
inline std::optional<int64_t> known_iterations(const Problem& problem, bool is_pipelined, double tolerance) {
  constexpr double kTight = 1e-6;
  // Of squares and cubes. PETSc (KSPCG, KSPPIPECG) takes as many iterations, for all but the last.
  constexpr struct {
    int dimensions;
    int64_t n, iterations;
  } kCounts[] = {{2, 32, 68}, {2, 256, 320}, {2, 512, 332}, {3, 16, 43}, {3, 64, 111}, {3, 128, 181}, {3, 192, 163}};
  if (problem.dimensions == 1 && problem.rhs == "ones" && !is_pipelined && tolerance <= kTight)
    return (problem.n + 1) / 2;
  for (int64_t n = 0; const std::optional<double> residual = known_residual(problem, n); ++n)
    if (*residual <= tolerance)
      return n;
  for (const auto& known : kCounts)
    if (known.dimensions == problem.dimensions && known.n == problem.n && problem.rhs == "unit" && tolerance == kTight)
      return known.iterations;
  return std::nullopt;
}

// b - A x.
inline std::vector<double> true_residual(const Problem& problem, const std::vector<double>& x) {
  std::vector<double> r = problem.b;
  std::vector<Entry> entries;
  for (size_t row = 0; row < r.size(); ++row) {
    problem.matrix.row(static_cast<int64_t>(row), entries);
    for (const Entry& entry : entries)
      r[row] -= entry.value * x[static_cast<size_t>(entry.column)];
  }
  return r;
}

inline double norm(const std::vector<double>& v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

// The row in which most is wrong.
inline size_t worst(const std::vector<double>& r) {
  return static_cast<size_t>(
      std::max_element(r.begin(), r.end(),
                       [](double a, double b) { return std::isnan(b) || std::abs(a) < std::abs(b); }) -
      r.begin());
}

inline std::string wrong_history(const Problem& problem, const Outcome& outcome) {
  // Relative for CG; absolute for pipelined CG, whose recursions drift.
  constexpr double kAllowed = 1e-10;
  for (size_t n = 0; n < outcome.squares.size(); ++n) {
    const std::optional<double> expected = known_residual(problem, static_cast<int64_t>(n));
    if (!expected)
      break;
    const double found = std::sqrt(outcome.squares[n] / outcome.squares[0]);
    if (!(std::abs(found - *expected) <= kAllowed * (outcome.is_pipelined ? 1 : *expected)))
      return fmt::format("the residual of iteration {} is {:.15g}, expected {:.15g}", n, found, *expected);
  }
  return "";
}

inline Verdict judge(const Problem& problem, const Outcome& outcome) {
  constexpr double kSlack = 1.01;  // of the tolerance, for the true residual
  constexpr double kDrift = 1e-6;  // between both residuals, after a fixed number of iterations
  const double side = norm(problem.b);
  if (side == 0)
    return {.wrong = "b is 0: nothing was solved"};
  const auto iterations = static_cast<int64_t>(outcome.squares.size()) - 1;
  const std::vector<double> r = true_residual(problem, outcome.x);
  Verdict verdict{std::sqrt(outcome.squares.back() / outcome.squares.front()), norm(r) / side, ""};
  const bool is_fixed = outcome.tolerance == 0;
  const std::optional<int64_t> expected =
      is_fixed ? std::nullopt : known_iterations(problem, outcome.is_pipelined, outcome.tolerance);
  if (outcome.is_broken)
    verdict.wrong = fmt::format("p.A p is not positive after {} iterations: A is not positive definite{}", iterations,
                                outcome.is_pipelined ? ", or rounding has spoilt the recursions" : "");
  else if (!is_fixed && !(verdict.residual <= outcome.tolerance))
    verdict.wrong = fmt::format("not converged: the residual is {:.3g} after {} iterations, expected {:.3g}",
                                verdict.residual, iterations, outcome.tolerance);
  else if (!(verdict.true_residual <= (is_fixed ? verdict.residual + kDrift : kSlack * outcome.tolerance)))
    verdict.wrong = fmt::format(
        "{}: the residual is {:.2g} after {} iterations, but |b - A x| / |b| is {:.2g}; (b - A x)[{}] is {:.3g}",
        is_fixed ? "its recursion has drifted" : "converged by its recursion only", verdict.residual, iterations,
        verdict.true_residual, worst(r), r[worst(r)]);
  else if (expected && iterations != *expected)
    verdict.wrong = fmt::format("{} iterations, expected {}", iterations, *expected);
  else
    verdict.wrong = wrong_history(problem, outcome);
  return verdict;
}

// All calls of one kind of operation, of all ranks.
struct Work {
  const char* name;
  int64_t calls;
  double flops, bytes;
};

// The operations of a solve (Trotter et al., section 4).
inline std::vector<Work> work_of(bool is_pipelined, int64_t rows, int64_t nonzeros, int64_t iterations) {
  const auto m = static_cast<double>(rows), nnz = static_cast<double>(nonzeros);
  const auto work = [](const char* name, int64_t calls, double flops, double bytes) {
    return Work{name, calls, flops * static_cast<double>(calls), bytes * static_cast<double>(calls)};
  };
  return {work("SpMV", iterations + (is_pipelined ? 2 : 1), 2 * nnz, 20 * (nnz + m)),
          work("DOT", iterations, 2 * m, 16 * m), work("NRM2", iterations + 1, 2 * m, 8 * m),
          work("AXPY", iterations * (is_pipelined ? 6 : 3), 2 * m, 24 * m)};
}

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_VERDICT_H_
