// Checks StreamHalo's gather and scatter cell by cell against closed forms.
#ifndef LANYARD_BENCH_HALO_CHECK_H_
#define LANYARD_BENCH_HALO_CHECK_H_

#include <string>

#include "bench/cartesian_layout.h"
#include "bench/neighbour_exchange.h"

namespace lanyard::bench {

// Several rounds of gather and scatter with values that tell rank, cell and round. What this rank
// found wrong first; empty when nothing is. Collective over MPI_COMM_WORLD.
std::string check_halo(HaloMode mode, const CartesianLayout& layout, int ranks);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_HALO_CHECK_H_
