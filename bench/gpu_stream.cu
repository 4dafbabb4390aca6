// A GPU's stream with the benchmarks' kernels: one source for CUDA and HIP, by the vendor's
// run-time library, as a program that uses Lanyard would be written.
#include "bench/gpu_vendor.h"  // first: HIP's functions must be declared before lanyard_device.h

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/gpu_stream.h"
#include "bench/jacobi_gpu.h"

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
constexpr unsigned kMaxBlocks = 1024;     // more are no faster: kernels stride
constexpr unsigned kComputeBlocks = 256;  // on every multiprocessor, and room for others on each
constexpr unsigned kTripThreads = 1024;
constexpr unsigned kFusedThreads = 512;
constexpr size_t kFusedBytes = 64 * 1024;  // of a message, for each block
constexpr unsigned kMaxFusedBlocks = 64;   // that all fit on any GPU at once

unsigned fused_blocks_for(size_t bytes) {
  return static_cast<unsigned>(std::clamp<size_t>(bytes / kFusedBytes, 1, kMaxFusedBlocks));
}

// Of a block that has a message to itself: more only make its barriers slower.
unsigned threads_for(size_t bytes, unsigned most) {
  constexpr size_t kBytesEach = 16, kWarp = 64;
  return static_cast<unsigned>(std::clamp<size_t>((bytes / kBytesEach + kWarp - 1) / kWarp * kWarp, kWarp, most));
}
unsigned fused_threads_for(size_t bytes) { return threads_for(bytes, kFusedThreads); }

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

// First in kernels of a chain, each of which begins while the one before it ends.
__device__ void begin_in_turn() {
  await_kernel_before();
  let_next_kernel_begin();
}

__global__ void copy(CopyKernel what) {
  begin_in_turn();
  copy_part(what, size_t{blockIdx.x} * blockDim.x + threadIdx.x, size_t{gridDim.x} * blockDim.x);
}

// All cells of all messages are numbered; a thread takes every so manyth.
template <class T>
__global__ void halo(HaloKernel what, long cells) {
  begin_in_turn();
  const long threads = static_cast<long>(gridDim.x) * blockDim.x;
  T* const block = reinterpret_cast<T*>(what.cells);
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < cells; i += threads) {
    long rest = i;
    int d = 0;
    while (rest >= what.regions[d].planes * what.regions[d].rows * what.regions[d].columns) {
      rest -= what.regions[d].planes * what.regions[d].rows * what.regions[d].columns;
      ++d;
    }
    const Region& region = what.regions[d];
    long row = rest / region.columns, plane = 0;
    const long column = rest - row * region.columns;
    if (region.planes > 1) {
      plane = row / region.rows;
      row -= plane * region.rows;
    }
    T* const cell = block + what.origin + (region.plane + plane) * what.plane_stride +
                    (region.row + row) * what.stride + region.column + column;
    T* const item = reinterpret_cast<T*>(what.messages[d]) + rest;
    if (what.is_pack)
      *item = *cell;
    else
      *cell = *item;
  }
}

__global__ void life(LifeKernel what) {
  begin_in_turn();
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
  __device__ void copy(const CopyKernel& what) const {
    __syncthreads();
    copy_part(what, threadIdx.x, blockDim.x);
    __syncthreads();
  }
};

// One block.
__global__ void __launch_bounds__(kTripThreads) trips(TripsKernel what) { make_trips(what, BlockThread()); }

__device__ size_t thread_of_grid() { return size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ size_t threads_of_grid() { return size_t{gridDim.x} * blockDim.x; }

// All blocks are resident at once.
__global__ void __launch_bounds__(kFusedThreads) pack_and_send(SendKernel what) {
  begin_in_turn();
  const auto start_receive = [&] {
    if (what.receive != nullptr)
      MPIX_Device_block_raiseall(what.receive, gridDim.x);  // by the last of them
  };
  if (what.send == nullptr)
    return start_receive();
  // A long message; the next one comes back as it ends, and is to find the receive started.
  const bool direct = what.pack.bytes > 0 && MPIX_Device_block_may_store(what.send, 0);
  if (direct) {
    start_receive();
    what.pack.to = static_cast<std::byte*>(MPIX_Device_remote(what.send, 0));
    copy_part(what.pack, thread_of_grid(), threads_of_grid());
    MPIX_Device_block_raiseall(what.send, gridDim.x);
    return;
  }
  copy_part(what.pack, thread_of_grid(), threads_of_grid());
  MPIX_Device_block_startall(what.send, blockIdx.x, gridDim.x);
  start_receive();  // off the way of what is sent
}

__global__ void __launch_bounds__(kFusedThreads) wait_and_unpack(WaitKernel what) {
  await_kernel_before();
  if (what.sent != nullptr)
    MPIX_Device_block_waitall(what.sent, gridDim.x);
  if (what.received != nullptr)
    MPIX_Device_block_waitall(what.received, gridDim.x);
  let_next_kernel_begin();  // not before: this one may wait for long
  copy_part(what.unpack, thread_of_grid(), threads_of_grid());
}

__global__ void compute_all(ComputeKernel what) {
  const float x = compute(what.rounds);
  if (x < 0)  // never, which the compiler cannot know: so every thread computes
    *what.result = x;
}

// The block that ends last counts the round, as all others have read the count by then.
__global__ void __launch_bounds__(kThreads) contribute(ContributionKernel what) {
  begin_in_turn();
  const uint64_t round = *what.rounds + 1;
  for (size_t i = thread_of_grid(); i < what.count; i += threads_of_grid())
    what.to[i] = contribution(round, what.rank, i);
  __syncthreads();
  if (threadIdx.x != 0)
    return;
  if (gridDim.x > 1) {
    __threadfence();
    if (atomicAdd(what.blocks_done, 1u) + 1 < gridDim.x)
      return;
    __threadfence();
    *what.blocks_done = 0;
  }
  *what.rounds = round;
}

std::string version_text(int version) {
  return std::to_string(version / kMajorVersion) + "." + std::to_string(version % kMajorVersion / kMinorVersion);
}

class GpuGraph final : public Graph {
 public:
  explicit GpuGraph(GPU(Graph_t) graph) {
    check(GPU(GraphInstantiateWithFlags)(&executable_, graph, 0), "GraphInstantiateWithFlags");
    check(GPU(GraphDestroy)(graph), "GraphDestroy");
  }
  ~GpuGraph() override { check(GPU(GraphExecDestroy)(executable_), "GraphExecDestroy"); }
  GPU(GraphExec_t) executable() const { return executable_; }

 private:
  GPU(GraphExec_t) executable_ = nullptr;
};

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
    check(gpu_launch(copy, blocks_for(kernel.bytes / 16), kThreads, stream_, kernel), "launch of the copy kernel");
  }
  void launch(const HaloKernel& kernel) override {
    long cells = 0;
    for (const Region& region : kernel.regions)
      cells += region.cells();
    const unsigned blocks = blocks_for(static_cast<size_t>(cells));
    const auto of_cells = kernel.cell_bytes == 1   ? halo<uint8_t>
                          : kernel.cell_bytes == 4 ? halo<uint32_t>
                                                   : halo<uint64_t>;
    check(gpu_launch(of_cells, blocks, kThreads, stream_, kernel, cells), "launch of the halo kernel");
  }
  void launch(const LifeKernel& kernel) override {
    const dim3 threads(64, 4);
    const auto blocks = [](long cells, unsigned each) { return static_cast<unsigned>((cells + each - 1) / each); };
    const dim3 grid(blocks(kernel.columns, threads.x), std::min(blocks(kernel.rows, threads.y), 65535u));
    check(gpu_launch(life, grid, threads, stream_, kernel), "launch of the life kernel");
  }
  void launch(const JacobiKernel& kernel) override {
    check(launch_jacobi(kernel, stream_), "launch of the Jacobi kernel");
  }
  void launch(const JacobiLoop& kernel) override {
    check(launch_jacobi(kernel, device_, stream_), "launch of the Jacobi loop");
  }
  void launch(const TripsKernel& kernel) override {
    trips<<<1, threads_for(kernel.bytes, kTripThreads), 0, stream_>>>(kernel);
    check(GPU(GetLastError)(), "launch of the round trip kernel");
  }

  void launch(const ComputeKernel& kernel) override {
    compute_all<<<kComputeBlocks, kThreads, 0, stream_>>>(kernel);
    check(GPU(GetLastError)(), "launch of the computing kernel");
  }
  void launch(const ContributionKernel& kernel) override {
    check(gpu_launch(contribute, blocks_for(kernel.count), kThreads, stream_, kernel),
          "launch of the contributing kernel");
  }

  void launch_send(const SendKernel& kernel) override {
    check(gpu_launch(pack_and_send, fused_blocks_for(kernel.bytes), fused_threads_for(kernel.bytes), stream_, kernel),
          "launch of the kernel that sends");
  }
  void launch_wait(const WaitKernel& kernel) override {
    check(gpu_launch(wait_and_unpack, fused_blocks_for(kernel.bytes), fused_threads_for(kernel.bytes), stream_, kernel),
          "launch of the kernel that waits");
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

  std::string driver_version() const override {
    int version = 0;
    check(GPU(DriverGetVersion)(&version), "DriverGetVersion");
    return version_text(version);
  }
  std::string runtime_version() const override {
    int version = 0;
    check(GPU(RuntimeGetVersion)(&version), "RuntimeGetVersion");
    return version_text(version);
  }

  std::byte* allocate(size_t bytes) override {
    void* memory = nullptr;
    check(GPU(Malloc)(&memory, bytes), "Malloc");
    return static_cast<std::byte*>(memory);
  }
  void free(std::byte* memory) override { check(GPU(Free)(memory), "Free"); }
  std::byte* allocate_pinned(size_t bytes) override {
    void* memory = nullptr;
    check(gpu_allocate_pinned(&memory, bytes), "allocation of pinned memory");
    return static_cast<std::byte*>(memory);
  }
  void free_pinned(std::byte* memory) override { check(gpu_free_pinned(memory), "freeing of pinned memory"); }

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
  std::unique_ptr<Graph> end_capture() override {
    GPU(Graph_t) graph = nullptr;
    check(GPU(StreamEndCapture)(stream_, &graph), "StreamEndCapture");
    return std::make_unique<GpuGraph>(graph);
  }
  void replay(Graph& graph) override {
    check(GPU(GraphLaunch)(static_cast<GpuGraph&>(graph).executable(), stream_), "GraphLaunch");
  }

 private:
  const int device_;
  GPU(Stream_t) stream_;
};

// CUDA loads a kernel at its first launch, and may wait for the device then: but the device may be
// waiting for what the host is about to launch.
void load_kernels() {
  const void* const kernels[] = {reinterpret_cast<const void*>(copy),
                                 reinterpret_cast<const void*>(halo<uint8_t>),
                                 reinterpret_cast<const void*>(halo<uint32_t>),
                                 reinterpret_cast<const void*>(halo<uint64_t>),
                                 reinterpret_cast<const void*>(life),
                                 reinterpret_cast<const void*>(trips),
                                 reinterpret_cast<const void*>(compute_all),
                                 reinterpret_cast<const void*>(contribute),
                                 reinterpret_cast<const void*>(pack_and_send),
                                 reinterpret_cast<const void*>(wait_and_unpack),
                                 reinterpret_cast<const void*>(jacobi_step<float>),
                                 reinterpret_cast<const void*>(jacobi_step<double>),
                                 reinterpret_cast<const void*>(jacobi_all<float>),
                                 reinterpret_cast<const void*>(jacobi_all<double>)};
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
