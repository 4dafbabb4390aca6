// Sparse symmetric matrices of which every rank knows every row. No MPI.
#ifndef LANYARD_BENCH_CG_MATRIX_H_
#define LANYARD_BENCH_CG_MATRIX_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lanyard::bench::cg {

struct Entry {
  int32_t column = 0;
  double value = 0;
};

// Rows of entries: those of row r are starts[r] to starts[r + 1].
struct Csr {
  std::vector<int64_t> starts{0};
  std::vector<int32_t> columns;
  std::vector<double> values;

  int64_t rows() const { return static_cast<int64_t>(starts.size()) - 1; }
  int64_t nonzeros() const { return starts.back(); }
};

// Square, with a symmetric pattern and at most kMostRows rows.
struct Matrix {
  static constexpr int64_t kMostRows = INT32_MAX;

  int64_t rows = 0;
  int64_t nonzeros = 0;
  int64_t centre = 0;  // the row at index n/2 of each dimension
  // Puts the entries of a row into `entries`, by ascending column.
  std::function<void(int64_t row, std::vector<Entry>& entries)> row;
};

// The negative Laplacian on a line, square or cube of n points a side, not scaled: 3, 5 or 7 points
// with 2 d on the diagonal and -1 beside it. Requires 1 to 3 dimensions and at most kMostRows rows.
Matrix poisson(int dimensions, int64_t n);

Matrix from_csr(Csr csr);

// Reads a Matrix Market file of a symmetric matrix: coordinate; real, integer or pattern; general
// or symmetric. Memory grows with the entries read, not with the header's count. Throws BadInput.
Csr read_matrix(const std::string& path);

// Reads a Matrix Market file of a vector: array, real or integer, general, one column.
// Throws BadInput.
std::vector<double> read_vector(const std::string& path, int64_t rows);

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_MATRIX_H_
