// One timed run of the Game of Life over all ranks, in one mode.
#ifndef LANYARD_BENCH_LIFE_RUN_H_
#define LANYARD_BENCH_LIFE_RUN_H_

#include <optional>

#include "bench/cartesian_layout.h"
#include "bench/life.h"
#include "bench/mpi_process.h"
#include "bench/neighbour_exchange.h"
#include "bench/queue_info.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct LifeRunOptions {
  long steps = 0;
  long warmup = 0;  // steps before the timed ones, from the same start
  long batch = 12;  // stream modes: steps enqueued before the host waits
  bool gather_result = true;
};

struct LifeResult {
  double seconds = 0;  // of the slowest rank
  double us_per_step(long steps) const { return seconds * 1e6 / static_cast<double>(steps); }
  std::optional<EntryFigures> entries;  // stream modes, over the timed steps
  QueueInfo nic;                        // of this rank, after the timed steps
  std::optional<LifeGrid> grid;         // rank 0: what all ranks have at the end, if asked for
};

// Collective. `name` is for the progress line.
LifeResult run_life(HaloMode mode, const char* name, const LifeRunOptions& options, const CartesianLayout& layout,
                    const LifePattern& pattern, const Streams& streams, const MpiProcess& process);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_LIFE_RUN_H_
