// Slots: which of a fixed number of equal places are free.
#ifndef LANYARD_GPU_DEVICE_SLOTS_H_
#define LANYARD_GPU_DEVICE_SLOTS_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace lanyard::gpu {

// Any thread at any time.
class Slots {
 public:
  explicit Slots(uint32_t count) {
    for (uint32_t slot = count; slot > 0; --slot)
      free_.push_back(slot - 1);
  }
  // The lowest ones first, as long as none was given back.
  std::optional<uint32_t> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty())
      return std::nullopt;
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give(uint32_t slot) {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }

 private:
  std::mutex mutex_;
  std::vector<uint32_t> free_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_SLOTS_H_
