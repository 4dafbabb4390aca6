// Combination: how a stream combines the contributions of several processes once all have arrived.
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
  uint64_t count = 0;           // elements in each part
  std::vector<uint64_t> parts;  // in the order of combination; addresses, 0: no place yet

  // How many parts have no address.
  uint64_t unplaced() const;
  // Gives each part without an address a place, `stride` bytes apart, starting at `memory`.
  void place(std::byte* memory, uint64_t stride);
  // Combines into `out` on the calling thread. Requires host memory.
  void run(void* out) const;
};

// Bytes of one element in memory.
size_t size_of(Element element);
// Whether the operation is defined for the element (gpu/combine.h).
bool is_defined(Operation operation, Element element);
// Whether devices support the element.
bool is_for_devices(Element element);

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_COMBINATION_H_
