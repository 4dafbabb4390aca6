// LayoutLoop: one loop of a layout (gpu/packing.h), read by hosts and devices.
#ifndef LANYARD_GPU_LAYOUT_LOOP_H_
#define LANYARD_GPU_LAYOUT_LOOP_H_

#include <stdint.h>

#include "gpu/host_and_device.h"

namespace lanyard::gpu {

// A run of bytes, or several parts in order, repeated `count` times, `stride` bytes apart. Plain
// data: kernels read it as it is.
struct LayoutLoop {
  // Offset of the first repetition, from the start of one repetition of the enclosing loop.
  int64_t offset;
  uint64_t count;   // > 0
  int64_t stride;   // may be negative
  uint64_t bytes;   // packed size of one repetition; > 0
  uint64_t packed;  // packed offset within one repetition of the enclosing loop
  uint32_t first;   // index of the first part in the layout; the other parts follow it
  uint32_t parts;   // number of parts; 0: a run of bytes
};

// The offset of the layout's byte number `packed` in packed order, relative to the address that the
// layout is used with. Requires: packed < the layout's bytes().
LANYARD_HOST_AND_DEVICE inline int64_t place_of(const LayoutLoop* loops, uint64_t packed) {
  const LayoutLoop* loop = loops;
  int64_t place = 0;
  for (;;) {
    place += loop->offset;
    // Devices divide 32-bit numbers much faster.
    const uint64_t time = ((packed | loop->bytes) >> 32) == 0
                              ? static_cast<uint32_t>(packed) / static_cast<uint32_t>(loop->bytes)
                              : packed / loop->bytes;
    packed -= time * loop->bytes;
    place += static_cast<int64_t>(time) * loop->stride;
    if (loop->parts == 0)
      return place + static_cast<int64_t>(packed);
    // Find the last part that begins at or before `packed`.
    const LayoutLoop* part = loops + loop->first;
    for (uint32_t left = loop->parts; left > 1;) {
      const uint32_t half = left / 2;
      const bool further = part[half].packed <= packed;
      part += further ? half : 0;
      left = further ? left - half : half;
    }
    loop = part;
    packed -= loop->packed;
  }
}

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_LAYOUT_LOOP_H_
