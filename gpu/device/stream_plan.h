// StreamPlan: a batch of stream operations as it goes to the driver: kernels, and runs of memory operations.
#ifndef LANYARD_GPU_DEVICE_STREAM_PLAN_H_
#define LANYARD_GPU_DEVICE_STREAM_PLAN_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "gpu/combine.h"
#include "gpu/device/device.h"
#include "gpu/device/driver.h"
#include "gpu/device/kernel_arguments.h"
#include "gpu/lane.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// One thread at a time. Once warm it allocates nothing.
class StreamPlan {
 public:
  // Empties it. With `few_stores_by_memory` up to two stores that follow one another become memory operations: a device
  // comes to the first sooner than to a kernel. But it takes as long again for each, and a kernel makes all at once.
  void begin(bool few_stores_by_memory);

  // Behind everything so far. Adds that follow one another become one kernel, adds to one word one entry; so do stores
  // to different words, and waits.
  void put(Kernel kernel, DeviceAddress word, uint64_t value, uint64_t extra = 0);
  void put(const MemoryOp& op);
  void put(const PackArguments& packing) { steps_.emplace_back(packing); }
  void put(const CombineArguments& combination) { steps_.emplace_back(combination); }
  // Starts that follow one another become one kernel, as waits do.
  void put(const Lane& lane, bool wait);

  // How many entries of the stream's launch queue it takes.
  uint64_t steps() const { return steps_.size() + (ends_unmarked() ? 1 : 0); }

  // Submits all, with the context current. When the last step has run, the word at `marker` becomes `number`; 0:
  // nothing does. `released`: see WordArguments. After an error a part may have been submitted.
  Status submit(Device& device, StreamHandle stream, DeviceAddress released, DeviceAddress marker, uint64_t number);

 private:
  // One less than the driver takes, for the marker.
  static constexpr size_t kMemoryOps = Driver::kMemoryOpsAtOnce - 1;
  static constexpr size_t kFewStores = 2;

  struct Words {
    Kernel kernel;
    WordArguments arguments;
  };
  struct MemoryOps {
    size_t first;  // in memory_ops_
    size_t count;
  };
  struct LaneSteps {
    LaneArguments arguments;
    uint64_t chunks;       // of all
    uint64_t chunk_bytes;  // the longest
  };
  using Step = std::variant<Words, MemoryOps, PackArguments, CombineArguments, LaneSteps>;

  // With a kernel that sets no marker: one without entries follows, which does.
  bool ends_unmarked() const {
    return !steps_.empty() && (std::holds_alternative<PackArguments>(steps_.back()) ||
                               std::holds_alternative<CombineArguments>(steps_.back()));
  }
  // The last step, if it is one of those.
  template <typename Kind>
  Kind* last() {
    return steps_.empty() ? nullptr : std::get_if<Kind>(&steps_.back());
  }

  bool few_stores_by_memory_ = false;
  std::vector<Step> steps_;
  std::vector<MemoryOp> memory_ops_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_STREAM_PLAN_H_
