// The kernels of conjugate gradients on a GPU's stream: one source for CUDA and HIP, as gpu_stream.cu.
#include "bench/gpu_vendor.h"  // first: HIP's functions must be declared before lanyard_device.h

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/cg_kernels.h"

namespace lanyard::bench {
namespace {

// As mpi_check.h: a benchmark has nothing to recover. The launcher ends the other ranks.
void check(GPU(Error_t) code, const char* call) {
  if (code == GPU(Success))
    return;
  std::fprintf(stderr, GPU_NAME "%s: %s\n", call, GPU(GetErrorString)(code));
  std::abort();
}

constexpr unsigned kThreads = 256;
constexpr unsigned kMaxBlocks = 4096;  // more are no faster: kernels stride

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(std::clamp<int64_t>((threads + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

__device__ int64_t thread_of_grid() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t threads_of_grid() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// First in each kernel: it begins while the one before it ends. What it reads of the state stands after that.
__device__ bool begin_in_turn(const CgState* state) {
  await_kernel_before();
  let_next_kernel_begin();
  return !state->is_over;
}

// `value` of the thread `by` lanes further on, within groups of `lanes`.
__device__ double of_lane(double value, int by, int lanes) {
#ifdef __HIP__
  return __shfl_down(value, by, lanes);
#else
  return __shfl_down_sync(0xffffffffu, value, by, lanes);
#endif
}

__global__ void __launch_bounds__(kThreads) gather(GatherKernel what) {
  if (!begin_in_turn(what.state))
    return;
  for (int64_t i = thread_of_grid(); i < what.count; i += threads_of_grid())
    what.to[i] = what.from[what.places[i]];
}

// `lanes` neighbouring threads a row. All threads of a warp make equally many rounds, as they exchange values.
template <int lanes>
__global__ void __launch_bounds__(kThreads) multiply(SpmvKernel what) {
  if (!begin_in_turn(what.state))
    return;
  const int64_t rows_at_once = threads_of_grid() / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  for (int64_t first = 0; first < what.rows; first += rows_at_once) {
    const int64_t r = first + thread_of_grid() / lanes;
    double sum = 0;
    if (r < what.rows)
      for (int64_t k = what.starts[r] + lane; k < what.starts[r + 1]; k += lanes)
        sum += what.values[k] * what.x[what.columns[k]];
    for (int by = lanes / 2; by > 0; by /= 2)
      sum += of_lane(sum, by, lanes);
    if (lane != 0 || r >= what.rows)
      continue;
    if (what.edge == nullptr)
      what.y[r] = sum;
    else
      what.y[what.edge[r]] += sum;
  }
}

// Of the block's threads, by a tree; in thread 0. Begins with a barrier.
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

// Each block adds up its part, and the one that ends last all parts, in their order whichever it is.
__global__ void __launch_bounds__(kThreads) dot(DotKernel what) {
  if (!begin_in_turn(what.state))
    return;
  for (int product = 0; product < what.products; ++product) {
    double sum = 0;
    for (int64_t i = thread_of_grid(); i < what.count; i += threads_of_grid())
      sum += what.a[product][i] * what.b[product][i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
      what.partial[product * kDotBlocks + blockIdx.x] = sum;
  }
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(what.blocks_done, 1u) + 1 == gridDim.x;
  }
  __syncthreads();
  if (!is_last)
    return;
  __threadfence();
  for (int product = 0; product < what.products; ++product) {
    // Not by what a cache may have of before.
    const volatile double* const partial = what.partial + product * kDotBlocks;
    const double sum = sum_of_block(threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0);
    if (threadIdx.x == 0)
      *what.results[product] = sum;
  }
  if (threadIdx.x == 0)
    *what.blocks_done = 0;
}
static_assert(kDotBlocks <= kThreads, "the last block has a thread for each part");

template <UpdateKernel::Kind kind>
__global__ void __launch_bounds__(kThreads) update(UpdateKernel what) {
  if (!begin_in_turn(what.state) || is_void(what))
    return;
  const double alpha = alpha_of(what), beta = beta_of(what);
  for (int64_t i = thread_of_grid(); i < what.count; i += threads_of_grid())
    update_element<kind>(what, i, alpha, beta);
}

// One thread.
__global__ void step(StepKernel what) {
  if (begin_in_turn(what.state))
    make_step(what);
}

constexpr decltype(&multiply<1>) kMultiply[] = {multiply<1>, multiply<2>,  multiply<4>,
                                                multiply<8>, multiply<16>, multiply<32>};
constexpr decltype(&update<UpdateKernel::Kind::kResidual>) kUpdate[] = {update<UpdateKernel::Kind::kResidual>,
                                                                        update<UpdateKernel::Kind::kDirection>,
                                                                        update<UpdateKernel::Kind::kPipelined>};

class GpuCgKernels final : public CgKernels {
 public:
  // Loads them all: CUDA would at the first launch, and may wait for the device then, which may be waiting for what the
  // host is about to launch.
  explicit GpuCgKernels(GPU(Stream_t) stream) : stream_(stream) {
    load(gather);
    load(dot);
    load(step);
    for (const auto kernel : kMultiply)
      load(kernel);
    for (const auto kernel : kUpdate)
      load(kernel);
  }

  void launch(const GatherKernel& kernel) override {
    check(gpu_launch(gather, blocks_for(kernel.count), kThreads, stream_, kernel), "launch of the gathering kernel");
  }
  void launch(const SpmvKernel& kernel) override {
    int which = 0;
    while (1 << which < kernel.lanes)
      ++which;
    check(gpu_launch(kMultiply[which], blocks_for(kernel.rows * kernel.lanes), kThreads, stream_, kernel),
          "launch of the multiplying kernel");
  }
  void launch(const DotKernel& kernel) override {
    const unsigned blocks = std::min(blocks_for(kernel.count), static_cast<unsigned>(kDotBlocks));
    check(gpu_launch(dot, blocks, kThreads, stream_, kernel), "launch of the dot product's kernel");
  }
  void launch(const UpdateKernel& kernel) override {
    check(gpu_launch(kUpdate[static_cast<int>(kernel.kind)], blocks_for(kernel.count), kThreads, stream_, kernel),
          "launch of the updating kernel");
  }
  void launch(const StepKernel& kernel) override {
    check(gpu_launch(step, 1, 1, stream_, kernel), "launch of the scalars' kernel");
  }

 private:
  template <class Kernel>
  static void load(Kernel* kernel) {
    GPU(FuncAttributes) attributes;
    check(GPU(FuncGetAttributes)(&attributes, reinterpret_cast<const void*>(kernel)), "FuncGetAttributes");
  }

  GPU(Stream_t) stream_;
};

}  // namespace

std::unique_ptr<CgKernels> make_gpu_cg_kernels(Stream& stream) {
  return std::make_unique<GpuCgKernels>(*static_cast<GPU(Stream_t)*>(stream.address()));
}

}  // namespace lanyard::bench
