// Timed runs of conjugate gradients over all ranks, in one mode.
#ifndef LANYARD_BENCH_CG_RUN_H_
#define LANYARD_BENCH_CG_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/cg_check.h"
#include "bench/cg_loop.h"
#include "bench/cg_problem.h"
#include "bench/mpi_process.h"
#include "bench/queue_info.h"
#include "bench/row_partition.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct CgRunOptions {
  double tolerance = 1e-6;
  int64_t most_iterations = 0;
  int64_t check_every = 0;  // where the host does not send: iterations enqueued before it looks
  int trials = 1;
  int64_t warmup = 0;                          // iterations before the trials, which begin anew
  int64_t measured = 0;                        // iterations whose work is timed piece by piece, after the trials
  std::optional<int64_t> expected_iterations;  // else a wrong result
};

// The system, and this rank's part of it.
struct CgSystem {
  const CgProblem& problem;
  const RowPartition& partition;
  const LocalMatrix local;
  const std::vector<double> side;  // b, of the own rows
};

struct CgResult {
  std::string refusal;  // why the mode cannot run, on a rank that knows; nothing else is set then, on any
  bool is_refused = false;
  std::string nccl;             // its version, where it is used
  std::vector<double> seconds;  // of each trial, of the slowest rank
  int64_t iterations = 0;
  int64_t enqueued = 0;  // iterations of a trial, those included that came too late to change anything
  CgFindings findings;   // of the last trial
  std::optional<CgSeconds> us_per_iteration;  // of the slowest rank, by work, each awaited by the host
  std::optional<EntryFigures> entries;        // stream modes, over the trials
  QueueInfo nic;                              // of this rank, after the trials
};

// Collective. `name` is for the progress line.
CgResult run_cg(const CgMethod& method, const std::string& name, const CgRunOptions& options, const CgSystem& system,
                const Streams& streams, const MpiProcess& process);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_CG_RUN_H_
