// Staging: pinned host memory for copies from and to devices, kept for reuse.
//
// Sizes are powers of two. Nothing returns to the driver before the end: freeing pinned memory
// waits for all streams of the device, and one of them may be waiting for the freeing thread. To
// limit the total, a request takes any free buffer of up to four times its size.
#ifndef LANYARD_GPU_DEVICE_STAGING_H_
#define LANYARD_GPU_DEVICE_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "gpu/device/driver.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// Any thread may use it at any time. The driver must outlive it.
class Staging {
 public:
  static constexpr uint64_t kSmallest = 4096;

  explicit Staging(Driver& driver) : driver_(driver) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  // Requires: no copy uses it. Also frees buffers that were not given back.
  ~Staging();

  // At least `bytes` bytes, page-aligned. Calls the driver if no free buffer fits. kExhausted.
  Result<std::byte*> take(uint64_t bytes, int device);
  // The number of buffers. It never falls.
  size_t buffers() const {
    const std::lock_guard lock(mutex_);
    return buffers_.size();
  }
  // Requires: from take(), not given back.
  void give(std::byte* memory);

  // The address at which devices reach the range, if all of it is within a buffer that is taken.
  std::optional<DeviceAddress> find(const void* memory, uint64_t bytes) const;

 private:
  struct Buffer {
    uint64_t bytes;
    DeviceAddress address;
    bool taken;
  };
  Result<std::byte*> allocate(uint64_t bytes, int device);

  Driver& driver_;
  mutable std::mutex mutex_;
  ContextHandle context_ = nullptr;  // that made the first buffer
  std::map<const std::byte*, Buffer> buffers_;
  std::multimap<uint64_t, std::byte*> free_;  // by bytes
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_STAGING_H_
