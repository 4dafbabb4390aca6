// The kernels of conjugate gradients as their arguments, and what runs them on a stream. As in kernels.h: plain data,
// for host streams by address and for GPUs by value; no MPI.
//
// All scalars are in CgState, in memory that the stream reaches, so that nobody waits for the host to learn alpha or
// beta (Trotter et al., section 3.1.2). Once it says that the iteration is over every kernel leaves everything as it
// is: what has been enqueued beyond that changes nothing, and the count of iterations is exact. Where p.A p is not
// positive the vectors stay as they are too, before the step at the end of the iteration says that it is over.
#ifndef LANYARD_BENCH_CG_KERNELS_H_
#define LANYARD_BENCH_CG_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include <lanyard/lanyard_device.h>
#include "bench/stream.h"

namespace lanyard::bench {

// Sums of CG: p.t and r.r; of pipelined CG: r.w and r.r.
constexpr int kCgSums = 2;
constexpr int kProduct = 0, kSquare = 1;

struct CgState {
  // Each in cache lines of its own, as a network card writes and reads some of it.
  alignas(64) double own[kCgSums] = {};     // of this rank's rows
  alignas(64) double totals[kCgSums] = {};  // of all ranks'
  alignas(64) double square = 0;            // r.r of the last iteration that was made
  double first_square = 0;                  // of r at the start
  double alpha = 0, beta = 0;               // pipelined CG's
  double tolerance = 0;                     // of the relative residual
  int64_t iterations = 0;
  int64_t most_iterations = 0;
  int32_t has_begun = 0;
  int32_t is_over = 0;
  int32_t is_indefinite = 0;  // over, because a square of the matrix's norm was not positive
};

// Copies some values of a vector into a message.
struct GatherKernel {
  const CgState* state = nullptr;
  const double* from = nullptr;
  const int32_t* places = nullptr;
  double* to = nullptr;
  int64_t count = 0;
};

// y = A x, or for the rows `edge` y += A x.
struct SpmvKernel {
  const CgState* state = nullptr;
  int64_t rows = 0;
  const int64_t* starts = nullptr;
  const int32_t* columns = nullptr;
  const double* values = nullptr;
  const double* x = nullptr;
  double* y = nullptr;
  const int32_t* edge = nullptr;  // null: row r of the matrix is row r of y
  int lanes = 1;                  // GPU threads for a row: a power of two, at most 32
};

// result[i] = a[i].b[i]: up to two at once. The order of additions depends on the length alone.
struct DotKernel {
  const CgState* state = nullptr;
  int products = 1;
  const double* a[kCgSums] = {};
  const double* b[kCgSums] = {};
  double* results[kCgSums] = {};
  int64_t count = 0;
  // GPUs: kDotBlocks numbers for each product, and a counter that is 0 between kernels.
  double* partial = nullptr;
  uint32_t* blocks_done = nullptr;
};
constexpr int kDotBlocks = 256;

// What an iteration does to vectors, element by element.
struct UpdateKernel {
  enum class Kind {
    kResidual,   // CG: r -= alpha t
    kDirection,  // CG: x += alpha p, p = r + beta p
    kPipelined,  // z = q + beta z, s = w + beta s, p = r + beta p, x += alpha p, r -= alpha s, w -= alpha z
  };
  Kind kind = Kind::kResidual;
  const CgState* state = nullptr;
  int64_t count = 0;
  const double *q = nullptr, *t = nullptr;
  double *x = nullptr, *r = nullptr, *p = nullptr, *w = nullptr, *s = nullptr, *z = nullptr;
};

// What happens to the scalars once all ranks' sums are there.
struct StepKernel {
  enum class Kind {
    kBegin,      // CG, of the first residual
    kIterate,    // CG: an iteration has been made
    kPipelined,  // before an iteration is made: alpha and beta, or that it is over
  };
  Kind kind = Kind::kBegin;
  CgState* state = nullptr;
  double* history = nullptr;  // r.r after 0, 1, ... iterations; most_iterations + 1
};

LANYARD_DEVICE_FUNCTION void make_step(const StepKernel& step) {
  CgState& s = *step.state;
  if (s.is_over)
    return;
  const double product = s.totals[kProduct], square = s.totals[kSquare];
  if (step.kind == StepKernel::Kind::kIterate) {
    if (!(product > 0)) {
      s.is_over = s.is_indefinite = 1;
      return;
    }
    ++s.iterations;
  }
  if (!s.has_begun)
    s.first_square = square;
  const double before = s.square;
  s.square = square;
  step.history[s.iterations] = square;
  if (square <= s.tolerance * s.tolerance * s.first_square || s.iterations == s.most_iterations)
    s.is_over = 1;
  if (step.kind == StepKernel::Kind::kPipelined && !s.is_over) {
    s.beta = s.has_begun ? square / before : 0;
    const double norm = s.has_begun ? product - s.beta * square / s.alpha : product;
    if (!(norm > 0)) {
      s.is_over = s.is_indefinite = 1;
      return;
    }
    s.alpha = square / norm;
    ++s.iterations;
  }
  s.has_begun = 1;
}

// Element i of the vectors, of an update of that kind.
template <UpdateKernel::Kind kind>
LANYARD_DEVICE_FUNCTION void update_element(const UpdateKernel& u, int64_t i, double alpha, double beta) {
  if constexpr (kind == UpdateKernel::Kind::kResidual) {
    u.r[i] -= alpha * u.t[i];
  } else if constexpr (kind == UpdateKernel::Kind::kDirection) {
    u.x[i] += alpha * u.p[i];
    u.p[i] = u.r[i] + beta * u.p[i];
  } else {
    const double z = u.q[i] + beta * u.z[i], s = u.w[i] + beta * u.s[i], p = u.r[i] + beta * u.p[i];
    u.z[i] = z;
    u.s[i] = s;
    u.p[i] = p;
    u.x[i] += alpha * p;
    u.r[i] -= alpha * s;
    u.w[i] -= alpha * z;
  }
}

// Whether an update leaves everything as it is. Pipelined CG's step has judged the matrix before.
LANYARD_DEVICE_FUNCTION bool is_void(const UpdateKernel& u) {
  const CgState& s = *u.state;
  return s.is_over || (u.kind != UpdateKernel::Kind::kPipelined && !(s.totals[kProduct] > 0));
}

// CG's follow from its sums; pipelined CG's are there.
LANYARD_DEVICE_FUNCTION double alpha_of(const UpdateKernel& u) {
  const CgState& s = *u.state;
  return u.kind == UpdateKernel::Kind::kPipelined ? s.alpha : s.square / s.totals[kProduct];
}
LANYARD_DEVICE_FUNCTION double beta_of(const UpdateKernel& u) {
  const CgState& s = *u.state;
  return u.kind == UpdateKernel::Kind::kPipelined ? s.beta : s.totals[kSquare] / s.square;
}

// Enqueues them on one stream; their arguments must live until they have run. One thread at a time.
class CgKernels {
 public:
  virtual ~CgKernels() = default;
  virtual void launch(const GatherKernel& kernel) = 0;
  virtual void launch(const SpmvKernel& kernel) = 0;
  virtual void launch(const DotKernel& kernel) = 0;
  virtual void launch(const UpdateKernel& kernel) = 0;
  virtual void launch(const StepKernel& kernel) = 0;
};

// On a GPU's stream, which has nothing enqueued yet. Null in builds without GPU code.
std::unique_ptr<CgKernels> make_gpu_cg_kernels(Stream& stream);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_CG_KERNELS_H_
