#include "bench/cg_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lanyard::bench {
namespace {

// Of the closed form: relative for CG, absolute for pipelined CG, whose recurrences drift from what they stand for.
constexpr double kClosedFormTolerance = 1e-10;
// Below it pipelined CG's recurrence goes on converging, and x does not.
constexpr double kPipelinedAccuracy = 1e-6;
constexpr double kSlack = 0.01;      // of a tolerance that the residual of x may exceed
constexpr double kRounding = 1e-13;  // of the residual of x in any case

// x of all rows, by row.
std::vector<double> gather(const RowPartition& partition, const std::vector<double>& own) {
  const auto ranks = static_cast<size_t>(partition.ranks());
  std::vector<int> counts(ranks, 0), places(ranks, 0);
  std::vector<std::vector<int64_t>> rows;
  for (size_t rank = 0; rank < ranks; ++rank) {
    rows.push_back(partition.rows_of(static_cast<int>(rank)));
    counts[rank] = static_cast<int>(rows[rank].size());
    places[rank] = rank == 0 ? 0 : places[rank - 1] + counts[rank - 1];
  }
  std::vector<double> in_order(static_cast<size_t>(partition.rows())), by_row(in_order.size());
  check(MPI_Allgatherv(own.data(), static_cast<int>(own.size()), MPI_DOUBLE, in_order.data(), counts.data(),
                       places.data(), MPI_DOUBLE, MPI_COMM_WORLD),
        "MPI_Allgatherv");
  size_t next = 0;
  for (const std::vector<int64_t>& of_rank : rows)
    for (const int64_t row : of_rank)
      by_row[static_cast<size_t>(row)] = in_order[next++];
  return by_row;
}

struct Norms {
  double residual = 0, side = 0, error = 0, solution = 0;
};

Norms norms_of(const CgProblem& problem, const LocalMatrix& local, const std::vector<double>& x) {
  double squares[4] = {};
  std::vector<MatrixEntry> entries;
  for (const int64_t row : local.rows) {
    const double b = problem.at(row), expected = problem.solution(row).value_or(0);
    double rest = b;
    problem.matrix().row(row, entries);
    for (const MatrixEntry& entry : entries)
      rest -= entry.value * x[static_cast<size_t>(entry.column)];
    const double error = x[static_cast<size_t>(row)] - expected;
    const double values[4] = {rest, b, error, expected};
    for (size_t i = 0; i < 4; ++i)
      squares[i] += values[i] * values[i];
  }
  check(MPI_Allreduce(MPI_IN_PLACE, squares, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
  return {std::sqrt(squares[0]), std::sqrt(squares[1]), std::sqrt(squares[2]), std::sqrt(squares[3])};
}

bool agree(const std::vector<double>& history, const MpiProcess& process) {
  const auto length = static_cast<double>(history.size());
  if (!process.all(process.from_first(length) == length))
    return false;
  std::vector<double> first = history;
  check(MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return process.all(first == history);
}

void check_closed_form(const CgProblem& problem, const CgClaim& claim, const std::vector<double>& history,
                       CgFindings& findings) {
  std::optional<std::string> first;
  for (size_t n = 0; n < history.size(); ++n) {
    const std::optional<double> expected = problem.closed_form(static_cast<int64_t>(n));
    if (!expected)
      break;
    const double found = std::sqrt(history[n] / history[0]);
    const double difference = std::abs(found - *expected) / (claim.solver == CgSolver::kCg ? *expected : 1);
    findings.closed_form = std::max(findings.closed_form.value_or(0), difference);
    if (!(difference <= kClosedFormTolerance) && !first)
      first = fmt::format("the relative residual of iteration {} is {:.15g}, expected {:.15g} by the closed form", n,
                          found, *expected);
  }
  if (first)
    findings.mistakes.push_back(*first);
}

}  // namespace

CgFindings check_cg(const CgProblem& problem, const RowPartition& partition, const LocalMatrix& local,
                    const CgClaim& claim, const CgState& state, const std::vector<double>& history,
                    const std::vector<double>& solution, const MpiProcess& process) {
  CgFindings findings;
  const auto wrong = [&](bool is_wrong, const std::string& what) {
    if (is_wrong)
      findings.mistakes.push_back(what);
  };
  if (!agree(history, process)) {
    wrong(true, "the ranks differ in their residuals, expected the same on all");
    return findings;
  }
  if (history[0] == 0) {
    wrong(true, "the right-hand side is 0, so nothing was solved");
    return findings;
  }
  findings.relative_residual = std::sqrt(history.back() / history[0]);
  wrong(state.is_indefinite, fmt::format("after {} iterations p.A p is not positive, expected a matrix that is "
                                         "positive definite",
                                         state.iterations));
  wrong(!state.is_indefinite && !(findings.relative_residual <= claim.tolerance),
        fmt::format("the relative residual is {:.3g} after {} iterations, expected at most {:.3g}",
                    findings.relative_residual, state.iterations, claim.tolerance));
  const Norms norms = norms_of(problem, local, gather(partition, solution));
  findings.true_residual = norms.residual / norms.side;
  const double accuracy = claim.solver == CgSolver::kCg ? kRounding : kPipelinedAccuracy;
  const double allowed = std::max(claim.tolerance * (1 + kSlack), accuracy);
  wrong(findings.mistakes.empty() && !(findings.true_residual <= allowed),
        fmt::format("the true relative residual is {:.3g}, expected at most {:.3g}", findings.true_residual, allowed));
  if (problem.solution(0))
    findings.error = norms.error / norms.solution;
  check_closed_form(problem, claim, history, findings);
  const std::optional<int64_t> expected = claim.iterations ? claim.iterations : problem.iterations_to(claim.tolerance);
  wrong(expected && state.iterations != *expected,
        fmt::format("{} iterations, expected {}", state.iterations, expected.value_or(0)));
  wrong(!process.all(claim.is_reproducible), "trials differ in their residuals, expected the same in all");
  return findings;
}

}  // namespace lanyard::bench
