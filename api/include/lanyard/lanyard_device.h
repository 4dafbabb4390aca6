/* Lanyard inside kernels: starts and waits that a running kernel makes itself. CUDA, HIP, C11 and C++ (on host
 * streams). Needs no MPI.
 *
 * The manual pages are made from this file as from lanyard.h. Names without Lanyard_Device_ are Lanyard's own and may
 * change.
 *
 * Source: Bridges et al., section VI (kernel-triggered communication as future work).
 */
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

/* A pointer of this type: from another or from a number; or null. */
#ifdef __cplusplus
#define LANYARD_CAST(type, address) (reinterpret_cast<type>(address))
#define LANYARD_NULL(type) (static_cast<type>(nullptr))
#else
#define LANYARD_CAST(type, address) ((type)(address))
#define LANYARD_NULL(type) ((type)0)
#endif

/* How a start is rung: decided by the card when the set is made. */
enum { LANYARD_STORE_ONE, LANYARD_ADD_ONE, LANYARD_STORE_SUM };

/* Where a start is rung. */
typedef struct Lanyard_Device_bell {
  uint64_t word; /* its address */
  uint64_t how;  /* LANYARD_STORE_ONE: to a card's register, which adds it; LANYARD_ADD_ONE; LANYARD_STORE_SUM */
  uint64_t sum;  /* LANYARD_STORE_SUM: the address of the sum of its rings, in memory of the set's kernels */
} Lanyard_Device_bell;

/* What tells that a start has completed. */
typedef struct Lanyard_Device_completion {
  uint64_t word;  /* the address of a number that the card counts up */
  uint64_t count; /* the address of the number that it was waited for, in memory of the set's kernels */
} Lanyard_Device_completion;

/* Followed by its bells and its completions. To be used by the functions below only. */
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

/* Indivisible to this device, which alone adds to the word. A bus without atomics grants no more on CUDA's devices. */
LANYARD_DEVICE_FUNCTION void lanyard_add(uint64_t word) {
#if LANYARD_ON_DEVICE && defined(__HIP__)
  atomicAdd_system(LANYARD_CAST(unsigned long long*, word), 1ull);
#elif LANYARD_ON_DEVICE
  atomicAdd(LANYARD_CAST(unsigned long long*, word), 1ull);
#else
  __atomic_fetch_add(LANYARD_CAST(uint64_t*, word), 1, __ATOMIC_RELEASE);
#endif
}

/* ---- Inside kernels ----------------------------------------------------------------------------------------------
 * One thread calls for the whole kernel. The kernel's own barriers order what other threads wrote before or read
 * afterwards:
 *
 *     pack(...); __syncthreads();
 *     if (threadIdx.x == 0) { Lanyard_Device_startall(set); Lanyard_Device_waitall(set); }
 *     __syncthreads(); unpack(...);
 *
 * A kernel that waits occupies its multiprocessors: all blocks that the transfer depends on must be resident at once,
 * and the card's own copies need room. There are no errors: Lanyard_Queue_wait tells of failures, lets the waits of
 * failed requests pass, and reports a kernel that waits too long. */

/* Starts every request of a set inside a kernel. Lanyard_Device_requests_create makes the set. The starts come once
 * everything that the calling thread has seen is visible to the card. The last start must have been waited for. Does
 * not block. */
LANYARD_DEVICE_FUNCTION void Lanyard_Device_startall(const Lanyard_Device_requests* set) {
  for (uint64_t i = 0; i < set->bells; ++i) {
    const Lanyard_Device_bell bell = lanyard_bells(set)[i];
    const uint64_t sum = bell.how == LANYARD_STORE_SUM ? lanyard_load(bell.sum) + 1 : 1;
#if LANYARD_ON_DEVICE
    if (i == 0)
      __threadfence_system(); /* not sooner: it would make the loads above slow */
#endif
    if (bell.how == LANYARD_ADD_ONE)
      lanyard_add(bell.word);
    else
      lanyard_store(bell.word, sum);
    if (bell.how == LANYARD_STORE_SUM)
      *LANYARD_CAST(uint64_t*, bell.sum) = sum;
  }
}

/* So many completions are looked at together: each is a trip over a bus, and trips under way together take as long as
 * one. */
#define LANYARD_LOOKS_AT_ONCE 4

/* Whether the `count` completions from `first` on, at most LANYARD_LOOKS_AT_ONCE, have got to the end of the last
 * start. */
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

/* How many of the completions from `first` on are looked at together. */
LANYARD_DEVICE_FUNCTION uint64_t lanyard_looks(const Lanyard_Device_requests* set, uint64_t first) {
  const uint64_t left = set->completions - first;
  return left < LANYARD_LOOKS_AT_ONCE ? left : LANYARD_LOOKS_AT_ONCE;
}

/* Counts the last start of every request as waited for, whose completion has been seen. */
LANYARD_DEVICE_FUNCTION void lanyard_count_on(const Lanyard_Device_requests* set) {
#if LANYARD_ON_DEVICE
  __threadfence_system(); /* of the completions; not later: it would wait for the stores below */
#endif
  for (uint64_t i = 0; i < set->completions; ++i) {
    const Lanyard_Device_completion completion = lanyard_completions(set)[i];
    *LANYARD_CAST(uint64_t*, completion.count) = lanyard_load(completion.count) + 1;
  }
}

/* Asks inside a kernel whether a set of requests has completed. Do not call it again until the next start once it has
 * returned nonzero. Does not block.
 *
 * Returns:
 * Nonzero once the last start of every request has completed. The start then counts as waited for: what was received is
 * there, and what was sent may be overwritten. */
LANYARD_DEVICE_FUNCTION int Lanyard_Device_testall(const Lanyard_Device_requests* set) {
  for (uint64_t i = 0; i < set->completions; i += LANYARD_LOOKS_AT_ONCE)
    if (!lanyard_are_complete(set, i, lanyard_looks(set, i)))
      return 0;
  lanyard_count_on(set);
  return 1;
}

/* Waits inside a kernel for a set of requests. Blocks the calling thread until Lanyard_Device_testall would return
 * nonzero; the start then counts as waited for. */
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
