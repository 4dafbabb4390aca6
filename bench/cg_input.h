// The matrix of a run and its rows' owners, the same on all ranks. What is read or calculated once is so on rank 0.
#ifndef LANYARD_BENCH_CG_INPUT_H_
#define LANYARD_BENCH_CG_INPUT_H_

#include <memory>
#include <optional>
#include <string>

#include "bench/mpi_process.h"
#include "bench/row_partition.h"
#include "bench/sparse_matrix.h"

namespace lanyard::bench {

// A Matrix Market file's. Null on all ranks, and `why` says why on rank 0. Collective over MPI_COMM_WORLD.
std::unique_ptr<const SparseMatrix> load_matrix(const std::string& path, const MpiProcess& process, std::string& why);

// Nothing on all ranks, and `why` says why on rank 0: METIS cannot. Requires as many rows as ranks. Collective.
std::optional<RowPartition> partition_rows(const SparseMatrix& matrix, bool by_metis, const MpiProcess& process,
                                           std::string& why);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_CG_INPUT_H_
