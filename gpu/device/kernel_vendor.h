// The functions that device code spells differently for CUDA and HIP.
#ifndef LANYARD_GPU_DEVICE_KERNEL_VENDOR_H_
#define LANYARD_GPU_DEVICE_KERNEL_VENDOR_H_

#ifdef __HIP__
#include <hip/hip_runtime.h>
#endif

#include <stdint.h>

namespace lanyard::gpu {

// A thread that waits for a word acquires with each of its first kEagerLooks loads. That saves
// the fence after the last load, two thirds of a trip over the bus. But each acquire empties
// the multiprocessor's cache for other kernels too. So longer waits load without acquire, and
// fence once.

// Loads and stores of words that the host and other devices use too. The caller adds fences. Only
// acquire_word() orders by itself: writes before the value that it returns are visible.
#ifdef __HIP__
__device__ inline uint64_t load_word(uint64_t word) {
  return __hip_atomic_load(reinterpret_cast<uint64_t*>(word), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ inline uint64_t acquire_word(uint64_t word) {
  return __hip_atomic_load(reinterpret_cast<uint64_t*>(word), __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ inline void store_word(uint64_t word, uint64_t value) {
  __hip_atomic_store(reinterpret_cast<uint64_t*>(word), value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ inline void add_to_word(uint64_t word, uint64_t value) {
  atomicAdd_system(reinterpret_cast<unsigned long long*>(word), value);
}
// Compare and swap; returns the old value. Acquires and releases among this device's kernels.
__device__ inline uint64_t exchange_word(uint64_t word, uint64_t expected, uint64_t value) {
  __hip_atomic_compare_exchange_strong(reinterpret_cast<uint64_t*>(word), &expected, value, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}
// An acquire empties a cache that all of the device's kernels use.
constexpr uint32_t kEagerLooks = 0;
// A kernel may begin before the stream's previous kernel has ended. wait_for_previous_kernel()
// returns once that has ended. allow_next_kernel() lets the next one begin, if it waits likewise.
__device__ inline void wait_for_previous_kernel() {}
__device__ inline void allow_next_kernel() {}
// A wavefront that waits leaves its compute unit to others.
__device__ inline void pause() { __builtin_amdgcn_s_sleep(2); }
// Nanoseconds since some time. The counter of gfx9 devices runs at 100 MHz.
__device__ inline uint64_t clock_ns() { return wall_clock64() * 10; }
#else
__device__ inline uint64_t load_word(uint64_t word) { return *reinterpret_cast<volatile uint64_t*>(word); }
__device__ inline uint64_t acquire_word(uint64_t word) {
  uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline void store_word(uint64_t word, uint64_t value) {
  *reinterpret_cast<volatile uint64_t*>(word) = value;
}
// Atomic on this device, the only one that adds to the word. A bus without atomics does not grant
// more, and compute-sanitizer reports the request for more as an error.
__device__ inline void add_to_word(uint64_t word, uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(word), value);
}
// Compare and swap; returns the old value. Acquires and releases among this device's kernels.
__device__ inline uint64_t exchange_word(uint64_t word, uint64_t expected, uint64_t value) {
  uint64_t there;
  asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(there)
               : "l"(word), "l"(expected), "l"(value)
               : "memory");
  return there;
}
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// About 60 us.
constexpr uint32_t kEagerLooks = 64;
__device__ inline void pause() { __nanosleep(40); }
__device__ inline uint64_t clock_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
#endif

// Atomic on this device. The word is in its memory. Returns the old value.
__device__ inline uint64_t add_to_own_word(uint64_t word, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
}
// Atomic with other devices too, if the link between them allows it. Returns the old value.
__device__ inline uint64_t add_to_shared_word(uint64_t word, uint64_t value) {
  return atomicAdd_system(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
}

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_KERNEL_VENDOR_H_
