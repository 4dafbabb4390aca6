// Matrices by rows, and their parts: what the ranks multiply with what they exchange is what the whole matrix gives.
#include "bench/local_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace lanyard::bench {
namespace {

double value_of(int64_t row) { return static_cast<double>(row * row % 101) - 37; }

std::vector<double> product(const SparseMatrix& matrix) {
  std::vector<double> y;
  std::vector<MatrixEntry> entries;
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    matrix.row(row, entries);
    double sum = 0;
    for (const MatrixEntry& entry : entries)
      sum += entry.value * value_of(entry.column);
    y.push_back(sum);
  }
  return y;
}

void expect_whole(const SparseMatrix& matrix, const RowPartition& partition) {
  std::vector<LocalMatrix> parts;
  for (int rank = 0; rank < partition.ranks(); ++rank)
    parts.push_back(local_matrix(matrix, partition, rank));
  const std::vector<double> expected = product(matrix);
  int64_t nonzeros = 0;
  for (int rank = 0; rank < partition.ranks(); ++rank) {
    const LocalMatrix& part = parts[static_cast<size_t>(rank)];
    nonzeros += part.nonzeros();
    // As they would come from the neighbours, message by message.
    std::vector<double> ghosts(part.ghosts.size(), -1e9);
    for (const LocalMatrix::Neighbour& neighbour : part.neighbours) {
      const LocalMatrix& from = parts[static_cast<size_t>(neighbour.rank)];
      const auto back = std::find_if(from.neighbours.begin(), from.neighbours.end(),
                                     [&](const LocalMatrix::Neighbour& n) { return n.rank == rank; });
      ASSERT_NE(back, from.neighbours.end());
      ASSERT_EQ(static_cast<int64_t>(back->sent.size()), neighbour.ghosts);
      for (size_t i = 0; i < back->sent.size(); ++i)
        ghosts[static_cast<size_t>(neighbour.first_ghost) + i] =
            value_of(from.rows[static_cast<size_t>(back->sent[i])]);
    }
    std::vector<double> y(part.rows.size(), 0);
    for (size_t r = 0; r < y.size(); ++r)
      for (auto k = static_cast<size_t>(part.own.starts[r]); k < static_cast<size_t>(part.own.starts[r + 1]); ++k)
        y[r] += part.own.values[k] * value_of(part.rows[static_cast<size_t>(part.own.columns[k])]);
    ASSERT_EQ(part.others.rows(), static_cast<int64_t>(part.edge.size()));
    for (size_t r = 0; r < part.edge.size(); ++r)
      for (auto k = static_cast<size_t>(part.others.starts[r]); k < static_cast<size_t>(part.others.starts[r + 1]); ++k)
        y[static_cast<size_t>(part.edge[r])] +=
            part.others.values[k] * ghosts[static_cast<size_t>(part.others.columns[k])];
    for (size_t r = 0; r < y.size(); ++r)
      EXPECT_EQ(y[r], expected[static_cast<size_t>(part.rows[r])]) << "rank " << rank << ", row " << part.rows[r];
  }
  EXPECT_EQ(nonzeros, matrix.nonzeros());
}

TEST(LocalMatrix, PartsMakeUpTheWholeOfPoissonMatrices) {
  for (const auto& [dimensions, side] : {std::pair(1, 1), {1, 23}, {2, 9}, {3, 5}}) {
    const PoissonMatrix matrix(dimensions, side);
    for (const int ranks : {1, 2, 3, 8}) {
      if (ranks > matrix.rows())
        continue;
      expect_whole(matrix, RowPartition::blocks(matrix.rows(), ranks));
      std::vector<int> owners;
      for (int64_t row = 0; row < matrix.rows(); ++row)
        owners.push_back(static_cast<int>(row % ranks));
      expect_whole(matrix, RowPartition::of(owners, ranks));
    }
  }
}

TEST(LocalMatrix, ALineHasOneValueEitherWay) {
  const PoissonMatrix matrix(1, 10);
  const LocalMatrix part = local_matrix(matrix, RowPartition::blocks(10, 3), 1);
  EXPECT_EQ(part.rows, (std::vector<int64_t>{4, 5, 6}));
  EXPECT_EQ(part.ghosts, (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(part.edge, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(part.sent(), 2);
}

TEST(SparseMatrix, PoissonMatricesHaveTheirPoints) {
  for (const auto& [dimensions, side] : {std::pair(1, 1), {1, 7}, {2, 4}, {3, 3}}) {
    const PoissonMatrix matrix(dimensions, side);
    int64_t nonzeros = 0;
    std::vector<MatrixEntry> entries, mirrored;
    for (int64_t row = 0; row < matrix.rows(); ++row) {
      matrix.row(row, entries);
      nonzeros += static_cast<int64_t>(entries.size());
      EXPECT_TRUE(std::is_sorted(entries.begin(), entries.end(),
                                 [](const MatrixEntry& a, const MatrixEntry& b) { return a.column < b.column; }));
      for (const MatrixEntry& entry : entries) {
        EXPECT_EQ(entry.value, entry.column == row ? 2.0 * dimensions : -1.0);
        matrix.row(entry.column, mirrored);
        EXPECT_TRUE(
            std::any_of(mirrored.begin(), mirrored.end(), [&](const MatrixEntry& e) { return e.column == row; }));
      }
    }
    EXPECT_EQ(nonzeros, matrix.nonzeros()) << dimensions;
  }
  std::vector<MatrixEntry> entries;
  const PoissonMatrix cube(3, 5);
  EXPECT_EQ(cube.centre(), 62);
  cube.row(cube.centre(), entries);
  EXPECT_EQ(entries.size(), 7u);
}

TEST(SparseMatrix, CsrGivesItsRows) {
  const CsrMatrix matrix({0, 2, 2, 3}, {0, 2, 0}, {4, 1.5, 1.5});
  EXPECT_EQ(matrix.rows(), 3);
  EXPECT_EQ(matrix.nonzeros(), 3);
  std::vector<MatrixEntry> entries;
  matrix.row(1, entries);
  EXPECT_TRUE(entries.empty());
  matrix.row(0, entries);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].column, 2);
  EXPECT_EQ(entries[1].value, 1.5);
}

}  // namespace
}  // namespace lanyard::bench
