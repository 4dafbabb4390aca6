// LayoutLoop: a part of a layout (gpu/layout.h), as hosts and devices both read it.
#ifndef LANYARD_GPU_LAYOUT_LOOP_H_
#define LANYARD_GPU_LAYOUT_LOOP_H_

#include <stdint.h>

#include "lanyard/detail/host_and_device.h"

namespace lanyard::gpu {

// What is done `count` times, `stride` bytes apart: a run of bytes, or parts one after another. Plain data, which a
// device's kernels read as it stands.
struct LayoutLoop {
  int64_t offset;   // of the first time, from where one time of the loop around it begins
  uint64_t count;   // > 0
  int64_t stride;   // may be negative
  uint64_t bytes;   // of one time, packed; > 0
  uint64_t packed;  // where it begins in one time of the loop around it, packed
  uint32_t first;   // the first of its parts, which stand one after another behind it in the layout
  uint32_t parts;   // 0: it is a run of bytes
};

// Where the byte at `packed` of a whole layout lies, from the address that the layout is used with. Requires
// packed < the layout's bytes.
LANYARD_HOST_AND_DEVICE inline int64_t place_of(const LayoutLoop* loops, uint64_t packed) {
  const LayoutLoop* loop = loops;
  int64_t place = 0;
  for (;;) {
    place += loop->offset;
    // Devices divide numbers of 32 bits much faster.
    const uint64_t time = ((packed | loop->bytes) >> 32) == 0
                              ? static_cast<uint32_t>(packed) / static_cast<uint32_t>(loop->bytes)
                              : packed / loop->bytes;
    packed -= time * loop->bytes;
    place += static_cast<int64_t>(time) * loop->stride;
    if (loop->parts == 0)
      return place + static_cast<int64_t>(packed);
    // The last of the parts that begins there or before.
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
