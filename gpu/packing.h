// Packing: what a stream does between the memory of a request and that of the program: memory with gaps and the packed
// memory that stands for it on the wire, or contributions and what they are combined into.
#ifndef LANYARD_GPU_PACKING_H_
#define LANYARD_GPU_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gpu/combination.h"
#include "gpu/layout.h"
#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// What a stream packs and unpacks. Both sides are memory of one device, or of the host. Owns the packed memory.
struct Packing {
  std::shared_ptr<const Layout> layout;
  void* memory = nullptr;             // the user's, where the layout begins; null with MPI_BOTTOM
  std::shared_ptr<std::byte> packed;  // layout->bytes() long
  // Of a receive, in place of a layout: what is done in place of unpacking. `packed` then owns the contributions, and
  // `memory` is where they are combined into.
  std::shared_ptr<const Combination> combination;
  int device = DeviceMemory::kHost;
  // Of a device's:
  std::shared_ptr<std::byte> loops;  // the layout's, or the addresses of the combination's parts, in its memory
  uint32_t unit = 1;                 // so many bytes at a time (gpu/device/kernel_arguments.h)

  // On the calling thread. Require memory of the host's.
  void pack(uint64_t bytes) const { layout->pack(memory, packed.get(), bytes); }
  void unpack(uint64_t bytes) const {
    if (combination != nullptr)
      combination->run(memory);
    else
      layout->unpack(packed.get(), memory, bytes);
  }
};

// Of a combination, into `memory`, of parts in the host's memory. Those without an address, of others, get places
// `stride` bytes apart, a multiple of 64, in memory that the packing owns. kExhausted.
Result<std::shared_ptr<Packing>> make_host_combining(Combination combination, uint64_t stride, void* memory);

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_PACKING_H_
