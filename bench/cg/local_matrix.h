// LocalMatrix: the rows of a matrix that a rank owns, and the values of a vector that it sends and
// receives to multiply them. No MPI.
//
// Entries in own columns are stored apart from those in other ranks' columns ("ghosts"). A rank
// multiplies the former while the ghosts' values are in flight (Trotter et al., section 3.2.2).
// Ghosts are numbered by owner, then by row: kernels read a message where it is received.
#ifndef LANYARD_BENCH_CG_LOCAL_MATRIX_H_
#define LANYARD_BENCH_CG_LOCAL_MATRIX_H_

#include <cstdint>
#include <vector>

#include "bench/cg/matrix.h"
#include "bench/cg/partition.h"

namespace lanyard::bench::cg {

struct LocalMatrix {
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

// Requires a symmetric pattern: who sends to a rank then also receives from it.
LocalMatrix local_matrix(const Matrix& matrix, const Owners& owners, int rank);

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_LOCAL_MATRIX_H_
