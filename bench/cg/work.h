// The operations of a solve, and their flops and bytes (Trotter et al., section 4). No MPI.
#ifndef LANYARD_BENCH_CG_WORK_H_
#define LANYARD_BENCH_CG_WORK_H_

#include <cstdint>
#include <vector>

namespace lanyard::bench::cg {

// All calls of one kind, of all ranks.
struct Work {
  const char* name;
  int64_t calls;
  double flops, bytes;
};

inline std::vector<Work> work_of(bool is_pipelined, int64_t rows, int64_t nonzeros, int64_t iterations) {
  const auto m = static_cast<double>(rows), nnz = static_cast<double>(nonzeros);
  const auto work = [](const char* name, int64_t calls, double flops, double bytes) {
    return Work{name, calls, flops * static_cast<double>(calls), bytes * static_cast<double>(calls)};
  };
  return {work("SpMV", iterations + (is_pipelined ? 2 : 1), 2 * nnz, 20 * (nnz + m)),
          work("DOT", iterations, 2 * m, 16 * m), work("NRM2", iterations + 1, 2 * m, 8 * m),
          work("AXPY", iterations * (is_pipelined ? 6 : 3), 2 * m, 24 * m)};
}

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_WORK_H_
