// The few things that device code spells differently for CUDA and HIP.
#ifndef LANYARD_GPU_DEVICE_KERNEL_VENDOR_H_
#define LANYARD_GPU_DEVICE_KERNEL_VENDOR_H_

#ifdef __HIP__
#include <hip/hip_runtime.h>
#endif

#include <stdint.h>

namespace lanyard::gpu {

// Who looks for a word again and again acquires with each of the first kEagerLooks loads, which spares the fence behind
// the last one, two thirds of a trip over the bus. But each empties the multiprocessor's cache of what other kernels
// have read there, so a wait that takes longer loads without, and fences once.

// Loads and stores of words that the host and other devices see too. What follows from them is up to fences; but what
// was written before the value that acquire_word() returns is visible.
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
// Returns what was there before. Acquires and releases what this device's kernels see.
__device__ inline uint64_t exchange_word(uint64_t word, uint64_t expected, uint64_t value) {
  __hip_atomic_compare_exchange_strong(reinterpret_cast<uint64_t*>(word), &expected, value, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}
// Acquiring empties a cache that all of the device's kernels use.
constexpr uint32_t kEagerLooks = 0;
// Behind it is what comes behind the kernel before this one, which may not have ended when this one begins; and the
// kernel behind this one may begin, if it waits so too.
__device__ inline void await_kernel_before() {}
__device__ inline void let_kernel_behind_begin() {}
// A wavefront that waits leaves its unit to others.
__device__ inline void pause() { __builtin_amdgcn_s_sleep(2); }
// Nanoseconds since some time. The counter of gfx9's devices has 100 MHz.
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
// Indivisible to this device, which alone adds to the word: more a bus without atomics does not grant, and
// compute-sanitizer takes asking for it as an error.
__device__ inline void add_to_word(uint64_t word, uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(word), value);
}
// Returns what was there before. Acquires and releases what this device's kernels see.
__device__ inline uint64_t exchange_word(uint64_t word, uint64_t expected, uint64_t value) {
  uint64_t there;
  asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(there)
               : "l"(word), "l"(expected), "l"(value)
               : "memory");
  return there;
}
__device__ inline void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void let_kernel_behind_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Some 60 us.
constexpr uint32_t kEagerLooks = 64;
__device__ inline void pause() { __nanosleep(40); }
__device__ inline uint64_t clock_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
#endif

// Indivisible to this device, whose memory it is in. Returns what was there before.
__device__ inline uint64_t add_to_own_word(uint64_t word, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
}
// Indivisible to other devices too, which the link between them must allow. Returns what was there before.
__device__ inline uint64_t add_to_shared_word(uint64_t word, uint64_t value) {
  return atomicAdd_system(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
}

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_KERNEL_VENDOR_H_
