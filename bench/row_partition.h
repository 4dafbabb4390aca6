// RowPartition: which rank has which rows of a matrix, and of vectors. No MPI.
#ifndef LANYARD_BENCH_ROW_PARTITION_H_
#define LANYARD_BENCH_ROW_PARTITION_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/sparse_matrix.h"

namespace lanyard::bench {

class RowPartition {
 public:
  // Contiguous rows, as many for each rank, but for one more or less. Requires 1 <= ranks <= rows.
  static RowPartition blocks(int64_t rows, int ranks) { return {rows, ranks, {}}; }
  // By row. Requires owners from 0 to ranks - 1.
  static RowPartition of(std::vector<int> owners, int ranks) {
    const auto rows = static_cast<int64_t>(owners.size());
    return {rows, ranks, std::move(owners)};
  }
  // Few entries between ranks, by METIS (k-way); the same for the same matrix. Nothing, and `why` says why: it fails,
  // the matrix is too large for it, or it leaves a rank without rows. Requires 1 <= ranks <= rows.
  static std::optional<RowPartition> metis(const SparseMatrix& matrix, int ranks, std::string& why);

  int ranks() const { return ranks_; }
  int64_t rows() const { return rows_; }
  int owner(int64_t row) const;
  // Ascending.
  std::vector<int64_t> rows_of(int rank) const;
  // By row; empty for contiguous rows.
  const std::vector<int>& owners() const { return owners_; }

 private:
  RowPartition(int64_t rows, int ranks, std::vector<int> owners)
      : rows_(rows), ranks_(ranks), owners_(std::move(owners)) {}
  int64_t first_of(int rank) const { return rows_ / ranks_ * rank + std::min<int64_t>(rank, rows_ % ranks_); }

  int64_t rows_;
  int ranks_;
  std::vector<int> owners_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_ROW_PARTITION_H_
