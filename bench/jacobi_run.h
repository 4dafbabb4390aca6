// One timed run of Jacobi's method over all ranks, in one mode.
#ifndef LANYARD_BENCH_JACOBI_RUN_H_
#define LANYARD_BENCH_JACOBI_RUN_H_

#include <string>
#include <vector>

#include "bench/halo_run.h"
#include "bench/jacobi_layout.h"
#include "bench/jacobi_oracle.h"
#include "bench/mpi_process.h"
#include "bench/neighbour_exchange.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct JacobiRunOptions {
  HaloRunOptions halo;
  bool computes = true;  // else steps are their halo exchanges alone
  bool verifies = true;
};

template <class T>
struct JacobiResult : HaloRunResult {
  std::vector<T> grid;  // rank 0: what all ranks have at the end, if it is to be verified
  std::string wrong;    // of a run without computing, on a rank that has a wrong ghost or cell
};

// Collective. `what` is for the progress line.
template <class T>
JacobiResult<T> run_jacobi(HaloMode mode, const std::string& what, const JacobiRunOptions& options,
                           const JacobiLayout& layout, const JacobiProblem& problem, const Streams& streams,
                           const MpiProcess& process);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_JACOBI_RUN_H_
