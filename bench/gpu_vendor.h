// CUDA's and HIP's run-time libraries under one name: GPU(Malloc) is cudaMalloc or hipMalloc.
#ifndef LANYARD_BENCH_GPU_VENDOR_H_
#define LANYARD_BENCH_GPU_VENDOR_H_

#ifdef __HIP__
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#define GPU_NAME "hip"
#define GPU_GRID_CONSTANT
using GpuProperties = hipDeviceProp_t;
constexpr int kMajorVersion = 10000000, kMinorVersion = 100000;  // what counts one in a version
constexpr auto gpu_processor_count = hipDeviceAttributeMultiprocessorCount;
inline hipError_t gpu_allocate_pinned(void** memory, size_t bytes) {
  return hipHostMalloc(memory, bytes, hipHostMallocDefault);
}
inline hipError_t gpu_free_pinned(void* memory) { return hipHostFree(memory); }
template <class... Parameters>
hipError_t gpu_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, hipStream_t stream,
                      Parameters... parameters) {
  kernel<<<grid, block, 0, stream>>>(parameters...);
  return hipGetLastError();
}
__device__ inline void await_kernel_before() {}
__device__ inline void let_next_kernel_begin() {}
#else
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#define GPU_NAME "cuda"
#define GPU_GRID_CONSTANT __grid_constant__  // a kernel's argument that is not copied where its address is taken
using GpuProperties = cudaDeviceProp;
constexpr int kMajorVersion = 1000, kMinorVersion = 10;
constexpr auto gpu_processor_count = cudaDevAttrMultiProcessorCount;
inline cudaError_t gpu_allocate_pinned(void** memory, size_t bytes) { return cudaMallocHost(memory, bytes); }
inline cudaError_t gpu_free_pinned(void* memory) { return cudaFreeHost(memory); }
// A kernel that begins while the one before it in the stream ends, where the device can do that; it calls
// await_kernel_before().
template <class... Parameters>
cudaError_t gpu_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
                       Parameters... parameters) {
  static const bool can = [] {
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
  }();
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = can ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, parameters...);
}
// Of a kernel launched so: what is before it in the stream is over.
__device__ inline void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
// The next kernel may begin, as far as its await_kernel_before().
__device__ inline void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
#endif

#endif  // LANYARD_BENCH_GPU_VENDOR_H_
