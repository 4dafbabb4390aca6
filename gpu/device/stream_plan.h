// StreamPlan: a batch of stream operations as the driver gets it: kernels and runs of
// memory operations.
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
  // Empties the plan. With `few_stores_by_memory` one or two adjacent stores become memory
  // operations: the first takes effect sooner than a kernel's. But each takes as long again, while
  // a kernel makes all at once.
  void begin(bool few_stores_by_memory);

  // Appends an operation. Adjacent adds become one kernel, and adds to one word one entry. Adjacent
  // stores to different words become one kernel; so do adjacent waits.
  void put(Kernel kernel, DeviceAddress word, uint64_t value, uint64_t extra = 0);
  void put(const MemoryOp& op);
  void put(const PackArguments& packing) { steps_.emplace_back(packing); }
  void put(const CombineArguments& combination) { steps_.emplace_back(combination); }
  // Adjacent starts become one kernel; so do adjacent waits.
  void put(const Lane& lane, bool wait);

  // How many entries of the stream's launch queue the plan takes.
  uint64_t steps() const { return steps_.size() + (ends_unmarked() ? 1 : 0); }

  // Submits the plan. Requires: the context is current. When the last step has run, the word at
  // `marker` becomes `number`; with `marker` 0 no word changes. `released`: see WordArguments.
  // After an error a part may have been submitted.
  Status submit(Device& device, StreamHandle stream, DeviceAddress released, DeviceAddress marker, uint64_t number);

 private:
  // One less than the driver takes: the marker needs one.
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
    uint64_t chunks;       // of all lanes
    uint64_t chunk_bytes;  // the longest
  };
  using Step = std::variant<Words, MemoryOps, PackArguments, CombineArguments, LaneSteps>;

  // Whether the last kernel sets no marker. A kernel without entries then follows and sets it.
  bool ends_unmarked() const {
    return !steps_.empty() && (std::holds_alternative<PackArguments>(steps_.back()) ||
                               std::holds_alternative<CombineArguments>(steps_.back()));
  }
  // The last step, if it is of this kind.
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
