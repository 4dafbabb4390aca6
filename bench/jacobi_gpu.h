// Jacobi's kernels on GPUs, for CUDA and HIP: a part of gpu_stream.cu.
#ifndef LANYARD_BENCH_JACOBI_GPU_H_
#define LANYARD_BENCH_JACOBI_GPU_H_

#include "bench/gpu_vendor.h"

#include <algorithm>

#include "bench/jacobi_kernels.h"

namespace lanyard::bench {

template <class T>
__global__ void jacobi_step(JacobiKernel what) {
  await_kernel_before();
  let_next_kernel_begin();
  const JacobiShape& shape = what.shape;
  const long column = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long threads = static_cast<long>(gridDim.y) * blockDim.y;
  if (column >= shape.columns)
    return;
  const T* const from = reinterpret_cast<const T*>(what.from);
  T* const to = reinterpret_cast<T*>(what.to);
  // A grid has at most 65535 blocks in this direction.
  for (long r = static_cast<long>(blockIdx.y) * blockDim.y + threadIdx.y; r < shape.planes * shape.rows; r += threads) {
    const long plane = shape.dims == 3 ? r / shape.rows : 0;
    const long here =
        shape.origin() + plane * shape.plane_stride() + (r - plane * shape.rows) * shape.stride() + column;
    to[here] = jacobi_next(from + here, shape.stride(), shape.plane_stride());
  }
}

// Blocks of the loop's kernel: the first ones have the messages, the others the rest.
struct GpuTeam {
  uint32_t with_messages;
  uint64_t* met;

  __device__ uint32_t which() const { return blockIdx.x; }
  __device__ uint32_t blocks() const { return with_messages; }
  __device__ bool is_inner() const { return blockIdx.x >= with_messages; }

  template <class Visit>
  __device__ void for_cells(const Region& region, const Visit& visit) const {
    constexpr long kLanes = 32;
    const long first_block = is_inner() ? with_messages : 0;
    const long blocks = is_inner() ? gridDim.x - with_messages : with_messages;
    const long thread = (blockIdx.x - first_block) * blockDim.x + threadIdx.x;
    const long threads = blocks * blockDim.x;
    // Neighbouring threads along a row; but where there are fewer rows than warps each would take too long.
    if (region.columns >= kLanes && region.planes * region.rows >= threads / kLanes) {
      for (long r = thread / kLanes; r < region.planes * region.rows; r += threads / kLanes)
        for (long c = thread % kLanes; c < region.columns; c += kLanes)
          visit_row(region, r, c, visit);
    } else {
      for (long i = thread; i < region.planes * region.rows * region.columns; i += threads)
        visit_row(region, i / region.columns, i % region.columns, visit);
    }
  }

  // All blocks are resident at once. What any thread of theirs has written before, all see afterwards.
  __device__ void meet(uint64_t times) const {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(reinterpret_cast<unsigned long long*>(met), 1ull);
      while (*static_cast<volatile uint64_t*>(met) < times * gridDim.x) {
      }
      __threadfence();
    }
    __syncthreads();
  }

 private:
  template <class Visit>
  __device__ static void visit_row(const Region& region, long r, long column, const Visit& visit) {
    const long plane = region.planes > 1 ? r / region.rows : 0;
    visit(region.plane + plane, region.row + (r - plane * region.rows), region.column + column);
  }
};

constexpr unsigned kJacobiThreads = 512;

template <class T>
__global__ void __launch_bounds__(kJacobiThreads)
    jacobi_all(GPU_GRID_CONSTANT const JacobiLoop what, uint32_t with_messages) {
  jacobi_loop<T>(what, GpuTeam{with_messages, what.met});
}

inline GPU(Error_t) launch_jacobi(const JacobiKernel& kernel, GPU(Stream_t) stream) {
  const dim3 threads(64, 4);
  const auto blocks = [](long cells, unsigned each) { return static_cast<unsigned>((cells + each - 1) / each); };
  const dim3 grid(blocks(kernel.shape.columns, threads.x),
                  std::min(blocks(kernel.shape.planes * kernel.shape.rows, threads.y), 65535u));
  const auto of_type = kernel.shape.item_bytes == 4 ? jacobi_step<float> : jacobi_step<double>;
  return gpu_launch(of_type, grid, threads, stream, kernel);
}

// Blocks wait for messages where they are, so everything that others wait for must find room beside them: another
// rank's blocks where two share the GPU, and the kernels of whoever carries the messages. With a third of those that
// there is room for, two ranks leave a third of the GPU. At least one block of each kind; of those with messages as few
// as come to a few cells a thread, as they have to meet for each message.
inline GPU(Error_t) launch_jacobi(const JacobiLoop& kernel, int device, GPU(Stream_t) stream) {
  constexpr long kCellsEach = 4;
  const auto of_type = kernel.shape.item_bytes == 4 ? jacobi_all<float> : jacobi_all<double>;
  int processors = 0, resident = 0;
  GPU(Error_t) code = GPU(DeviceGetAttribute)(&processors, gpu_processor_count, device);
  if (code == GPU(Success))
    code = GPU(OccupancyMaxActiveBlocksPerMultiprocessor)(&resident, of_type, kJacobiThreads, 0);
  if (code != GPU(Success))
    return code;
  long at_faces = 0;
  for (const Region& slab : kernel.slabs)
    at_faces += slab.cells();
  const long cells = kernel.shape.cells();
  const long most = std::max(2l, long{processors} * resident / 3);
  const long blocks = std::clamp((cells + kJacobiThreads - 1) / long{kJacobiThreads}, 2l, most);
  const long with_messages = std::clamp(at_faces / (kCellsEach * kJacobiThreads), 1l, std::max(1l, blocks / 4));
  of_type<<<static_cast<unsigned>(blocks), kJacobiThreads, 0, stream>>>(kernel, static_cast<uint32_t>(with_messages));
  return GPU(GetLastError)();
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_JACOBI_GPU_H_
