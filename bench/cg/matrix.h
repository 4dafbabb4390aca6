// Sparse symmetric matrices of which every rank knows every row, which rank owns which rows, and
// what a rank sends and receives to multiply its own. No MPI.
#ifndef LANYARD_BENCH_CG_MATRIX_H_
#define LANYARD_BENCH_CG_MATRIX_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/cg/text_file.h"

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
  void end_row() { starts.push_back(static_cast<int64_t>(columns.size())); }
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

// ---- Parts of ranks

// The owner of each row. A rank may own none.
using Owners = std::vector<int>;

// Contiguous rows, as many for each rank, but for one more or less.
Owners row_blocks(int64_t rows, int ranks);

// By METIS, k-way, with a fixed seed: few entries between ranks. Throws BadInput if METIS fails.
Owners metis_partition(const Matrix& matrix, int ranks);

// From a file as METIS writes it: a line a row with the number of its rank. Throws BadInput.
Owners read_partition(const std::string& path, int64_t rows, int ranks);

// The rows that a rank owns, and the values of a vector that it sends and receives to multiply
// them. Entries in own columns are stored apart from those in other ranks' columns ("ghosts"). A
// rank multiplies the former while the ghosts' values are in flight (Trotter et al., section
// 3.2.2). Ghosts are numbered by owner, then by row: kernels read a message where it is received.
struct LocalMatrix {
  // Requires a symmetric pattern: who sends to a rank then also receives from it.
  LocalMatrix(const Matrix& matrix, const Owners& owners, int rank);

  // A rank that ghosts come from, and that own values go to.
  struct Neighbour {
    int rank = 0;
    int64_t first_sent = 0, sent = 0;     // its part of LocalMatrix::sent
    int64_t first_ghost = 0, ghosts = 0;  // its part of LocalMatrix::ghosts
  };

  std::vector<int32_t> rows;          // global numbers of the own rows, ascending. Local row i is rows[i].
  Csr own;                            // own rows, own columns, both local
  Csr others;                         // row i: row edge[i], whose columns are indices of `ghosts`
  std::vector<int32_t> edge;          // local rows with ghosts, ascending
  std::vector<int32_t> ghosts;        // global rows whose values are received
  std::vector<int32_t> sent;          // local rows whose values are sent
  std::vector<Neighbour> neighbours;  // by ascending rank

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
};

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_MATRIX_H_
