// Combination: what a stream does with the contributions of several processes once all are there.
#ifndef LANYARD_GPU_COMBINATION_H_
#define LANYARD_GPU_COMBINATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/combine.h"

namespace lanyard::gpu {

struct Combination {
  Element element = Element::kInt8;
  Operation operation = Operation::kSum;
  uint64_t count = 0;           // elements of each part
  std::vector<uint64_t> parts;  // their addresses, in the order in which they are combined; 0: not placed yet

  uint64_t unplaced() const;
  // Gives each its place, `stride` bytes apart from `memory` on.
  void place(std::byte* memory, uint64_t stride);
  // Into `out`, on the calling thread. Requires memory of the host's.
  void run(void* out) const;
};

// Bytes of one in memory.
size_t size_of(Element element);
// Whether the operation is defined for the element (gpu/combine.h).
bool is_defined(Operation operation, Element element);
// Whether devices have the element.
bool is_for_devices(Element element);

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_COMBINATION_H_
