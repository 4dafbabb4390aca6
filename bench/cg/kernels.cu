// The kernels on a GPU's stream: one source for CUDA and HIP, by the vendor's run-time library.
#ifdef __HIP__
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#else
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/cg/kernels.h"

namespace lanyard::bench::cg {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kMostBlocks = 4096;  // more are no faster: kernels stride

// A benchmark has nothing to recover. The launcher ends the other ranks.
void check(GPU(Error_t) code) {
  if (code == GPU(Success))
    return;
  std::fprintf(stderr, "cg: kernel: %s\n", GPU(GetErrorString)(code));
  std::abort();
}

__device__ int64_t first_index() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t stride() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

__global__ void gather(GatherKernel k) {
  if (k.state->is_over)
    return;
  for (int64_t i = first_index(); i < k.count; i += stride())
    k.to[i] = k.from[k.places[i]];
}

// The value of the thread `by` lanes further on, within groups of `lanes`.
__device__ double of_lane(double value, int by, int lanes) {
#ifdef __HIP__
  return __shfl_down(value, by, lanes);
#else
  return __shfl_down_sync(0xffffffffu, value, by, lanes);
#endif
}

// `lanes` neighbouring threads a row. All threads of a warp exchange values, so all make the same
// number of rounds.
__global__ void product(ProductKernel k) {
  if (k.state->is_over)
    return;
  const int lane = static_cast<int>(threadIdx.x) % k.lanes;
  for (int64_t first = 0; first < k.rows; first += stride() / k.lanes) {
    const int64_t r = first + first_index() / k.lanes;
    double sum = 0;
    if (r < k.rows)
      for (int64_t i = k.starts[r] + lane; i < k.starts[r + 1]; i += k.lanes)
        sum += k.values[i] * k.x[k.columns[i]];
    for (int by = k.lanes / 2; by > 0; by /= 2)
      sum += of_lane(sum, by, k.lanes);
    if (lane != 0 || r >= k.rows)
      continue;
    if (k.edge == nullptr)
      k.y[r] = sum;
    else
      k.y[k.edge[r]] += sum;
  }
}

// Of the block's threads, by a tree; in thread 0.
__device__ double sum_of_block(double value) {
  __shared__ double sums[kThreads];
  __syncthreads();
  sums[threadIdx.x] = value;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

// Each block adds up its part. The one that ends last adds all parts, in their order.
__global__ void dot(DotKernel k) {
  static_assert(DotKernel::kMostParts <= kThreads);
  if (k.state->is_over)
    return;
  for (int j = 0; j < k.count; ++j) {
    double sum = 0;
    for (int64_t i = first_index(); i < k.length; i += stride())
      sum += k.a[j][i] * k.b[j][i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
      k.partial[j * DotKernel::kMostParts + blockIdx.x] = sum;
  }
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(k.parts_ready, 1u) + 1 == gridDim.x;
  }
  __syncthreads();
  if (!is_last)
    return;
  __threadfence();
  for (int j = 0; j < k.count; ++j) {
    // volatile: not by what a cache may have of before.
    const volatile double* const partial = k.partial + j * DotKernel::kMostParts;
    const double sum = sum_of_block(threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0);
    if (threadIdx.x == 0)
      k.results[j] = sum;
  }
  if (threadIdx.x == 0)
    *k.parts_ready = 0;
}

__global__ void axpy(AxpyKernel k) {
  if (k.state->is_over)
    return;
  for (int64_t i = first_index(); i < k.length; i += stride())
    for (int j = 0; j < k.count; ++j) {
      const Axpy& axpy = k.list[j];
      const double a = axpy.sign * (axpy.a == nullptr ? 1 : *axpy.a), b = axpy.b == nullptr ? 1 : *axpy.b;
      axpy.y[i] = a * axpy.x[i] + b * axpy.y[i];
    }
}

__global__ void step(StepKernel k) { make_step(k); }

__global__ void stamp(StampKernel k) {
#ifdef __HIP__
  const auto now = static_cast<int64_t>(__builtin_amdgcn_s_memrealtime()) * 10;  // 100 MHz
#else
  int64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
#endif
  *k.spent += now - *k.last;
  *k.last = now;
}

struct Launch {
  void operator()(const GatherKernel& k) const { gather<<<blocks(k.count), kThreads, 0, stream>>>(k); }
  void operator()(const ProductKernel& k) const { product<<<blocks(k.rows * k.lanes), kThreads, 0, stream>>>(k); }
  void operator()(const DotKernel& k) const {
    dot<<<std::min<unsigned>(blocks(k.length), DotKernel::kMostParts), kThreads, 0, stream>>>(k);
  }
  void operator()(const AxpyKernel& k) const { axpy<<<blocks(k.length), kThreads, 0, stream>>>(k); }
  void operator()(const StepKernel& k) const { step<<<1, 1, 0, stream>>>(k); }
  void operator()(const StampKernel& k) const { stamp<<<1, 1, 0, stream>>>(k); }

  static unsigned blocks(int64_t threads) {
    return static_cast<unsigned>(std::clamp<int64_t>((threads + kThreads - 1) / kThreads, 1, kMostBlocks));
  }
  GPU(Stream_t) stream;
};

}  // namespace

void load_gpu_kernels() {
  const auto load = [](const void* kernel) {
    GPU(FuncAttributes) attributes;
    check(GPU(FuncGetAttributes)(&attributes, kernel));
  };
  for (const void* kernel : {reinterpret_cast<const void*>(gather), reinterpret_cast<const void*>(product),
                             reinterpret_cast<const void*>(dot), reinterpret_cast<const void*>(axpy),
                             reinterpret_cast<const void*>(step), reinterpret_cast<const void*>(stamp)})
    load(kernel);
}

void launch_on_gpu(Stream& stream, const Kernel& kernel) {
  std::visit(Launch{*static_cast<GPU(Stream_t)*>(stream.address())}, kernel);
  check(GPU(GetLastError)());
}

}  // namespace lanyard::bench::cg
