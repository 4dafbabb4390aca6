// The kernels of conjugate gradients as plain data, for host streams and for GPUs. No MPI.
//
// Scalars live in State, in the stream's memory, so no kernel waits for the host (Trotter et al.,
// section 3.1.2). Once State::is_over is set, no kernel does anything. So iterations enqueued
// beyond the last have no effect, and the number of iterations is exact.
#ifndef LANYARD_BENCH_CG_KERNELS_H_
#define LANYARD_BENCH_CG_KERNELS_H_

#include <cstdint>
#include <variant>

#include <lanyard/lanyard_device.h>
#include "bench/stream.h"

namespace lanyard::bench::cg {

struct State {
  double alpha = 0, beta = 0;
  double square = 0;        // r.r of the last residual
  double first_square = 0;  // r.r of the first one
  double tolerance = 0;     // of |r| / |r0|
  int64_t most_iterations = 0;
  int64_t residuals = 0;  // how many there were; one more than iterations
  int32_t is_over = 0;
  int32_t is_broken = 0;  // over because p.A p was not positive

  int64_t iterations() const { return residuals - 1; }
};

// The sums over all ranks that an iteration needs, and their places.
constexpr int kSums = 2;
constexpr int kProduct = 0;  // CG: p.A p; pipelined: r.w
constexpr int kSquare = 1;   // r.r

// to[i] = from[places[i]]
struct GatherKernel {
  const State* state;
  const double* from;
  const int32_t* places;
  double* to;
  int64_t count;
};

// y = A x; with `edge`, y[edge[r]] += (A x)[r].
struct ProductKernel {
  const State* state;
  int64_t rows;
  const int64_t* starts;
  const int32_t* columns;
  const double* values;
  const double* x;
  double* y;
  const int32_t* edge;
  int lanes;  // GPU threads a row: a power of two, at most 32
};

// results[i] = a[i].b[i]. The order of additions depends on the length only.
struct DotKernel {
  const State* state;
  int64_t length;
  int count;  // 1 or 2
  const double* a[kSums];
  const double* b[kSums];
  double* results;
  double* partial;        // GPUs: kSums * kMostParts numbers
  uint32_t* parts_ready;  // GPUs: 0 between kernels
  static constexpr int kMostParts = 256;
};

// y = sign a x + b y. A null scalar is 1.
struct Axpy {
  double* y;
  double sign;
  const double* a;
  const double* x;
  const double* b;
};

// Several, one after the other.
struct AxpyKernel {
  static constexpr int kMost = 6;
  const State* state;
  int64_t length;
  int count;
  Axpy list[kMost];
};

// Computes the scalars once sums are there.
struct StepKernel {
  enum Kind {
    kResidual,   // CG: r.r has come
    kDirection,  // CG: p.A p has come
    kPipelined,  // both have come
  };
  State* state;
  Kind kind;
  const double* sums;
  double* history;  // r.r of residual 0, 1, ...; most_iterations + 1 numbers
};

// Adds the time since the last stamp to *spent. Both in ns.
struct StampKernel {
  const State* state;
  int64_t* last;
  int64_t* spent;
};

using Kernel = std::variant<GatherKernel, ProductKernel, DotKernel, AxpyKernel, StepKernel, StampKernel>;

// Enqueues a kernel, which must live until it has run. One thread at a time.
void launch(Stream& stream, const Kernel& kernel);

// Only in builds with GPU code. Call load_gpu_kernels() first. Otherwise CUDA loads each kernel at
// its first launch and may then wait for the device, which may wait for the host's next launch.
void load_gpu_kernels();
void launch_on_gpu(Stream& stream, const Kernel& kernel);

// The body of StepKernel.
LANYARD_DEVICE_FUNCTION void make_step(const StepKernel& step) {
  State& s = *step.state;
  const double product = step.sums[kProduct], square = step.sums[kSquare];
  double norm = product;  // p.A p
  if (step.kind != StepKernel::kDirection) {
    const bool is_first = s.residuals == 0;
    step.history[s.residuals++] = square;
    s.beta = is_first ? 0 : square / s.square;
    s.square = square;
    if (is_first)
      s.first_square = square;
    if (square <= s.tolerance * s.tolerance * s.first_square || s.residuals > s.most_iterations) {
      s.is_over = 1;
      return;
    }
    if (!is_first)
      norm -= s.beta * square / s.alpha;  // Ghysels and Vanroose, algorithm 3
  }
  if (step.kind == StepKernel::kResidual)
    return;
  s.is_over = s.is_broken = norm > 0 ? 0 : 1;
  s.alpha = s.square / norm;
}

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_KERNELS_H_
