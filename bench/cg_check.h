// Checks what conjugate gradients have found, by other ways than they go.
#ifndef LANYARD_BENCH_CG_CHECK_H_
#define LANYARD_BENCH_CG_CHECK_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/cg_loop.h"
#include "bench/cg_problem.h"
#include "bench/local_matrix.h"
#include "bench/mpi_process.h"
#include "bench/row_partition.h"

namespace lanyard::bench {

struct CgFindings {
  double relative_residual = 0;       // by the recurrence, of the last iteration
  double true_residual = 0;           // of b - A x, relative to b
  std::optional<double> error;        // of x, relative to the solution: a figure, as the true residual bounds it
  std::optional<double> closed_form;  // the largest difference of a residual to it
  std::vector<std::string> mistakes;  // the same on all ranks; empty: all is right
};

struct CgClaim {
  CgSolver solver = CgSolver::kCg;
  double tolerance = 0;
  std::optional<int64_t> iterations;  // that it must have taken
  bool is_reproducible = true;        // all trials had the same residuals
};

// `history`: r.r after 0, 1, ... iterations; `solution`: of the own rows. The residual of x is calculated from the
// matrix itself, row by row, with all ranks' values of x gathered: without parts, halo, or kernels. Collective over
// MPI_COMM_WORLD.
CgFindings check_cg(const CgProblem& problem, const RowPartition& partition, const LocalMatrix& local,
                    const CgClaim& claim, const CgState& state, const std::vector<double>& history,
                    const std::vector<double>& solution, const MpiProcess& process);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_CG_CHECK_H_
