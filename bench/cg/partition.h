// Which rank owns which rows of a matrix, and of vectors. No MPI.
#ifndef LANYARD_BENCH_CG_PARTITION_H_
#define LANYARD_BENCH_CG_PARTITION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/cg/matrix.h"

namespace lanyard::bench::cg {

// The owner of each row. A rank may own none.
using Owners = std::vector<int>;

// Contiguous rows, as many for each rank, but for one more or less.
Owners row_blocks(int64_t rows, int ranks);

// By METIS, k-way, with a fixed seed: few entries between ranks. Throws BadInput if METIS fails.
Owners metis_partition(const Matrix& matrix, int ranks);

// From a file as METIS writes it: a line a row with the number of its rank. Throws BadInput.
Owners read_partition(const std::string& path, int64_t rows, int ranks);

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_PARTITION_H_
