// Checks of MPI return codes: a failed call ends the whole job with the call's name and MPI's own
// words for the code.
//
// A benchmark has nothing to recover: a figure measured after an error would be worth nothing.
// MPI_COMM_WORLD must return errors (MpiProcess sees to it), or MPI's own handler would end the job
// before the call is named.
#ifndef LANYARD_BENCH_MPI_CHECK_H_
#define LANYARD_BENCH_MPI_CHECK_H_

#include <mpi.h>

#include <cstdio>
#include <string>

namespace lanyard::bench {

inline std::string mpi_error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
    return "error " + std::to_string(code);
  return std::string(text, static_cast<size_t>(length));
}

[[noreturn]] inline void mpi_failed(int code, const char* call) {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "rank %d: %s: %s\n", rank, call, mpi_error_text(code).c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  __builtin_unreachable();
}

// For std::set_new_handler().
[[noreturn]] inline void out_of_memory() {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "rank %d: there is not enough memory for a problem of this size\n", rank);
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  __builtin_unreachable();
}

inline void check(int code, const char* call) {
  if (code != MPI_SUCCESS) [[unlikely]]
    mpi_failed(code, call);
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_MPI_CHECK_H_
