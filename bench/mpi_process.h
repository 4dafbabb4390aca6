// This process in MPI_COMM_WORLD: MPI_Init to MPI_Finalize, rank, number of ranks, and what all
// ranks agree on. Where there is not enough memory, the whole job ends.
#ifndef LANYARD_BENCH_MPI_PROCESS_H_
#define LANYARD_BENCH_MPI_PROCESS_H_

#include <mpi.h>

#include <new>
#include <string>

#include "bench/mpi_check.h"

namespace lanyard::bench {

class MpiProcess {
 public:
  MpiProcess(int* argc, char*** argv) {
    check(MPI_Init(argc, argv), "MPI_Init");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "MPI_Comm_size");
    std::set_new_handler(out_of_memory);
  }
  // What was printed is out before any rank ends: mpirun may kill the others once one has failed.
  ~MpiProcess() {
    std::fflush(nullptr);
    barrier();
    check(MPI_Finalize(), "MPI_Finalize");
  }
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool is_first() const { return rank_ == 0; }

  void barrier() const { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
  // Whether every rank says so.
  bool all(bool mine) const {
    int value = mine ? 1 : 0;
    check(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
    return value != 0;
  }
  double largest(double mine) const {
    check(MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    return mine;
  }
  // Rank 0's value.
  double from_first(double value) const {
    check(MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return value;
  }

 private:
  int rank_ = 0;
  int ranks_ = 1;
};

// First line of MPI_Get_library_version, white space made single spaces.
inline std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  std::string line;
  for (int i = 0; i < length && text[i] != '\n' && text[i] != '\0'; ++i) {
    const bool space = text[i] == ' ' || text[i] == '\t' || text[i] == '\r';
    if (!space)
      line += text[i];
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  while (!line.empty() && line.back() == ' ')
    line.pop_back();
  return line;
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_MPI_PROCESS_H_
