// One timed run of the Game of Life over all ranks, in one mode.
#ifndef LANYARD_BENCH_LIFE_RUN_H_
#define LANYARD_BENCH_LIFE_RUN_H_

#include <optional>

#include "bench/cartesian_layout.h"
#include "bench/halo_run.h"
#include "bench/life.h"
#include "bench/mpi_process.h"
#include "bench/neighbour_exchange.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct LifeResult : HaloRunResult {
  std::optional<LifeGrid> grid;  // rank 0: what all ranks have at the end, if asked for
};

// Collective. `name` is the mode's, for the progress line.
LifeResult run_life(HaloMode mode, const char* name, const HaloRunOptions& options, bool gather_result,
                    const CartesianLayout& layout, const LifePattern& pattern, const Streams& streams,
                    const MpiProcess& process);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_LIFE_RUN_H_
