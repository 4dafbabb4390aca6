/* Sets of requests as kernels see them, and what they do with requests that go by the card. C and C++. */
#ifndef LANYARD_DETAIL_DEVICE_REQUESTS_H_
#define LANYARD_DETAIL_DEVICE_REQUESTS_H_

#include <stdint.h>
#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#endif

#include "lanyard/detail/host_and_device.h"
#if LANYARD_ON_DEVICE
#include "lanyard/detail/kernel_vendor.h"
#endif

#define LANYARD_DEVICE_FUNCTION static inline LANYARD_HOST_AND_DEVICE

/* How a start is rung: decided by the card when the set is made. */
enum { LANYARD_STORE_ONE, LANYARD_ADD_ONE, LANYARD_STORE_TOTAL };

/* Where a start is rung. */
typedef struct MPIX_Device_bell {
  uint64_t word;  /* its address; 0: there is none */
  uint64_t how;   /* LANYARD_STORE_ONE: to a card's register, which adds it; LANYARD_ADD_ONE; LANYARD_STORE_TOTAL */
  uint64_t total; /* LANYARD_STORE_TOTAL: the address of the total of its rings, in memory of the set's kernels */
} MPIX_Device_bell;

/* What tells that a start has completed. */
typedef struct MPIX_Device_completion {
  uint64_t word;  /* the address of a number that the card counts up; 0: there is none */
  uint64_t count; /* the address of the number that it was waited for, in memory of the set's kernels */
  uint64_t step;  /* so much a start */
} MPIX_Device_completion;

/* A request: by the card, or by a lane. */
typedef struct MPIX_Device_request {
  MPIX_Device_bell bell;
  MPIX_Device_completion completion;
  uint64_t lane; /* the address of its end (lane_end.h); 0: it goes by the card */
  uint64_t reserved;
} MPIX_Device_request;

/* Followed by its requests. */
typedef struct MPIX_Device_requests {
  uint64_t requests; /* how many */
  uint64_t lanes;    /* of them */
  uint64_t released; /* the address of a word of the host's: once it is not 0 waits pass */
  /* The kernels' own: */
  uint64_t given_up; /* 1: a wait was let pass, and nothing is done any more */
  uint64_t meetings; /* of several blocks, that are over */
  uint64_t arrived;  /* of the blocks of a meeting, those that have come; 0 between meetings */
  uint64_t starting; /* of the blocks that start together, those that are through; 0 between starts */
  uint64_t waiting;  /* of the blocks that wait together, those that have begun to; 0 between waits */
  uint64_t tests;    /* that found something missing */
} MPIX_Device_requests;

/* The address of a word of the head's, which kernels write. */
#define LANYARD_SET_WORD(set, word) ((uint64_t)(uintptr_t) & (set)->word)

/* Every so many looks of a wait there is one at what lets it pass, which is the host's. */
#define LANYARD_LOOKS_PER_RELEASED 64

LANYARD_DEVICE_FUNCTION const MPIX_Device_request* lanyard_requests(const MPIX_Device_requests* set) {
  return (const MPIX_Device_request*)(set + 1);
}

LANYARD_DEVICE_FUNCTION int lanyard_has_lanes_only(const MPIX_Device_requests* set) {
  return set->lanes == set->requests;
}

LANYARD_DEVICE_FUNCTION uint64_t lanyard_load(uint64_t word) {
#if LANYARD_ON_DEVICE
  return lanyard::gpu::load_word(word);
#else
  return __atomic_load_n((const uint64_t*)(uintptr_t)word, __ATOMIC_ACQUIRE);
#endif
}

LANYARD_DEVICE_FUNCTION void lanyard_store(uint64_t word, uint64_t value) {
#if LANYARD_ON_DEVICE
  lanyard::gpu::store_word(word, value);
#else
  __atomic_store_n((uint64_t*)(uintptr_t)word, value, __ATOMIC_RELEASE);
#endif
}

LANYARD_DEVICE_FUNCTION void lanyard_add_one(uint64_t word) {
#if LANYARD_ON_DEVICE
  lanyard::gpu::add_to_word(word, 1);
#else
  __atomic_fetch_add((uint64_t*)(uintptr_t)word, 1, __ATOMIC_RELEASE);
#endif
}

LANYARD_DEVICE_FUNCTION void lanyard_fence(void) {
#if LANYARD_ON_DEVICE
  lanyard::gpu::fence_system(); /* on hosts stores release, and loads acquire */
#endif
}

LANYARD_DEVICE_FUNCTION void lanyard_pause(void) {
#if LANYARD_ON_DEVICE
  lanyard::gpu::pause();
#endif
}

/* Rings for every `stride`th of the requests from `first` on, before `end`, once what the calling thread has seen is
 * visible to the card. */
LANYARD_DEVICE_FUNCTION void lanyard_ring(const MPIX_Device_requests* set, uint64_t first, uint64_t end,
                                          uint64_t stride) {
  int fenced = 0;
  if (lanyard_has_lanes_only(set))
    return;
  for (uint64_t i = first; i < end; i += stride) {
    const MPIX_Device_bell bell = lanyard_requests(set)[i].bell;
    if (bell.word == 0)
      continue;
    const uint64_t total = bell.how == LANYARD_STORE_TOTAL ? lanyard_load(bell.total) + 1 : 1;
    if (!fenced)
      lanyard_fence(); /* not sooner: it would make the loads above slow */
    fenced = 1;
    if (bell.how == LANYARD_ADD_ONE)
      lanyard_add_one(bell.word);
    else
      lanyard_store(bell.word, total);
    if (bell.how == LANYARD_STORE_TOTAL)
      *(uint64_t*)bell.total = total;
  }
}

/* So many requests are looked at together: each look is a trip over a bus, and trips under way together take as long as
 * one. */
#define LANYARD_LOOKS_AT_ONCE 4

/* Whether the next requests from `first` on, LANYARD_LOOKS_AT_ONCE at most, have got to the end of the last start; of
 * those that go by the card. */
LANYARD_DEVICE_FUNCTION int lanyard_are_complete(const MPIX_Device_requests* set, uint64_t first) {
  const MPIX_Device_request* const requests = lanyard_requests(set) + first;
  const uint64_t left = set->requests - first;
  const uint64_t count_bits = ((uint64_t)1 << 48) - 1; /* what stands above marks failures */
  uint64_t seen[LANYARD_LOOKS_AT_ONCE] = {0};
  for (uint64_t i = 0; i < LANYARD_LOOKS_AT_ONCE; ++i)
    if (i < left && requests[i].completion.word != 0)
      seen[i] = lanyard_load(requests[i].completion.word);
  for (uint64_t i = 0; i < LANYARD_LOOKS_AT_ONCE; ++i)
    if (i < left && requests[i].completion.word != 0 &&
        (seen[i] & count_bits) < lanyard_load(requests[i].completion.count) + requests[i].completion.step)
      return 0;
  return 1;
}

/* Whether a wait is to be let pass. */
LANYARD_DEVICE_FUNCTION int lanyard_is_released(const MPIX_Device_requests* set) {
  return lanyard_load(set->released) != 0;
}

/* Blocks until lanyard_are_complete() for every group of that many from `first` on, `stride` of them apart. Whether it
 * was so: else the wait was let pass. */
LANYARD_DEVICE_FUNCTION int lanyard_wait_for_card(const MPIX_Device_requests* set, uint64_t first, uint64_t stride) {
  for (uint64_t i = first * LANYARD_LOOKS_AT_ONCE; i < set->requests; i += stride * LANYARD_LOOKS_AT_ONCE)
    for (uint32_t looks = 1; !lanyard_are_complete(set, i); ++looks) {
      if (looks % LANYARD_LOOKS_PER_RELEASED == 0 && lanyard_is_released(set))
        return 0;
      lanyard_pause();
    }
  lanyard_fence(); /* of the completions */
  return 1;
}

/* Whether all have got to the end of the last start that go by the card. */
LANYARD_DEVICE_FUNCTION int lanyard_test_card(const MPIX_Device_requests* set) {
  if (lanyard_has_lanes_only(set))
    return 1;
  for (uint64_t i = 0; i < set->requests; i += LANYARD_LOOKS_AT_ONCE)
    if (!lanyard_are_complete(set, i))
      return 0;
  lanyard_fence();
  return 1;
}

/* Counts the last start of every `stride`th request from `first` on as waited for, whose completion has been seen. */
LANYARD_DEVICE_FUNCTION void lanyard_count_on(const MPIX_Device_requests* set, uint64_t first, uint64_t stride) {
  if (lanyard_has_lanes_only(set))
    return;
  for (uint64_t i = first; i < set->requests; i += stride) {
    const MPIX_Device_completion completion = lanyard_requests(set)[i].completion;
    if (completion.word != 0)
      *(uint64_t*)completion.count = lanyard_load(completion.count) + completion.step;
  }
}

#endif /* LANYARD_DETAIL_DEVICE_REQUESTS_H_ */
