// The few things that device code spells differently for CUDA and HIP.
#ifndef LANYARD_DETAIL_KERNEL_VENDOR_H_
#define LANYARD_DETAIL_KERNEL_VENDOR_H_

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
// Indivisible to this device, whose memory it is in. Returns what was there before.
__device__ inline uint64_t add_to_own_word(uint64_t word, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(word), value);
}
// Indivisible to other devices too. Returns what was there before.
__device__ inline uint64_t add_to_shared_word(uint64_t word, uint64_t value) {
  return atomicAdd_system(reinterpret_cast<unsigned long long*>(word), value);
}
// Whether the word was as expected, and is the value now; likewise.
__device__ inline bool claim_shared_word(uint64_t word, uint64_t expected, uint64_t value) {
  return atomicCAS_system(reinterpret_cast<unsigned long long*>(word), expected, value) == expected;
}
// Two words that follow one another, each of them indivisible, in any order.
__device__ inline void load_words(uint64_t first, uint64_t& a, uint64_t& b) {
  a = load_word(first);
  b = load_word(first + sizeof a);
}
__device__ inline void store_words(uint64_t first, uint64_t a, uint64_t b) {
  store_word(first, a);
  store_word(first + sizeof a, b);
}
// What was written before is visible to who acquires what is stored behind it, and the other way round.
__device__ inline void fence_system() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, ""); }
// Acquiring empties a cache that all of the device's kernels use.
constexpr uint32_t kEagerLooks = 0;
// Behind it is what comes behind the kernel before this one, which may not have ended when this one begins; and the
// kernel behind this one may begin, if it waits so too.
__device__ inline void await_kernel_before() {}
__device__ inline void let_kernel_behind_begin() {}
// A wavefront that waits leaves its unit to others.
__device__ inline void pause() { __builtin_amdgcn_s_sleep(2); }
// Of a warp, whose threads all come to it: what they have written before all see then, as with those below.
constexpr uint32_t kWarpThreads = 64;
__device__ inline void sync_warp() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}
// What its first thread has given.
__device__ inline uint64_t share_in_warp(uint64_t value) {
  sync_warp();
  return __shfl(static_cast<unsigned long long>(value), 0);
}
// Whether all have said so.
__device__ inline bool all_of_warp(bool whether) {
  sync_warp();
  return __all(whether ? 1 : 0) != 0;
}
// Nanoseconds since some time. The counter of gfx9's devices has 100 MHz.
__device__ inline uint64_t clock_ns() { return wall_clock64() * 10; }
#else
__device__ inline uint64_t load_word(uint64_t word) { return *reinterpret_cast<volatile uint64_t*>(word); }
__device__ inline uint64_t acquire_word(uint64_t word) {
#if __CUDA_ARCH__ >= 700
  uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
#else
  const uint64_t value = load_word(word);
  __threadfence_system();
#endif
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
#if __CUDA_ARCH__ >= 700
  uint64_t there;
  asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(there)
               : "l"(word), "l"(expected), "l"(value)
               : "memory");
#else
  __threadfence();
  const uint64_t there = atomicCAS(reinterpret_cast<unsigned long long*>(word),
                                   static_cast<unsigned long long>(expected), static_cast<unsigned long long>(value));
  __threadfence();
#endif
  return there;
}
// Indivisible to this device, whose memory it is in. Returns what was there before.
__device__ inline uint64_t add_to_own_word(uint64_t word, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
}
// Indivisible to other devices too, which the link between them must allow. Returns what was there before.
__device__ inline uint64_t add_to_shared_word(uint64_t word, uint64_t value) {
#if __CUDA_ARCH__ >= 600
  return atomicAdd_system(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
#else
  return add_to_own_word(word, value);  // older ones have no such link
#endif
}
__device__ inline bool claim_shared_word(uint64_t word, uint64_t expected, uint64_t value) {
  const auto before = static_cast<unsigned long long>(expected);
#if __CUDA_ARCH__ >= 600
  return atomicCAS_system(reinterpret_cast<unsigned long long*>(word), before,
                          static_cast<unsigned long long>(value)) == before;
#else
  return atomicCAS(reinterpret_cast<unsigned long long*>(word), before, static_cast<unsigned long long>(value)) ==
         before;
#endif
}
__device__ inline void load_words(uint64_t first, uint64_t& a, uint64_t& b) {
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(first) : "memory");
}
__device__ inline void store_words(uint64_t first, uint64_t a, uint64_t b) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(first), "l"(a), "l"(b) : "memory");
}
// What __threadfence_system() says besides, one order of all such fences, nobody here needs.
__device__ inline void fence_system() {
#if __CUDA_ARCH__ >= 700
  asm volatile("fence.acq_rel.sys;" ::: "memory");
#else
  __threadfence_system();
#endif
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
constexpr uint32_t kWarpThreads = 32;
__device__ inline void sync_warp() { __syncwarp(); }
__device__ inline uint64_t share_in_warp(uint64_t value) {
  __syncwarp();
  return __shfl_sync(~0u, static_cast<unsigned long long>(value), 0);
}
__device__ inline bool all_of_warp(bool whether) {
  __syncwarp();
  return __all_sync(~0u, whether ? 1 : 0) != 0;
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

}  // namespace lanyard::gpu

#endif  // LANYARD_DETAIL_KERNEL_VENDOR_H_
