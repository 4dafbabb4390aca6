// A GPU's stream with the benchmarks' kernels: one source for CUDA and HIP, by the vendor's
// run-time library, as a program that uses Lanyard would be written.

// GPU(Malloc) is cudaMalloc or hipMalloc. First: HIP's functions must be declared before lanyard_device.h.
#ifdef __HIP__
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#define GPU_NAME "hip"
using GpuProperties = hipDeviceProp_t;
inline hipError_t gpu_allocate_pinned(void** memory, size_t bytes) {
  return hipHostMalloc(memory, bytes, hipHostMallocDefault);
}
inline hipError_t gpu_free_pinned(void* memory) { return hipHostFree(memory); }
#else
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#define GPU_NAME "cuda"
using GpuProperties = cudaDeviceProp;
inline cudaError_t gpu_allocate_pinned(void** memory, size_t bytes) { return cudaMallocHost(memory, bytes); }
inline cudaError_t gpu_free_pinned(void* memory) { return cudaFreeHost(memory); }
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/stream.h"

namespace lanyard::bench {
namespace {

// A benchmark has nothing to recover. The launcher ends the other ranks.
void check(GPU(Error_t) code, const char* call) {
  if (code == GPU(Success))
    return;
  std::fprintf(stderr, GPU_NAME "%s: %s\n", call, GPU(GetErrorString)(code));
  std::abort();
}

constexpr unsigned kThreads = 256;
constexpr unsigned kMaxBlocks = 1024;  // more are no faster: kernels stride
constexpr unsigned kTripThreads = 1024;

unsigned blocks_for(size_t threads) {
  const size_t blocks = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<size_t>(blocks, 1, kMaxBlocks));
}

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

// All cells of all messages are numbered; a thread takes every so manyth.
template <class T>
__global__ void halo(HaloKernel what, long cells) {
  const long threads = static_cast<long>(gridDim.x) * blockDim.x;
  T* const block = reinterpret_cast<T*>(what.cells);
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < cells; i += threads) {
    long rest = i;
    int d = 0;
    while (rest >= what.regions[d].rows * what.regions[d].columns) {
      rest -= what.regions[d].rows * what.regions[d].columns;
      ++d;
    }
    const Region& region = what.regions[d];
    const long row = region.row + rest / region.columns, column = region.column + rest % region.columns;
    T* const cell = block + (row + 1) * what.stride + column + 1;
    T* const item = reinterpret_cast<T*>(what.messages[d]) + rest;
    if (what.is_pack)
      *item = *cell;
    else
      *cell = *item;
  }
}

__global__ void life(LifeKernel what) {
  const long c = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long stride = what.columns + 2;
  const long threads = static_cast<long>(gridDim.y) * blockDim.y;
  if (c >= what.columns)
    return;
  // A grid has at most 65535 blocks in this direction.
  for (long r = static_cast<long>(blockIdx.y) * blockDim.y + threadIdx.y; r < what.rows; r += threads) {
    const Cell* const here = what.from + (r + 1) * stride + c + 1;
    const Cell* const above = here - stride;
    const Cell* const below = here + stride;
    const int neighbours = above[-1] + above[0] + above[1] + here[-1] + here[1] + below[-1] + below[0] + below[1];
    what.to[(r + 1) * stride + c + 1] = static_cast<Cell>((neighbours | here[0]) == 3);
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

class GpuStream final : public Stream, public Gpu {
 public:
  GpuStream(int device, GPU(Stream_t) stream) : device_(device), stream_(stream) {}
  ~GpuStream() override { check(GPU(StreamDestroy)(stream_), "StreamDestroy"); }

#ifdef __HIP__
  Kind kind() const override { return Kind::kHip; }
#else
  Kind kind() const override { return Kind::kCuda; }
#endif
  void* address() override { return &stream_; }
  void synchronize() override { check(GPU(StreamSynchronize)(stream_), "StreamSynchronize"); }
  Gpu* gpu() override { return this; }

  void launch(const CopyKernel& kernel) override {
    copy<<<blocks_for(kernel.bytes / 16), kThreads, 0, stream_>>>(kernel);
    check(GPU(GetLastError)(), "launch of the copy kernel");
  }
  void launch(const HaloKernel& kernel) override {
    long cells = 0;
    for (const Region& region : kernel.regions)
      cells += region.cells();
    const unsigned blocks = blocks_for(static_cast<size_t>(cells));
    if (kernel.cell_bytes == 1)
      halo<uint8_t><<<blocks, kThreads, 0, stream_>>>(kernel, cells);
    else if (kernel.cell_bytes == 4)
      halo<uint32_t><<<blocks, kThreads, 0, stream_>>>(kernel, cells);
    else
      halo<uint64_t><<<blocks, kThreads, 0, stream_>>>(kernel, cells);
    check(GPU(GetLastError)(), "launch of the halo kernel");
  }
  void launch(const LifeKernel& kernel) override {
    const dim3 threads(64, 4);
    const auto blocks = [](long cells, unsigned each) { return static_cast<unsigned>((cells + each - 1) / each); };
    const dim3 grid(blocks(kernel.columns, threads.x), std::min(blocks(kernel.rows, threads.y), 65535u));
    life<<<grid, threads, 0, stream_>>>(kernel);
    check(GPU(GetLastError)(), "launch of the life kernel");
  }
  void launch(const TripsKernel& kernel) override {
    trips<<<1, kTripThreads, 0, stream_>>>(kernel);
    check(GPU(GetLastError)(), "launch of the round trip kernel");
  }

  std::string device_name() const override {
    GpuProperties properties;
    check(GPU(GetDeviceProperties)(&properties, device_), "GetDeviceProperties");
    return properties.name;
  }

  std::string device_place() const override {
    char place[32] = {};
    check(GPU(DeviceGetPCIBusId)(place, sizeof place - 1, device_), "DeviceGetPCIBusId");
    return place;
  }

  Memory allocate(size_t bytes) override {
    void* memory = nullptr;
    check(GPU(Malloc)(&memory, bytes), "Malloc");
    return {static_cast<std::byte*>(memory), [](std::byte* mine) { check(GPU(Free)(mine), "Free"); }};
  }
  Memory allocate_pinned(size_t bytes) override {
    void* memory = nullptr;
    check(gpu_allocate_pinned(&memory, bytes), "allocation of pinned memory");
    return {static_cast<std::byte*>(memory),
            [](std::byte* mine) { check(gpu_free_pinned(mine), "freeing of pinned memory"); }};
  }

  // In the stream: one that does not block knows nothing of copies outside it.
  void write(std::byte* to, const std::byte* from, size_t bytes) override {
    transfer(to, from, bytes);
    synchronize();
  }
  void read(std::byte* to, const std::byte* from, size_t bytes) override {
    transfer(to, from, bytes);
    synchronize();
  }
  void transfer(std::byte* to, const std::byte* from, size_t bytes) override {
    check(GPU(MemcpyAsync)(to, from, bytes, GPU(MemcpyDefault), stream_), "MemcpyAsync");
  }

  // Relaxed: other threads, Lanyard's among them, go on using the device.
  void begin_capture() override {
    check(GPU(StreamBeginCapture)(stream_, GPU(StreamCaptureModeRelaxed)), "StreamBeginCapture");
  }
  Graph end_capture() override {
    GPU(Graph_t) graph = nullptr;
    GPU(GraphExec_t) executable = nullptr;
    check(GPU(StreamEndCapture)(stream_, &graph), "StreamEndCapture");
    check(GPU(GraphInstantiateWithFlags)(&executable, graph, 0), "GraphInstantiateWithFlags");
    check(GPU(GraphDestroy)(graph), "GraphDestroy");
    return Graph(executable, [](GPU(GraphExec_t) mine) { check(GPU(GraphExecDestroy)(mine), "GraphExecDestroy"); });
  }
  void replay(const Graph& graph) override {
    check(GPU(GraphLaunch)(static_cast<GPU(GraphExec_t)>(graph.get()), stream_), "GraphLaunch");
  }

 private:
  const int device_;
  GPU(Stream_t) stream_;
};

// CUDA loads a kernel at its first launch, and may wait for the device then: but the device may be
// waiting for what the host is about to launch.
void load_kernels() {
  const void* const kernels[] = {
      reinterpret_cast<const void*>(copy),           reinterpret_cast<const void*>(halo<uint8_t>),
      reinterpret_cast<const void*>(halo<uint32_t>), reinterpret_cast<const void*>(halo<uint64_t>),
      reinterpret_cast<const void*>(life),           reinterpret_cast<const void*>(trips)};
  for (const void* kernel : kernels) {
    GPU(FuncAttributes) attributes;
    check(GPU(FuncGetAttributes)(&attributes, kernel), "FuncGetAttributes");
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
