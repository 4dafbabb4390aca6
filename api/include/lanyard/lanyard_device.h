/* Lanyard inside kernels: a running kernel makes starts and waits itself. CUDA, HIP, and on host
 * streams C11 and C++. Needs no MPI.
 *
 * Manual pages are made from this file as from lanyard.h. Names without Lanyard_Device_ are private
 * and may change.
 *
 * Source: Bridges et al., section VI (kernel-triggered communication as future work). */
#ifndef LANYARD_LANYARD_DEVICE_H_
#define LANYARD_LANYARD_DEVICE_H_

#include <stdint.h>
#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#endif

#if defined(__CUDACC__) || defined(__HIPCC__)
#define LANYARD_DEVICE_FUNCTION static inline __host__ __device__
#else
#define LANYARD_DEVICE_FUNCTION static inline
#endif

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define LANYARD_ON_DEVICE 1
#else
#define LANYARD_ON_DEVICE 0
#endif

/* Casts an address (pointer or number) to a pointer type; a null pointer of a type. */
#ifdef __cplusplus
#define LANYARD_CAST(type, address) (reinterpret_cast<type>(address))
#define LANYARD_NULL(type) (static_cast<type>(nullptr))
#else
#define LANYARD_CAST(type, address) ((type)(address))
#define LANYARD_NULL(type) ((type)0)
#endif

/* How a kernel rings a doorbell. The card decides when the set is made.
 *   LANYARD_STORE_ONE: stores 1 to a register of the card, which adds it.
 *   LANYARD_ADD_ONE: adds 1 to a word in memory.
 *   LANYARD_STORE_SUM: stores the number of all rings so far. */
enum { LANYARD_STORE_ONE, LANYARD_ADD_ONE, LANYARD_STORE_SUM };

/* A doorbell that a start rings. */
typedef struct Lanyard_Device_bell {
  uint64_t word; /* its address */
  uint64_t how;  /* one of the above */
  uint64_t sum;  /* LANYARD_STORE_SUM: address of the number of rings, in memory of the kernels */
} Lanyard_Device_bell;

/* Tells when a start has completed: then *word is greater than *count. */
typedef struct Lanyard_Device_completion {
  uint64_t word;  /* address of a number that the card increments */
  uint64_t count; /* address of the number of starts waited for, in memory of the kernels */
} Lanyard_Device_completion;

/* In memory its bells and then its completions follow. Private to the functions below. */
typedef struct Lanyard_Device_requests {
  uint64_t bells;
  uint64_t completions;
} Lanyard_Device_requests;

LANYARD_DEVICE_FUNCTION const Lanyard_Device_bell* lanyard_bells(const Lanyard_Device_requests* set) {
  return LANYARD_CAST(const Lanyard_Device_bell*, set + 1);
}
LANYARD_DEVICE_FUNCTION const Lanyard_Device_completion* lanyard_completions(const Lanyard_Device_requests* set) {
  return LANYARD_CAST(const Lanyard_Device_completion*, lanyard_bells(set) + set->bells);
}

LANYARD_DEVICE_FUNCTION uint64_t lanyard_load(uint64_t word) {
#if LANYARD_ON_DEVICE && defined(__HIP__)
  return __hip_atomic_load(LANYARD_CAST(const uint64_t*, word), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
#elif LANYARD_ON_DEVICE
  return *LANYARD_CAST(const volatile uint64_t*, word);
#else
  return __atomic_load_n(LANYARD_CAST(const uint64_t*, word), __ATOMIC_ACQUIRE);
#endif
}

LANYARD_DEVICE_FUNCTION void lanyard_store(uint64_t word, uint64_t value) {
#if LANYARD_ON_DEVICE
  *LANYARD_CAST(volatile uint64_t*, word) = value;
#else
  __atomic_store_n(LANYARD_CAST(uint64_t*, word), value, __ATOMIC_RELEASE);
#endif
}

/* Adds 1, atomically for this device, which alone adds to the word. CUDA guarantees no more on a
 * bus without atomics. */
LANYARD_DEVICE_FUNCTION void lanyard_add(uint64_t word) {
#if LANYARD_ON_DEVICE && defined(__HIP__)
  atomicAdd_system(LANYARD_CAST(unsigned long long*, word), 1ull);
#elif LANYARD_ON_DEVICE
  atomicAdd(LANYARD_CAST(unsigned long long*, word), 1ull);
#else
  __atomic_fetch_add(LANYARD_CAST(uint64_t*, word), 1, __ATOMIC_RELEASE);
#endif
}

/* ---- Inside kernels -----------------------------------------------------------------------------
 * One thread makes the call for the whole kernel. Barriers of the kernel order it with the reads
 * and writes of other threads:
 *
 *     pack(...); __syncthreads();
 *     if (threadIdx.x == 0) { Lanyard_Device_startall(set); Lanyard_Device_waitall(set); }
 *     __syncthreads(); unpack(...);
 *
 * A kernel that waits occupies its multiprocessors. All blocks that the transfer depends on must
 * be resident at once, and the card's own copies need room. These functions return no errors:
 * Lanyard_Queue_wait reports failures and kernels that wait too long, and ends the waits for
 * failed requests. */

/* Starts every request of a set inside a kernel. Lanyard_Device_requests_create makes the set. The
 * kernel must have waited for the last start. Before the card starts, it sees all memory as the
 * calling thread sees it. Does not block. */
LANYARD_DEVICE_FUNCTION void Lanyard_Device_startall(const Lanyard_Device_requests* set) {
  for (uint64_t i = 0; i < set->bells; ++i) {
    const Lanyard_Device_bell bell = lanyard_bells(set)[i];
    const uint64_t sum = bell.how == LANYARD_STORE_SUM ? lanyard_load(bell.sum) + 1 : 1;
#if LANYARD_ON_DEVICE
    if (i == 0)
      __threadfence_system(); /* after the loads above, which it would slow down */
#endif
    if (bell.how == LANYARD_ADD_ONE)
      lanyard_add(bell.word);
    else
      lanyard_store(bell.word, sum);
    if (bell.how == LANYARD_STORE_SUM)
      *LANYARD_CAST(uint64_t*, bell.sum) = sum;
  }
}

/* How many completions are read together. Each read crosses a bus; several at once take no longer
 * than one. */
#define LANYARD_LOOKS_AT_ONCE 4

/* True if the last start has completed in the `count` completions from `first` on.
 * Requires count <= LANYARD_LOOKS_AT_ONCE. */
LANYARD_DEVICE_FUNCTION int lanyard_are_complete(const Lanyard_Device_requests* set, uint64_t first, uint64_t count) {
  const Lanyard_Device_completion* const completions = lanyard_completions(set) + first;
  uint64_t seen[LANYARD_LOOKS_AT_ONCE] = {0};
  for (uint64_t i = 0; i < LANYARD_LOOKS_AT_ONCE; ++i)
    if (i < count)
      seen[i] = lanyard_load(completions[i].word);
  for (uint64_t i = 0; i < LANYARD_LOOKS_AT_ONCE; ++i)
    if (i < count && seen[i] <= lanyard_load(completions[i].count))
      return 0;
  return 1;
}

/* How many completions from `first` on are read together. */
LANYARD_DEVICE_FUNCTION uint64_t lanyard_looks(const Lanyard_Device_requests* set, uint64_t first) {
  const uint64_t left = set->completions - first;
  return left < LANYARD_LOOKS_AT_ONCE ? left : LANYARD_LOOKS_AT_ONCE;
}

/* Counts the last start as waited for. Requires that it was seen to complete. */
LANYARD_DEVICE_FUNCTION void lanyard_count_on(const Lanyard_Device_requests* set) {
#if LANYARD_ON_DEVICE
  __threadfence_system(); /* after the completions; before the stores, which it would wait for */
#endif
  for (uint64_t i = 0; i < set->completions; ++i) {
    const Lanyard_Device_completion completion = lanyard_completions(set)[i];
    *LANYARD_CAST(uint64_t*, completion.count) = lanyard_load(completion.count) + 1;
  }
}

/* Asks inside a kernel whether a set of requests has completed. Once it has returned nonzero, do
 * not call it again before the next start. Does not block.
 *
 * Returns:
 * Nonzero if the last start of every request has completed. The start then counts as waited for:
 * the received data is there, and send buffers may be overwritten. */
LANYARD_DEVICE_FUNCTION int Lanyard_Device_testall(const Lanyard_Device_requests* set) {
  for (uint64_t i = 0; i < set->completions; i += LANYARD_LOOKS_AT_ONCE)
    if (!lanyard_are_complete(set, i, lanyard_looks(set, i)))
      return 0;
  lanyard_count_on(set);
  return 1;
}

/* Waits inside a kernel for a set of requests. Blocks the calling thread until
 * Lanyard_Device_testall would return nonzero. The start then counts as waited for. */
LANYARD_DEVICE_FUNCTION void Lanyard_Device_waitall(const Lanyard_Device_requests* set) {
  for (uint64_t i = 0; i < set->completions; i += LANYARD_LOOKS_AT_ONCE) {
    while (!lanyard_are_complete(set, i, lanyard_looks(set, i))) {
#if defined(__CUDA_ARCH__)
      __nanosleep(64);
#endif
    }
  }
  lanyard_count_on(set);
}

#ifndef LANYARD_NO_MPIX_NAMES /* see lanyard_names.h */
#define MPIX_Device_bell Lanyard_Device_bell
#define MPIX_Device_completion Lanyard_Device_completion
#define MPIX_Device_requests Lanyard_Device_requests
#define MPIX_Device_startall Lanyard_Device_startall
#define MPIX_Device_testall Lanyard_Device_testall
#define MPIX_Device_waitall Lanyard_Device_waitall
#endif

#endif /* LANYARD_LANYARD_DEVICE_H_ */
