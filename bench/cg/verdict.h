// Whether a solve was right, by other ways than it went. No MPI.
#ifndef LANYARD_BENCH_CG_VERDICT_H_
#define LANYARD_BENCH_CG_VERDICT_H_

#include <cstdint>
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

Verdict judge(const Problem& problem, const Outcome& outcome);

// The iterations that the problem takes, where they are known.
std::optional<int64_t> known_iterations(const Problem& problem, bool is_pipelined, double tolerance);

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_VERDICT_H_
