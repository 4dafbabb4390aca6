// Which rank has which rows.
#include "bench/row_partition.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lanyard::bench {
namespace {

void expect_consistent(const RowPartition& partition) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < partition.ranks(); ++rank) {
    const std::vector<int64_t> rows = partition.rows_of(rank);
    EXPECT_FALSE(rows.empty()) << rank;
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
    for (const int64_t row : rows)
      EXPECT_EQ(partition.owner(row), rank) << row;
    all.insert(all.end(), rows.begin(), rows.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(static_cast<int64_t>(all.size()), partition.rows());
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i], static_cast<int64_t>(i));
}

// Entries between different owners.
int64_t cut_of(const SparseMatrix& matrix, const RowPartition& partition) {
  int64_t cut = 0;
  std::vector<MatrixEntry> entries;
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    matrix.row(row, entries);
    for (const MatrixEntry& entry : entries)
      cut += partition.owner(entry.column) != partition.owner(row) ? 1 : 0;
  }
  return cut;
}

TEST(RowPartition, BlocksDifferByOneRowAtMost) {
  for (const int64_t rows : {1, 7, 8, 1000}) {
    for (const int ranks : {1, 2, 3, 7}) {
      if (ranks > rows)
        continue;
      const RowPartition partition = RowPartition::blocks(rows, ranks);
      expect_consistent(partition);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto size = static_cast<int64_t>(partition.rows_of(rank).size());
        EXPECT_TRUE(size == rows / ranks || size == rows / ranks + 1) << rows << " rows, rank " << rank;
      }
    }
  }
}

TEST(RowPartition, OwnersAreTaken) {
  const RowPartition partition = RowPartition::of({1, 0, 1, 2, 0}, 3);
  expect_consistent(partition);
  EXPECT_EQ(partition.rows_of(1), (std::vector<int64_t>{0, 2}));
}

TEST(RowPartition, MetisCutsLessThanBlocksAndTheSameEachTime) {
  const PoissonMatrix matrix(2, 32);
  std::string why;
  for (const int ranks : {1, 2, 4, 7}) {
    const auto partition = RowPartition::metis(matrix, ranks, why), again = RowPartition::metis(matrix, ranks, why);
    ASSERT_TRUE(partition && again) << why;
    expect_consistent(*partition);
    EXPECT_EQ(partition->owners(), again->owners());
    if (ranks > 2) {
      EXPECT_LT(cut_of(matrix, *partition), cut_of(matrix, RowPartition::blocks(matrix.rows(), ranks))) << ranks;
    }
  }
}

TEST(RowPartition, AMatrixThatMetisCannotCountIsRefused) {
  std::string why;
  EXPECT_FALSE(RowPartition::metis(PoissonMatrix(1, int64_t{1} << 31), 2, why));
  EXPECT_EQ(why, "METIS takes at most 2147483647 entries, and the matrix has 6442450942");
}

}  // namespace
}  // namespace lanyard::bench
