#include "gpu/device/stream_plan.h"

#include <algorithm>

namespace lanyard::gpu {

void StreamPlan::clear() {
  steps_.clear();
  entries_.clear();
  memory_ops_.clear();
}

void StreamPlan::put(Kernel kernel, DeviceAddress word, uint64_t value, uint64_t extra) {
  const bool fits = !steps_.empty() && steps_.back().engine == Engine::kKernel && steps_.back().kernel == kernel;
  if (fits) {
    Step& step = steps_.back();
    const std::span<WordEntry> entries(entries_.data() + step.first, step.count);
    if (kernel == Kernel::kRing) {
      const auto same =
          std::find_if(entries.begin(), entries.end(), [&](const WordEntry& e) { return e.word == word; });
      if (same != entries.end()) {
        same->value += value;
        return;
      }
    }
    // The threads of one kernel must not count on the same count.
    const bool counts_twice =
        kernel == Kernel::kWaitNext &&
        std::any_of(entries.begin(), entries.end(), [&](const WordEntry& e) { return e.value == value; });
    if (step.count < WordArguments::kEntries && !counts_twice) {
      entries_.push_back({word, value, extra});
      ++step.count;
      return;
    }
  }
  steps_.push_back({Engine::kKernel, kernel, entries_.size(), 1});
  entries_.push_back({word, value, extra});
}

void StreamPlan::put(const MemoryOp& op) {
  if (!steps_.empty() && steps_.back().engine == Engine::kMemory && steps_.back().count < kMemoryOps) {
    ++steps_.back().count;
  } else {
    steps_.push_back({Engine::kMemory, Kernel::kStore, memory_ops_.size(), 1});
  }
  memory_ops_.push_back(op);
}

Status StreamPlan::submit(Device& device, StreamHandle stream, DeviceAddress released, DeviceAddress marker,
                          uint64_t number) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const bool marks = marker != 0 && i + 1 == steps_.size();
    if (step.engine == Engine::kMemory) {
      // The last step's operations are at the end of memory_ops_, so the marker goes right behind them.
      if (marks) memory_ops_.push_back({MemoryOp::Kind::kWrite, marker, number});
      const std::span<const MemoryOp> ops(memory_ops_.data() + step.first, step.count + (marks ? 1 : 0));
      LANYARD_RETURN_IF_ERROR(device.driver().run_memory_ops(stream, ops));
      continue;
    }
    WordArguments arguments{};
    arguments.count = static_cast<uint32_t>(step.count);
    arguments.released = released;
    arguments.marker = marks ? marker : 0;
    arguments.number = number;
    std::copy_n(entries_.begin() + static_cast<ptrdiff_t>(step.first), step.count, arguments.entries);
    LANYARD_RETURN_IF_ERROR(device.launch(stream, step.kernel, arguments));
  }
  return {};
}

}  // namespace lanyard::gpu
