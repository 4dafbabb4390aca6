// Packing: memory with gaps, and the packed memory that stands for it on the wire.
#ifndef LANYARD_GPU_PACKING_H_
#define LANYARD_GPU_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "gpu/layout.h"
#include "transport/base/device_memory.h"

namespace lanyard::gpu {

// What a stream packs and unpacks. Both sides are memory of one device, or of the host. Owns the packed memory.
struct Packing {
  std::shared_ptr<const Layout> layout;
  void* memory = nullptr;             // the user's, where the layout begins; null with MPI_BOTTOM
  std::shared_ptr<std::byte> packed;  // layout->bytes() long
  int device = DeviceMemory::kHost;
  // Of a device's:
  std::shared_ptr<std::byte> loops;  // the layout's, in its memory
  uint32_t unit = 1;                 // so many bytes at a time (gpu/device/kernel_arguments.h)
  // Of a receive in the host's memory: what is done with the packed memory in place of unpacking it; then there is no
  // layout. Must not block.
  std::function<void()> combine;

  // On the calling thread. Require memory of the host's.
  void pack(uint64_t bytes) const { layout->pack(memory, packed.get(), bytes); }
  void unpack(uint64_t bytes) const { combine ? combine() : layout->unpack(packed.get(), memory, bytes); }
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_PACKING_H_
