// CUDA's and HIP's run-time libraries under one name: GPU(Malloc) is cudaMalloc or hipMalloc.
#ifndef LANYARD_BENCH_GPU_VENDOR_H_
#define LANYARD_BENCH_GPU_VENDOR_H_

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

#endif  // LANYARD_BENCH_GPU_VENDOR_H_
