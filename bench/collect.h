// What all ranks have, one rank after another on the first: so that a result is checked whole, and in one place.
#ifndef LANYARD_BENCH_COLLECT_H_
#define LANYARD_BENCH_COLLECT_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "bench/mpi_process.h"

namespace lanyard::bench {

// On rank 0 use(rank, items) for each rank in turn, count_of(rank) items of it; `mine` are this rank's. Collective.
// Messages are of at most 1 GiB, as a count is an int.
template <class T, class CountOf, class Use>
void collect(std::vector<T> mine, const MpiProcess& process, CountOf&& count_of, Use&& use) {
  constexpr int kTag = 1000;
  static constexpr size_t kPiece = (size_t{1} << 30) / sizeof(T);
  const auto for_each_piece = [](std::vector<T>& items, auto&& transfer) {
    for (size_t at = 0; at < items.size(); at += kPiece)
      transfer(&items[at], static_cast<int>(std::min(kPiece, items.size() - at) * sizeof(T)));
  };
  if (!process.is_first()) {
    for_each_piece(mine, [](T* items, int bytes) {
      check(MPI_Send(items, bytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD), "MPI_Send");
    });
    return;
  }
  use(0, std::as_const(mine));
  for (int rank = 1; rank < process.ranks(); ++rank) {
    mine.resize(static_cast<size_t>(count_of(rank)));
    for_each_piece(mine, [rank](T* items, int bytes) {
      check(MPI_Recv(items, bytes, MPI_BYTE, rank, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    });
    use(rank, std::as_const(mine));
  }
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_COLLECT_H_
