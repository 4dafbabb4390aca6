// Cells of a rank's block, and of a whole grid on rank 0.
#ifndef LANYARD_BENCH_COLLECT_H_
#define LANYARD_BENCH_COLLECT_H_

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <lanyard/lanyard.hpp>
#include "bench/halo/grid.h"
#include "bench/program.h"

namespace lanyard::bench {

// Calls f with the first cell of each row of a box, in row-major order.
template <int Dim, class F>
void for_each_row(const halo::Box<Dim>& box, F&& f) {
  const long rows = box.cells() / std::max(box[Dim - 1].count, 1L);
  for (long row = 0; row < rows; ++row) {
    std::array<long, Dim> cell{};
    cell[Dim - 1] = box[Dim - 1].first;
    long rest = row;
    for (size_t d = Dim - 1; d-- > 0; rest /= box[d].count)
      cell[d] = box[d].first + rest % box[d].count;
    f(cell);
  }
}

// All that the ranks own, on rank 0, row-major; nothing elsewhere. `block` has ghosts, as the shape
// says. Collective over comm, whose ranks the grid numbers.
template <class T, int Dim>
std::vector<T> collect(const T* block, const halo::Shape<Dim>& shape, const halo::Grid<Dim>& grid, MPI_Comm comm) {
  constexpr int kTag = 1000;  // beyond a halo's
  const MPI_Datatype type = datatype_of<T>();
  std::vector<T> owned, whole;
  const halo::Box<Dim> box = grid.owned();
  for_each_row(box, [&](const std::array<long, Dim>& cell) {
    const T* const row = block + shape.at(cell);
    owned.insert(owned.end(), row, row + box[Dim - 1].count);
  });
  MPI_Request sent = MPI_REQUEST_NULL;
  check(MPI_Isend(owned.data(), static_cast<int>(owned.size()), type, 0, kTag, comm, &sent), "MPI_Isend");
  int ranks = 0;
  check(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  for (int rank = 0; grid.rank == 0 && rank < ranks; ++rank) {
    const halo::Grid<Dim> owner = grid.of_rank(rank);
    halo::Box<Dim> part, all;
    for (size_t d = 0; d < Dim; ++d) {
      part[d] = owner.mine(d);
      all[d] = {0, grid.cells[d]};
    }
    whole.resize(static_cast<size_t>(all.cells()));
    std::vector<T> cells(static_cast<size_t>(part.cells()));
    check(MPI_Recv(cells.data(), static_cast<int>(cells.size()), type, rank, kTag, comm, MPI_STATUS_IGNORE),
          "MPI_Recv");
    const T* next = cells.data();
    for_each_row(part, [&](const std::array<long, Dim>& cell) {
      long index = 0;
      for (size_t d = 0; d < Dim; ++d)
        index = index * grid.cells[d] + cell[d];
      std::copy_n(next, part[Dim - 1].count, &whole[static_cast<size_t>(index)]);
      next += part[Dim - 1].count;
    });
  }
  check(MPI_Wait(&sent, MPI_STATUS_IGNORE), "MPI_Wait");
  return whole;
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_COLLECT_H_
