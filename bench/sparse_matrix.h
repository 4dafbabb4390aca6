// Sparse symmetric matrices as all ranks know them: any row can be asked for. No MPI.
#ifndef LANYARD_BENCH_SPARSE_MATRIX_H_
#define LANYARD_BENCH_SPARSE_MATRIX_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lanyard::bench {

struct MatrixEntry {
  int64_t column = 0;
  double value = 0;
};

// Square, of at least one row, and its pattern symmetric.
class SparseMatrix {
 public:
  virtual ~SparseMatrix() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t nonzeros() const = 0;
  // The row's entries, by ascending columns, in place of what `entries` held.
  virtual void row(int64_t index, std::vector<MatrixEntry>& entries) const = 0;
  // Where the unit vector has its one that tests take as the solution: in the middle.
  virtual int64_t centre() const = 0;
};

// The negative Laplacian on a line, a square or a cube with `side` inner points a dimension, without the factor of the
// mesh width: tridiag(-1, 2, -1), and its like with 5 and 7 points. The first dimension varies fastest.
class PoissonMatrix final : public SparseMatrix {
 public:
  // Requires dimensions 1 to 3, side >= 1, and less than 2^63 rows.
  PoissonMatrix(int dimensions, int64_t side);

  int64_t rows() const override { return rows_; }
  int64_t nonzeros() const override;
  void row(int64_t index, std::vector<MatrixEntry>& entries) const override;
  int64_t centre() const override;

  int dimensions() const { return dimensions_; }
  int64_t side() const { return side_; }

 private:
  int dimensions_;
  int64_t side_;
  int64_t rows_;
};

// All entries in memory, row after row.
class CsrMatrix final : public SparseMatrix {
 public:
  // `starts` has one number more than there are rows: where in `columns` and `values` each row begins and the last
  // ends.
  CsrMatrix(std::vector<int64_t> starts, std::vector<int32_t> columns, std::vector<double> values)
      : starts_(std::move(starts)), columns_(std::move(columns)), values_(std::move(values)) {}

  int64_t rows() const override { return static_cast<int64_t>(starts_.size()) - 1; }
  int64_t nonzeros() const override { return starts_.back(); }
  void row(int64_t index, std::vector<MatrixEntry>& entries) const override;
  int64_t centre() const override { return rows() / 2; }

  const std::vector<int64_t>& starts() const { return starts_; }
  const std::vector<int32_t>& columns() const { return columns_; }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<int64_t> starts_;
  std::vector<int32_t> columns_;
  std::vector<double> values_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_SPARSE_MATRIX_H_
