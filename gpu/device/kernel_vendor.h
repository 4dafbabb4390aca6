// The few things that device code spells differently for CUDA and HIP.
#ifndef LANYARD_GPU_DEVICE_KERNEL_VENDOR_H_
#define LANYARD_GPU_DEVICE_KERNEL_VENDOR_H_

#ifdef __HIP__
#include <hip/hip_runtime.h>
#endif

#include <stdint.h>

namespace lanyard::gpu {

// Loads and stores of words that the host and other devices see too. What follows from them is up to fences.
#ifdef __HIP__
__device__ inline uint64_t load_word(uint64_t word) {
  return __hip_atomic_load(reinterpret_cast<uint64_t*>(word), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ inline void store_word(uint64_t word, uint64_t value) {
  __hip_atomic_store(reinterpret_cast<uint64_t*>(word), value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
// A wavefront that waits leaves its unit to others.
__device__ inline void pause() { __builtin_amdgcn_s_sleep(2); }
#else
__device__ inline uint64_t load_word(uint64_t word) { return *reinterpret_cast<volatile uint64_t*>(word); }
__device__ inline void store_word(uint64_t word, uint64_t value) {
  *reinterpret_cast<volatile uint64_t*>(word) = value;
}
__device__ inline void pause() { __nanosleep(40); }
#endif

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_KERNEL_VENDOR_H_
