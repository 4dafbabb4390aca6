// A communicator with a graph of neighbours, owned.
#ifndef LANYARD_BENCH_GRAPH_COMMUNICATOR_H_
#define LANYARD_BENCH_GRAPH_COMMUNICATOR_H_

#include <span>

#include "bench/mpi_check.h"

namespace lanyard::bench {

class GraphCommunicator {
 public:
  // Of all ranks of `parent`, which keep their numbers; a rank may be named several times. Collective, as its end is.
  GraphCommunicator(MPI_Comm parent, std::span<const int> sources, std::span<const int> destinations) {
    check(MPI_Dist_graph_create_adjacent(parent, static_cast<int>(sources.size()), sources.data(), MPI_UNWEIGHTED,
                                         static_cast<int>(destinations.size()), destinations.data(), MPI_UNWEIGHTED,
                                         MPI_INFO_NULL, 0, &communicator_),
          "MPI_Dist_graph_create_adjacent");
  }
  ~GraphCommunicator() { check(MPI_Comm_free(&communicator_), "MPI_Comm_free"); }
  GraphCommunicator(const GraphCommunicator&) = delete;
  GraphCommunicator& operator=(const GraphCommunicator&) = delete;

  MPI_Comm get() const { return communicator_; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_GRAPH_COMMUNICATOR_H_
