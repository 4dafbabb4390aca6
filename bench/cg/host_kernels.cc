#include <algorithm>
#include <chrono>
#include <utility>

#include "bench/cg/kernels.h"
#include "bench/streams.h"

namespace lanyard::bench::cg {
namespace {

void run(const GatherKernel& k) {
  for (int64_t i = 0; i < k.count; ++i)
    k.to[i] = k.from[k.places[i]];
}

void run(const ProductKernel& k) {
  for (int64_t r = 0; r < k.rows; ++r) {
    double sum = 0;
    for (int64_t i = k.starts[r]; i < k.starts[r + 1]; ++i)
      sum += k.values[i] * k.x[k.columns[i]];
    if (k.edge == nullptr)
      k.y[r] = sum;
    else
      k.y[k.edge[r]] += sum;
  }
}

// Eight sums side by side, for vector registers.
double dot(const double* a, const double* b, int64_t length) {
  constexpr int kWidth = 8;
  double sums[kWidth] = {};
  int64_t i = 0;
  for (; i + kWidth <= length; i += kWidth)
    for (int k = 0; k < kWidth; ++k)
      sums[k] += a[i + k] * b[i + k];
  for (; i < length; ++i)
    sums[0] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void run(const DotKernel& k) {
  for (int i = 0; i < k.count; ++i)
    k.results[i] = dot(k.a[i], k.b[i], k.length);
}

// Piece by piece, so that a vector that several of them use stays in the cache.
void run(const AxpyKernel& k) {
  constexpr int64_t kPiece = 512;
  for (int64_t first = 0; first < k.length; first += kPiece)
    for (int j = 0; j < k.count; ++j) {
      const Axpy& axpy = k.list[j];
      const double a = axpy.sign * (axpy.a == nullptr ? 1 : *axpy.a), b = axpy.b == nullptr ? 1 : *axpy.b;
      double* __restrict const y = axpy.y + first;
      const double* __restrict const x = axpy.x + first;
      const int64_t count = std::min(kPiece, k.length - first);
      for (int64_t i = 0; i < count; ++i)
        y[i] = a * x[i] + b * y[i];
    }
}

void run(const StepKernel& k) { make_step(k); }

void run(const StampKernel& k) {
  const int64_t now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  *k.spent += now - std::exchange(*k.last, now);
}

void run_any(void* kernel) {
  std::visit(
      [](const auto& k) {
        if (!k.state->is_over)
          run(k);
      },
      *static_cast<const Kernel*>(kernel));
}

}  // namespace

void launch(Stream& stream, const Kernel& kernel) {
  if (stream.kind() == Stream::Kind::kHost)
    static_cast<HostStream&>(stream).launch(run_any, const_cast<Kernel*>(&kernel));
  else
    launch_on_gpu(stream, kernel);
}

#ifndef LANYARD_BENCH_GPU
void load_gpu_kernels() {}
void launch_on_gpu(Stream& /*stream*/, const Kernel& /*kernel*/) { std::abort(); }  // there are no such streams
#endif

}  // namespace lanyard::bench::cg
