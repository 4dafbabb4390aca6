// The results of conjugate gradients, as text, CSV or JSON.
#ifndef LANYARD_BENCH_CG_REPORT_H_
#define LANYARD_BENCH_CG_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/cg_run.h"
#include "bench/format.h"
#include "bench/results.h"
#include "bench/statistics.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct CgRow {
  std::string mode;
  CgSolver solver = CgSolver::kCg;
  CgResult result;
  double baseline_seconds = 0;  // mean of mode mpi with the same solver, same run

  Estimate seconds() const { return estimate(result.seconds); }
  bool is_right() const { return result.findings.mistakes.empty(); }
};

// What all ranks' kernels of one kind do in an iteration, by the usual counts for sparse matrices and vectors.
struct CgKernelFigures {
  std::string name;
  int calls = 0;  // operations on whole vectors, of which one kernel may make several
  double flops = 0;
  double bytes = 0;
  double us = 0;
};

struct CgReport {
  Place place;
  int ranks = 0;
  std::string matrix;  // in words
  int64_t rows = 0;
  int64_t nonzeros = 0;
  int64_t ghosts = 0;  // values that all ranks get of others in an exchange
  std::string partition;
  std::string side;
  std::string exchange;
  double tolerance = 0;
  int64_t check_every = 0;
  std::string nccl;  // its version, where there are its modes
  std::vector<CgRow> runs;
  bool baseline_is_right = true;  // where it is not among them

  // Whether there are runs, and all are right.
  bool verified() const;
  // To stdout.
  void print(Format format) const;

 private:
  void print_text() const;
  void print_kernels(const CgRow& row) const;
  Results results() const;
  QueueInfo nic() const;  // of the last run that has any
  std::vector<CgKernelFigures> kernels(const CgRow& row) const;
  Record kernels_json() const;
};

const char* name_of(CgSolver solver);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_CG_REPORT_H_
