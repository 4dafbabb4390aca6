// Copies by the threads of a device.
#ifndef LANYARD_DETAIL_DEVICE_COPY_H_
#define LANYARD_DETAIL_DEVICE_COPY_H_

#ifdef __HIP__
#include <hip/hip_runtime.h>
#endif

#include <stdint.h>

namespace lanyard::gpu {

// Who copies together, and which of them the calling thread is.
struct Copiers {
  uint64_t member;
  uint64_t members;
};

template <typename Unit>
__device__ inline void copy_units(Copiers team, uint64_t to, uint64_t from, uint64_t units) {
  Unit* const target = reinterpret_cast<Unit*>(to);
  const Unit* const source = reinterpret_cast<const Unit*>(from);
  const uint64_t stride = team.members;
  uint64_t i = team.member;
  // Four loads under way at a time: one alone does not fill a link.
  for (; i + 3 * stride < units; i += 4 * stride) {
    const Unit a = source[i];
    const Unit b = source[i + stride];
    const Unit c = source[i + 2 * stride];
    const Unit d = source[i + 3 * stride];
    target[i] = a;
    target[i + stride] = b;
    target[i + 2 * stride] = c;
    target[i + 3 * stride] = d;
  }
  for (; i < units; i += stride)
    target[i] = source[i];
}

// As many bytes as come before an address that is a multiple of `unit`, then units, then the rest.
template <typename Unit>
__device__ inline void copy_aligned(Copiers team, uint64_t to, uint64_t from, uint64_t bytes) {
  uint64_t head = (sizeof(Unit) - to % sizeof(Unit)) % sizeof(Unit);
  if (head > bytes)
    head = bytes;
  const uint64_t units = (bytes - head) / sizeof(Unit);
  const uint64_t tail = head + units * sizeof(Unit);
  copy_units<uint8_t>(team, to, from, head);
  copy_units<Unit>(team, to + head, from + head, units);
  copy_units<uint8_t>(team, to + tail, from + tail, bytes - tail);
}

// In the widest units that both sides are aligned for alike. Called, as it is long: short kernels would wait for
// instructions that they do not come to.
__device__ __noinline__ inline void copy_bytes(Copiers team, uint64_t to, uint64_t from, uint64_t bytes) {
  const uint64_t difference = to ^ from;
  if (difference % 16 == 0) {
    copy_aligned<uint4>(team, to, from, bytes);
  } else if (difference % 8 == 0) {
    copy_aligned<uint2>(team, to, from, bytes);
  } else if (difference % 4 == 0) {
    copy_aligned<uint32_t>(team, to, from, bytes);
  } else {
    copy_units<uint8_t>(team, to, from, bytes);
  }
}

// 8 at most, by one thread, in the order of memory.
__device__ inline uint64_t load_few_bytes(uint64_t from, uint64_t bytes) {
  if (bytes == sizeof(uint64_t) && from % sizeof(uint64_t) == 0)
    return *reinterpret_cast<const uint64_t*>(from);
  uint64_t value = 0;
#pragma unroll 1
  for (uint64_t i = 0; i < bytes; ++i)
    value |= uint64_t{reinterpret_cast<const uint8_t*>(from)[i]} << (8 * i);
  return value;
}
__device__ inline void store_few_bytes(uint64_t to, uint64_t value, uint64_t bytes) {
  if (bytes == sizeof(uint64_t) && to % sizeof(uint64_t) == 0) {
    *reinterpret_cast<uint64_t*>(to) = value;
    return;
  }
#pragma unroll 1
  for (uint64_t i = 0; i < bytes; ++i)
    reinterpret_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(value >> (8 * i));
}

}  // namespace lanyard::gpu

#endif  // LANYARD_DETAIL_DEVICE_COPY_H_
