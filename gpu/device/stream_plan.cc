#include "gpu/device/stream_plan.h"

#include <algorithm>
#include <array>

namespace lanyard::gpu {

void StreamPlan::begin(bool few_stores_by_memory) {
  few_stores_by_memory_ = few_stores_by_memory;
  steps_.clear();
  entries_.clear();
  memory_ops_.clear();
  packings_.clear();
  combinations_.clear();
  lanes_.clear();
}

bool StreamPlan::joins(const Step& step, Kernel kernel, const WordEntry& entry) {
  if (step.engine != Engine::kKernel || step.kernel != kernel || step.count == WordArguments::kEntries)
    return false;
  // The threads of one kernel must not store to the same word, nor count on the same count.
  const bool stores = kernel == Kernel::kStore || kernel == Kernel::kStoreNext;
  const bool counts = kernel == Kernel::kStoreNext || kernel == Kernel::kWaitNext;
  return std::ranges::none_of(entries_of(step), [&](const WordEntry& other) {
    return (stores && other.word == entry.word) || (counts && other.value == entry.value);
  });
}

void StreamPlan::put(Kernel kernel, DeviceAddress word, uint64_t value, uint64_t extra) {
  const WordEntry entry{word, value, extra};
  if (kernel == Kernel::kRing && !steps_.empty() && steps_.back().engine == Engine::kKernel &&
      steps_.back().kernel == kernel) {
    const std::span<WordEntry> rings = entries_of(steps_.back());
    const auto same = std::ranges::find(rings, word, &WordEntry::word);
    if (same != rings.end()) {
      same->value += value;
      return;
    }
  }
  if (!steps_.empty() && joins(steps_.back(), kernel, entry)) {
    ++steps_.back().count;
  } else {
    steps_.push_back({Engine::kKernel, kernel, entries_.size(), 1});
  }
  entries_.push_back(entry);
}

void StreamPlan::put(const MemoryOp& op) {
  if (!steps_.empty() && steps_.back().engine == Engine::kMemory && steps_.back().count < kMemoryOps) {
    ++steps_.back().count;
  } else {
    steps_.push_back({Engine::kMemory, Kernel::kStore, memory_ops_.size(), 1});
  }
  memory_ops_.push_back(op);
}

void StreamPlan::put(const PackArguments& packing) {
  steps_.push_back({Engine::kPacking, Kernel::kPack, packings_.size(), 1});
  packings_.push_back(packing);
}

void StreamPlan::put(const CombineArguments& combination) {
  // What solvers wait for. The rest is long, and would make the kernel slow that has it all.
  const bool is_real = combination.element == Element::kDouble || combination.element == Element::kFloat;
  if (!steps_.empty() && is_small(steps_.back()) && steps_.back().wait && !steps_.back().combines && is_real &&
      combination.count <= kMostSmallElements) {
    steps_.back().combines = true;
    steps_.back().combination = combinations_.size();
    combinations_.push_back(combination);
    return;
  }
  steps_.push_back({Engine::kCombining, Kernel::kReduce, combinations_.size(), 1});
  combinations_.push_back(combination);
}

bool StreamPlan::joins(const Step& step, const Lane& lane, bool wait) const {
  if (step.engine != Engine::kLanes || step.wait != wait || step.combines || step.count == LaneArguments::kLanes)
    return false;
  const std::span ends(lanes_.data() + step.first, step.count);
  return std::ranges::find(ends, lane.end) == ends.end();
}

void StreamPlan::put(const Lane& lane, bool wait) {
  if (steps_.empty() || !joins(steps_.back(), lane, wait))
    steps_.push_back({Engine::kLanes, Kernel::kLanes, lanes_.size(), 0, wait});
  Step& step = steps_.back();
  ++step.count;
  step.chunks += lane.chunks;
  step.chunk_bytes = std::max(step.chunk_bytes, lane.chunk_bytes);
  lanes_.push_back(lane.end);
}

Status StreamPlan::submit(Device& device, StreamHandle stream, DeviceAddress released, DeviceAddress marker,
                          uint64_t number) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.engine == Engine::kPacking) {
      LANYARD_RETURN_IF_ERROR(device.launch(stream, packings_[step.first]));
      continue;
    }
    if (step.engine == Engine::kCombining) {
      LANYARD_RETURN_IF_ERROR(device.launch(stream, combinations_[step.first]));
      continue;
    }
    const bool marks = marker != 0 && i + 1 == steps_.size();
    if (step.engine == Engine::kLanes) {
      LaneArguments arguments{};
      arguments.count = static_cast<uint32_t>(step.count);
      arguments.wait = step.wait ? 1 : 0;
      arguments.divided = step.chunks > step.count ? 1 : 0;
      arguments.released = released;
      arguments.marker = marks ? marker : 0;
      arguments.number = number;
      std::copy_n(lanes_.data() + step.first, step.count, arguments.ends);
      if (step.combines)
        arguments.combination = combinations_[step.combination];
      const Kernel kernel = is_small(step) ? Kernel::kSmallLanes : Kernel::kLanes;
      LANYARD_RETURN_IF_ERROR(device.launch(stream, kernel, step.chunks, step.chunk_bytes, arguments));
      continue;
    }
    if (few_stores_by_memory_ && step.engine == Engine::kKernel && step.kernel == Kernel::kStore &&
        step.count <= kFewStores) {
      std::array<MemoryOp, kFewStores + 1> ops;
      size_t count = 0;
      for (const WordEntry& store : entries_of(step))
        ops[count++] = {MemoryOp::Kind::kWrite, store.word, store.value};
      if (marks)
        ops[count++] = {MemoryOp::Kind::kWrite, marker, number};
      LANYARD_RETURN_IF_ERROR(device.driver().run_memory_ops(stream, std::span(ops.data(), count)));
      continue;
    }
    if (step.engine == Engine::kMemory) {
      // The last step's operations are at the end of memory_ops_, so the marker goes right behind them.
      if (marks)
        memory_ops_.push_back({MemoryOp::Kind::kWrite, marker, number});
      const std::span<const MemoryOp> ops(memory_ops_.data() + step.first, step.count + (marks ? 1 : 0));
      LANYARD_RETURN_IF_ERROR(device.driver().run_memory_ops(stream, ops));
      continue;
    }
    WordArguments arguments{};
    arguments.count = static_cast<uint32_t>(step.count);
    arguments.released = released;
    arguments.marker = marks ? marker : 0;
    arguments.number = number;
    std::ranges::copy(entries_of(step), arguments.entries);
    LANYARD_RETURN_IF_ERROR(device.launch(stream, step.kernel, arguments));
  }
  if (marker == 0 || !ends_unmarked())
    return {};
  WordArguments nothing{};
  nothing.marker = marker;
  nothing.number = number;
  return device.launch(stream, Kernel::kStore, nothing);
}

}  // namespace lanyard::gpu
