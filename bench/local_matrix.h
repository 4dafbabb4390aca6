// LocalMatrix: the rows of a distributed sparse matrix that a rank owns, as the rank multiplies them, and which values
// of a vector it gets from whom for that. No MPI.
//
// The entries in the rank's own columns stand apart from those in others', so that the former can be multiplied while
// the latter's values are on their way (Trotter et al., section 3.2.2). Values that others own, ghosts, are numbered by
// owner, and by global row within an owner: a message can be received where it is read, without unpacking.
#ifndef LANYARD_BENCH_LOCAL_MATRIX_H_
#define LANYARD_BENCH_LOCAL_MATRIX_H_

#include <cstdint>
#include <vector>

#include "bench/row_partition.h"
#include "bench/sparse_matrix.h"

namespace lanyard::bench {

// Rows of entries, row r from starts[r] to starts[r + 1].
struct Csr {
  std::vector<int64_t> starts{0};
  std::vector<int32_t> columns;
  std::vector<double> values;

  int64_t rows() const { return static_cast<int64_t>(starts.size()) - 1; }
  int64_t nonzeros() const { return starts.back(); }
};

struct LocalMatrix {
  struct Neighbour {
    int rank = 0;
    std::vector<int32_t> sent;  // which of the own rows it needs, by ascending global row
    int64_t first_ghost = 0;    // where among the ghosts its own are
    int64_t ghosts = 0;
  };

  std::vector<int64_t> rows;  // global numbers, ascending; here they count from 0
  Csr own;                    // of each row the entries whose columns are own rows
  Csr others;                 // of the rows in `edge` the entries whose columns are ghosts
  std::vector<int32_t> edge;  // rows with such entries, ascending
  std::vector<int64_t> ghosts;
  std::vector<Neighbour> neighbours;  // by ascending rank

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
  int64_t nonzeros() const { return own.nonzeros() + others.nonzeros(); }
  int64_t sent() const;  // values, to all neighbours
};

// Relies on the symmetric pattern: whoever needs a value of a row has a row that this one needs.
LocalMatrix local_matrix(const SparseMatrix& matrix, const RowPartition& partition, int rank);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_LOCAL_MATRIX_H_
