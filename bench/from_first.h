// What rank 0 has, on all ranks.
#ifndef LANYARD_BENCH_FROM_FIRST_H_
#define LANYARD_BENCH_FROM_FIRST_H_

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bench/mpi_check.h"

namespace lanyard::bench {

// The values of a vector or a string, whatever the others had. Collective over MPI_COMM_WORLD. In messages of at most
// 1 GiB, as a count is an int.
template <class Values>
void from_first(Values& values) {
  constexpr size_t kPiece = (size_t{1} << 30) / sizeof(values[0]);
  uint64_t length = values.size();
  check(MPI_Bcast(&length, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
  values.resize(length);
  for (size_t at = 0; at < values.size(); at += kPiece) {
    const size_t bytes = std::min(kPiece, values.size() - at) * sizeof(values[0]);
    check(MPI_Bcast(&values[at], static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  }
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_FROM_FIRST_H_
