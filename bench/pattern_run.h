// One timed and checked run of a plan over all ranks, by one back end.
#ifndef LANYARD_BENCH_PATTERN_RUN_H_
#define LANYARD_BENCH_PATTERN_RUN_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/back_end.h"
#include "bench/mpi_process.h"
#include "bench/plan.h"
#include "bench/queue_info.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct PatternRunOptions {
  int iterations = 50;     // timed
  int warmup = 5;          // before them; checked only where all are
  int batch = 1;           // times that the plan is carried out in an iteration, before the host waits
  bool checks_all = true;  // else only the first and the last timed iteration are checked
};

struct PatternResult {
  std::string refusal;  // why the back end cannot run, on a rank that knows; nothing else is set then, on any
  bool is_refused = false;
  std::string library;
  std::vector<double> us;  // by iteration: once through the plan, of the slowest rank
  bool is_right = true;    // everything that was checked, on all ranks
  std::optional<EntryFigures> entries;
  QueueInfo nic;
};

// Collective. `name` is for the progress line and for what is said on stderr of the first wrong byte of each rank.
PatternResult run_plan(BackEndKind kind, const std::string& name, const Plan& plan, const PatternRunOptions& options,
                       const Streams& streams, const MpiProcess& process);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PATTERN_RUN_H_
