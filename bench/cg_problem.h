// CgProblem: the linear system, whose solution is known, and what its solver must come to. No MPI.
#ifndef LANYARD_BENCH_CG_PROBLEM_H_
#define LANYARD_BENCH_CG_PROBLEM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/sparse_matrix.h"

namespace lanyard::bench {

class CgProblem {
 public:
  enum class Side {
    kUnit,  // b = A x, with x the unit vector in the middle
    kOnes,  // b = 1
  };
  // `poisson`: the same matrix, if it is one.
  CgProblem(std::unique_ptr<const SparseMatrix> matrix, const PoissonMatrix* poisson, Side side);

  const SparseMatrix& matrix() const { return *matrix_; }
  // Of the right-hand side.
  double at(int64_t row) const;
  // Of the solution; nothing where it is not known.
  std::optional<double> solution(int64_t row) const;

  // The relative residual after so many iterations of CG, by a closed form; nothing where there is none, or it does not
  // hold so far: of tridiag(-1, 2, -1) with the unit vector, as long as nothing has reached an end of the line.
  std::optional<double> closed_form(int64_t iterations) const;
  // How many iterations CG must take, likewise: to a relative residual of `tolerance`.
  std::optional<int64_t> iterations_to(double tolerance) const;

 private:
  const std::unique_ptr<const SparseMatrix> matrix_;
  const PoissonMatrix* const poisson_;
  const Side side_;
  std::vector<MatrixEntry> column_;  // of the matrix, in the middle
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_CG_PROBLEM_H_
