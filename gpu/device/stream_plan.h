// StreamPlan: a batch of stream operations as it goes to the driver: kernels, and runs of memory operations.
#ifndef LANYARD_GPU_DEVICE_STREAM_PLAN_H_
#define LANYARD_GPU_DEVICE_STREAM_PLAN_H_

#include <cstdint>
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
  void put(const PackArguments& packing);
  void put(const CombineArguments& combination);
  // Starts that follow one another become one kernel, as waits do, with a combination of real numbers behind them where
  // all are small.
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
  enum class Engine : uint8_t { kKernel, kMemory, kPacking, kCombining, kLanes };

  struct Step {
    Engine engine;
    Kernel kernel;  // kKernel
    size_t first;   // in entries_, memory_ops_, packings_, combinations_ or lanes_
    size_t count;
    bool wait = false;         // kLanes
    uint64_t chunks = 0;       // kLanes: of all
    uint64_t chunk_bytes = 0;  // kLanes: the longest
    bool combines = false;     // kLanes: small_lanes does the combination, too
    size_t combination = 0;    // which, of combinations_
  };

  // With a kernel that sets no marker: one without entries follows, which does.
  bool ends_unmarked() const {
    return !steps_.empty() && (steps_.back().engine == Engine::kPacking || steps_.back().engine == Engine::kCombining);
  }
  bool joins(const Step& step, Kernel kernel, const WordEntry& entry);
  bool joins(const Step& step, const Lane& lane, bool wait) const;
  // Whether small_lanes is for it.
  static bool is_small(const Step& step) {
    return step.engine == Engine::kLanes && step.count <= kMostSmallLanes && step.chunks == step.count &&
           step.chunk_bytes <= kMostSmallBytes;
  }
  std::span<WordEntry> entries_of(const Step& step) { return {entries_.data() + step.first, step.count}; }

  bool few_stores_by_memory_ = false;
  std::vector<Step> steps_;
  std::vector<WordEntry> entries_;
  std::vector<MemoryOp> memory_ops_;
  std::vector<PackArguments> packings_;
  std::vector<CombineArguments> combinations_;
  std::vector<DeviceAddress> lanes_;  // their ends
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_STREAM_PLAN_H_
