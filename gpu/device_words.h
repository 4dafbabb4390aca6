// Memory where a stream's operations and kernels reach it fastest: words to count on, and what kernels of the program's
// share with the host. Threads: as the stream.
#ifndef LANYARD_GPU_DEVICE_WORDS_H_
#define LANYARD_GPU_DEVICE_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/status.h"

namespace lanyard::gpu {

class DeviceWords {
 public:
  virtual ~DeviceWords() = default;

  // A number that operations count on, where the stream reaches it fastest. Does not wait for the stream. kUnsupported,
  // kExhausted.
  virtual Result<uint64_t*> take_count(uint64_t) { return Status(Code::kUnsupported, "the stream keeps no counts"); }
  virtual void give_count(uint64_t*) {}

  // For kernels of the stream that use words themselves. Where they reach a word of the host's; kUnsupported.
  virtual Result<uint64_t*> reach(uint64_t* word) { return word; }
  // Memory of theirs with that content; may wait for the device, as giving it back may. kUnsupported, kExhausted.
  virtual Result<std::byte*> take_memory(std::span<const uint64_t>) {
    return Status(Code::kUnsupported, "the stream has no memory for kernels");
  }
  virtual void give_memory(std::byte*) {}
  // A word as they reach it: once it is not 0 their waits are let pass, as halt() wants it. kUnsupported.
  virtual Result<const uint64_t*> released() const {
    return Status(Code::kUnsupported, "the stream has no memory for kernels");
  }
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_WORDS_H_
