// Packing: a stream's copies between a request's memory and the program's memory. They pack or
// unpack memory with gaps, or combine contributions into a result.
#ifndef LANYARD_GPU_PACKING_H_
#define LANYARD_GPU_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/combine.h"
#include "gpu/layout.h"
#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// How a stream combines the contributions of several processes once all have arrived.
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

// All memory is on one device, or on the host. Owns the packed memory.
struct Packing {
  std::shared_ptr<const Layout> layout;
  void* memory = nullptr;             // where the layout begins; null with MPI_BOTTOM
  std::shared_ptr<std::byte> packed;  // layout->bytes() long
  // Instead of a layout, for a receive that combines rather than unpacks. `packed` then owns the
  // contributions, and the result goes to `memory`.
  std::shared_ptr<const Combination> combination;
  int device = DeviceMemory::kHost;
  // The layout's loops, or the addresses of the combination's parts, in memory of the device.
  std::shared_ptr<std::byte> loops;
  uint32_t unit = 1;  // bytes copied at a time (gpu/device/kernel_arguments.h)

  // Run on the calling thread. Require host memory.
  void pack(uint64_t bytes) const { layout->pack(memory, packed.get(), bytes); }
  void unpack(uint64_t bytes) const {
    if (combination != nullptr)
      combination->run(memory);
    else
      layout->unpack(packed.get(), memory, bytes);
  }
};

// Makes a packing that combines parts in host memory into `memory`. Parts without an address are
// contributions of other processes. They get places `stride` bytes apart (a multiple of 64) in
// memory that the packing owns. kExhausted: no memory.
Result<std::shared_ptr<Packing>> make_host_combining(Combination combination, uint64_t stride, void* memory);

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_PACKING_H_
