// A stream of CUDA or HIP as a halo wants it, by the vendor's run-time library. To be compiled by
// the vendor's compiler. No MPI.
#ifndef LANYARD_BENCH_HALO_GPU_H_
#define LANYARD_BENCH_HALO_GPU_H_

// GPU(Malloc) is cudaMalloc or hipMalloc.
#ifdef __HIP__
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#define GPU_NAME "hip"
#else
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#define GPU_NAME "cuda"
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "stream.h"

namespace lanyard::halo {

inline GPU(Error_t) gpu_allocate_pinned(void** memory, size_t bytes) {
#ifdef __HIP__
  return hipHostMalloc(memory, bytes, hipHostMallocDefault);
#else
  return cudaMallocHost(memory, bytes);
#endif
}
inline GPU(Error_t) gpu_free_pinned(void* memory) {
#ifdef __HIP__
  return hipHostFree(memory);
#else
  return cudaFreeHost(memory);
#endif
}

// An error of the GPU ends the program.
inline void gpu_check(GPU(Error_t) code, const char* call) {
  if (code == GPU(Success))
    return;
  std::fprintf(stderr, GPU_NAME "%s: %s\n", call, GPU(GetErrorString)(code));
  std::abort();
}

constexpr unsigned kGpuThreads = 256;
constexpr unsigned kGpuBlocks = 1024;  // more are no faster: kernels stride

inline unsigned gpu_blocks(size_t threads) {
  const size_t blocks = (threads + kGpuThreads - 1) / kGpuThreads;
  return static_cast<unsigned>(std::clamp<size_t>(blocks, 1, kGpuBlocks));
}

static __global__ void copy_boxes(BoxCopies list) {
  copy_boxes_part(list, static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x,
                  static_cast<long>(gridDim.x) * blockDim.x);
}

// A stream of the current device, borrowed. Interfaces that have more than Stream and Device may be
// implemented on top. CUDA loads a kernel at its first launch, and may wait for the device then:
// launch one halo before another stream waits.
template <class StreamInterface = Stream, class DeviceInterface = Device>
class GpuStream : public StreamInterface, public DeviceInterface {
 public:
  explicit GpuStream(GPU(Stream_t) stream) : stream_(stream) {}

  using StreamInterface::launch;

  void synchronize() override { gpu_check(GPU(StreamSynchronize)(stream_), "StreamSynchronize"); }
  void launch(const BoxCopies& copies) override {
    copy_boxes<<<gpu_blocks(static_cast<size_t>(copies.cells)), kGpuThreads, 0, stream_>>>(copies);
    gpu_check(GPU(GetLastError)(), "launch of the halo kernel");
  }
  DeviceInterface* gpu() override { return this; }

  Memory allocate(size_t bytes) override {
    void* memory = nullptr;
    gpu_check(GPU(Malloc)(&memory, bytes), "Malloc");
    return {static_cast<std::byte*>(memory), [](std::byte* mine) { gpu_check(GPU(Free)(mine), "Free"); }};
  }
  Memory allocate_pinned(size_t bytes) override {
    void* memory = nullptr;
    gpu_check(gpu_allocate_pinned(&memory, bytes), "allocation of pinned memory");
    return {static_cast<std::byte*>(memory),
            [](std::byte* mine) { gpu_check(gpu_free_pinned(mine), "freeing of pinned memory"); }};
  }
  void transfer(std::byte* to, const std::byte* from, size_t bytes) override {
    gpu_check(GPU(MemcpyAsync)(to, from, bytes, GPU(MemcpyDefault), stream_), "MemcpyAsync");
  }

 protected:
  GPU(Stream_t) stream_;
};

}  // namespace lanyard::halo

#endif  // LANYARD_BENCH_HALO_GPU_H_
