// A GPU's stream with the benchmarks' kernels: one source for CUDA and HIP, by the vendor's
// run-time library, as a program that uses Lanyard would be written.

// First: HIP's functions must be declared before lanyard_device.h.
#include "bench/halo/gpu.h"

#include "bench/stream.h"

namespace lanyard::bench {
namespace {

using halo::gpu_blocks;
using halo::gpu_check;  // a benchmark has nothing to recover; the launcher ends the other ranks
constexpr unsigned kThreads = halo::kGpuThreads;
constexpr unsigned kTripThreads = 1024;

// The part of one thread of `threads`. Both sides are aligned alike where they are the beginnings
// of buffers, which all of the benchmarks' are.
__device__ void copy_part(const CopyKernel& what, size_t thread, size_t threads) {
  size_t done = 0;
  if ((reinterpret_cast<uintptr_t>(what.to) | reinterpret_cast<uintptr_t>(what.from)) % 16 == 0) {
    const size_t units = what.bytes / 16;
    for (size_t i = thread; i < units; i += threads)
      reinterpret_cast<uint4*>(what.to)[i] = reinterpret_cast<const uint4*>(what.from)[i];
    done = units * 16;
  }
  for (size_t i = done + thread; i < what.bytes; i += threads)
    what.to[i] = what.from[i];
}

__global__ void copy(CopyKernel what) {
  copy_part(what, size_t{blockIdx.x} * blockDim.x + threadIdx.x, size_t{gridDim.x} * blockDim.x);
}

// Columns along x, lines of cells along y: a grid has at most 65535 blocks in that direction.
struct Lines {
  __device__ Lines()
      : column(static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x),
        first(static_cast<long>(blockIdx.y) * blockDim.y + threadIdx.y),
        step(static_cast<long>(gridDim.y) * blockDim.y) {}
  long column, first, step;
};

template <class T>
__global__ void life(LifeKernel what) {
  const Lines lines;
  const long stride = what.columns + 2;
  if (lines.column >= what.columns)
    return;
  for (long r = lines.first; r < what.rows; r += lines.step) {
    const long cell = (r + 1) * stride + lines.column + 1;
    const T* const here = static_cast<const T*>(what.from) + cell;
    const T* const above = here - stride;
    const T* const below = here + stride;
    const T neighbours = above[-1] + above[0] + above[1] + here[-1] + here[1] + below[-1] + below[0] + below[1];
    static_cast<T*>(what.to)[cell] = (neighbours | here[0]) == 3;
  }
}

template <class T>
__global__ void jacobi(JacobiKernel what) {
  const Lines lines;
  if (lines.column >= what.columns)
    return;
  for (long line = lines.first; line < what.count * what.rows; line += lines.step) {
    const long slab = what.first + line / what.rows * what.step;
    const long cell = slab * what.slab_stride + line % what.rows * what.row_stride + lines.column;
    static_cast<T*>(what.to)[cell] = jacobi_next(static_cast<const T*>(what.from) + cell, what);
  }
}

struct BlockThread {
  __device__ bool is_leader() const { return threadIdx.x == 0; }
  __device__ void copy(const CopyKernel& what) const {
    __syncthreads();
    copy_part(what, threadIdx.x, blockDim.x);
    __syncthreads();
  }
};

// One block: what its threads read after the leader's wait, they read through the same cache.
__global__ void __launch_bounds__(kTripThreads) trips(TripsKernel what) { make_trips(what, BlockThread()); }

class GpuStream final : public halo::GpuStream<Stream, Gpu> {
 public:
  GpuStream(int device, GPU(Stream_t) stream) : halo::GpuStream<Stream, Gpu>(stream), device_(device) {}
  ~GpuStream() override { gpu_check(GPU(StreamDestroy)(stream_), "StreamDestroy"); }

#ifdef __HIP__
  Kind kind() const override { return Kind::kHip; }
#else
  Kind kind() const override { return Kind::kCuda; }
#endif
  void* address() override { return &stream_; }

  using halo::GpuStream<Stream, Gpu>::launch;
  void launch(const CopyKernel& kernel) override { run("copy", copy, gpu_blocks(kernel.bytes / 16), kThreads, kernel); }
  void launch(const LifeKernel& kernel) override {
    const auto function = kernel.cell_bytes == 1 ? life<uint8_t> : life<uint64_t>;
    run("life", function, grid(kernel.columns, kernel.rows), kLineThreads, kernel);
  }
  void launch(const JacobiKernel& kernel) override {
    const auto function = kernel.cell_bytes == 4 ? jacobi<float> : jacobi<double>;
    run("jacobi", function, grid(kernel.columns, kernel.count * kernel.rows), kLineThreads, kernel);
  }
  void launch(const TripsKernel& kernel) override { run("round trip", trips, 1, kTripThreads, kernel); }

  std::string device_name() const override {
#ifdef __HIP__
    hipDeviceProp_t properties;
#else
    cudaDeviceProp properties;
#endif
    gpu_check(GPU(GetDeviceProperties)(&properties, device_), "GetDeviceProperties");
    return properties.name;
  }

  std::string device_place() const override {
    char place[32] = {};
    gpu_check(GPU(DeviceGetPCIBusId)(place, sizeof place - 1, device_), "DeviceGetPCIBusId");
    return place;
  }

  // Relaxed: other threads, Lanyard's among them, go on using the device.
  void begin_capture() override {
    gpu_check(GPU(StreamBeginCapture)(stream_, GPU(StreamCaptureModeRelaxed)), "StreamBeginCapture");
  }
  Graph end_capture() override {
    GPU(Graph_t) graph = nullptr;
    GPU(GraphExec_t) executable = nullptr;
    gpu_check(GPU(StreamEndCapture)(stream_, &graph), "StreamEndCapture");
    gpu_check(GPU(GraphInstantiateWithFlags)(&executable, graph, 0), "GraphInstantiateWithFlags");
    gpu_check(GPU(GraphDestroy)(graph), "GraphDestroy");
    return Graph(executable, [](GPU(GraphExec_t) mine) { gpu_check(GPU(GraphExecDestroy)(mine), "GraphExecDestroy"); });
  }
  void replay(const Graph& graph) override {
    gpu_check(GPU(GraphLaunch)(static_cast<GPU(GraphExec_t)>(graph.get()), stream_), "GraphLaunch");
  }

 private:
  template <class Argument>
  void run(const char* name, void (*kernel)(Argument), dim3 blocks, dim3 threads, const Argument& argument) {
    kernel<<<blocks, threads, 0, stream_>>>(argument);
    gpu_check(GPU(GetLastError)(), (std::string("launch of kernel ") + name).c_str());
  }
  static constexpr dim3 kLineThreads{64, 4};
  static dim3 grid(long columns, long lines) {
    const auto blocks = [](long cells, unsigned each) { return static_cast<unsigned>((cells + each - 1) / each); };
    return dim3(blocks(columns, kLineThreads.x), std::clamp(blocks(lines, kLineThreads.y), 1u, 65535u));
  }

  const int device_;
};

// CUDA loads a kernel at its first launch, and may wait for the device then: but the device may be
// waiting for what the host is about to launch.
void load_kernels() {
  const void* const kernels[] = {
      reinterpret_cast<const void*>(copy),          reinterpret_cast<const void*>(halo::copy_boxes),
      reinterpret_cast<const void*>(life<uint8_t>), reinterpret_cast<const void*>(life<uint64_t>),
      reinterpret_cast<const void*>(jacobi<float>), reinterpret_cast<const void*>(jacobi<double>),
      reinterpret_cast<const void*>(trips)};
  for (const void* kernel : kernels) {
    GPU(FuncAttributes) attributes;
    gpu_check(GPU(FuncGetAttributes)(&attributes, kernel), "FuncGetAttributes");
  }
}

}  // namespace

std::unique_ptr<Stream> open_gpu_stream(int local_rank, std::string& why) {
  const auto failed = [&](GPU(Error_t) code, const char* call) {
    if (code != GPU(Success))
      why = std::string(GPU_NAME) + call + ": " + GPU(GetErrorString)(code);
    return code != GPU(Success);
  };
  int devices = 0;
  if (failed(GPU(GetDeviceCount)(&devices), "GetDeviceCount"))
    return nullptr;
  if (devices == 0) {
    why = GPU_NAME ": no device";
    return nullptr;
  }
  const int device = local_rank % devices;
  if (failed(GPU(SetDevice)(device), "SetDevice"))
    return nullptr;
  GPU(Stream_t) stream = nullptr;
  if (failed(GPU(StreamCreateWithFlags)(&stream, GPU(StreamNonBlocking)), "StreamCreateWithFlags"))
    return nullptr;
  load_kernels();
  return std::make_unique<GpuStream>(device, stream);
}

}  // namespace lanyard::bench
