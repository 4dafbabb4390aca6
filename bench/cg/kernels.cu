// The kernels on a GPU's stream: one source for CUDA and HIP, by the vendor's run-time library.
// First: HIP's functions must be declared before lanyard_device.h.
#include "bench/halo/gpu.h"

#include "bench/cg/kernels.h"

namespace lanyard::bench::cg {
namespace {

constexpr unsigned kThreads = halo::kGpuThreads;
constexpr unsigned kMostBlocks = 4096;  // more are no faster: kernels stride

__device__ int64_t first_index() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t stride() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// ---- The bodies, and the blocks of threads that they can use

unsigned blocks(int64_t threads, unsigned most = kMostBlocks) {
  return static_cast<unsigned>(std::clamp<int64_t>((threads + kThreads - 1) / kThreads, 1, most));
}

unsigned blocks_of(const GatherKernel& k) { return blocks(k.count); }
__device__ void body(const GatherKernel& k) {
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

unsigned blocks_of(const ProductKernel& k) { return blocks(k.rows * k.lanes); }
// `lanes` neighbouring threads a row. All threads of a warp exchange values, so all make the same
// number of rounds.
__device__ void body(const ProductKernel& k) {
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

unsigned blocks_of(const DotKernel& k) { return blocks(k.length, DotKernel::kMostParts); }
// Each block adds up its part. The one that ends last adds all parts, in their order.
__device__ void body(const DotKernel& k) {
  static_assert(DotKernel::kMostParts <= kThreads);
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

unsigned blocks_of(const AxpyKernel& k) { return blocks(k.length); }
__device__ void body(const AxpyKernel& k) {
  for (int64_t i = first_index(); i < k.length; i += stride())
    for (int j = 0; j < k.count; ++j) {
      const Axpy& axpy = k.list[j];
      const double a = axpy.sign * (axpy.a == nullptr ? 1 : *axpy.a), b = axpy.b == nullptr ? 1 : *axpy.b;
      axpy.y[i] = a * axpy.x[i] + b * axpy.y[i];
    }
}

unsigned blocks_of(const StepKernel& /*k*/) { return 1; }
__device__ void body(const StepKernel& k) {
  if (threadIdx.x == 0)
    make_step(k);
}

unsigned blocks_of(const StampKernel& /*k*/) { return 1; }
__device__ void body(const StampKernel& k) {
  if (threadIdx.x > 0)
    return;
#ifdef __HIP__
  const auto now = static_cast<int64_t>(__builtin_amdgcn_s_memrealtime()) * 10;  // 100 MHz
#else
  int64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
#endif
  *k.spent += now - *k.last;
  *k.last = now;
}

template <class K>
__global__ void run(K k) {
  if (!k.state->is_over)
    body(k);
}

template <class... Kinds>
void load(const std::variant<Kinds...>* /*kinds*/) {
  GPU(FuncAttributes) attributes;
  (halo::gpu_check(GPU(FuncGetAttributes)(&attributes, reinterpret_cast<const void*>(run<Kinds>)), "FuncGetAttributes"),
   ...);
}

}  // namespace

void load_gpu_kernels() { load(static_cast<const Kernel*>(nullptr)); }

void launch_on_gpu(Stream& stream, const Kernel& kernel) {
  const auto gpu_stream = *static_cast<GPU(Stream_t)*>(stream.address());
  std::visit([&](const auto& k) { run<<<blocks_of(k), kThreads, 0, gpu_stream>>>(k); }, kernel);
  halo::gpu_check(GPU(GetLastError)(), "launch of a kernel of cg");
}

}  // namespace lanyard::bench::cg
