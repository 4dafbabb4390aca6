#include "gpu/device/stream_plan.h"

#include <algorithm>
#include <array>
#include <span>

namespace lanyard::gpu {
namespace {

bool has_room(const WordArguments& arguments, Kernel kernel, const WordEntry& entry) {
  if (arguments.count == WordArguments::kEntries)
    return false;
  // Threads of one kernel must not store to the same word or use the same counter.
  const bool stores = kernel == Kernel::kStore || kernel == Kernel::kStoreNext;
  const bool counts = kernel == Kernel::kStoreNext || kernel == Kernel::kWaitNext;
  return std::ranges::none_of(std::span(arguments.entries, arguments.count), [&](const WordEntry& other) {
    return (stores && other.word == entry.word) || (counts && other.value == entry.value);
  });
}

bool has_room(const LaneArguments& arguments, const Lane& lane) {
  const std::span ends(arguments.ends, arguments.count);
  return arguments.count < LaneArguments::kLanes && std::ranges::find(ends, lane.end) == ends.end();
}

}  // namespace

void StreamPlan::begin(bool few_stores_by_memory) {
  few_stores_by_memory_ = few_stores_by_memory;
  steps_.clear();
  memory_ops_.clear();
}

void StreamPlan::put(Kernel kernel, DeviceAddress word, uint64_t value, uint64_t extra) {
  const WordEntry entry{word, value, extra};
  Words* step = last<Words>();
  if (step != nullptr && step->kernel == kernel && kernel == Kernel::kRing) {
    const std::span rings(step->arguments.entries, step->arguments.count);
    const auto same = std::ranges::find(rings, word, &WordEntry::word);
    if (same != rings.end()) {
      same->value += value;
      return;
    }
  }
  if (step == nullptr || step->kernel != kernel || !has_room(step->arguments, kernel, entry))
    step = &std::get<Words>(steps_.emplace_back(Words{kernel, {}}));
  step->arguments.entries[step->arguments.count++] = entry;
}

void StreamPlan::put(const MemoryOp& op) {
  MemoryOps* step = last<MemoryOps>();
  if (step == nullptr || step->count == kMemoryOps)
    step = &std::get<MemoryOps>(steps_.emplace_back(MemoryOps{memory_ops_.size(), 0}));
  ++step->count;
  memory_ops_.push_back(op);
}

void StreamPlan::put(const Lane& lane, bool wait) {
  LaneSteps* step = last<LaneSteps>();
  if (step == nullptr || (step->arguments.wait != 0) != wait || !has_room(step->arguments, lane)) {
    step = &std::get<LaneSteps>(steps_.emplace_back(LaneSteps{}));
    step->arguments.wait = wait ? 1 : 0;
  }
  step->arguments.ends[step->arguments.count++] = lane.end;
  step->chunks += lane.chunks;
  step->chunk_bytes = std::max(step->chunk_bytes, lane.chunk_bytes);
}

Status StreamPlan::submit(Device& device, StreamHandle stream, DeviceAddress released, DeviceAddress marker,
                          uint64_t number) {
  if (marker != 0 && ends_unmarked())
    steps_.emplace_back(Words{Kernel::kStore, {}});
  for (Step& step : steps_) {
    const bool marks = marker != 0 && &step == &steps_.back();
    const MemoryOp mark{MemoryOp::Kind::kWrite, marker, number};
    const auto complete = [&](auto& arguments) {
      arguments.released = released;
      arguments.marker = marks ? marker : 0;
      arguments.number = number;
    };
    if (const auto* packing = std::get_if<PackArguments>(&step)) {
      LANYARD_RETURN_IF_ERROR(device.launch(stream, *packing));
    } else if (const auto* combination = std::get_if<CombineArguments>(&step)) {
      LANYARD_RETURN_IF_ERROR(device.launch(stream, *combination));
    } else if (auto* lanes = std::get_if<LaneSteps>(&step)) {
      complete(lanes->arguments);
      LANYARD_RETURN_IF_ERROR(device.launch(stream, lanes->chunks, lanes->chunk_bytes, lanes->arguments));
    } else if (const auto* memory = std::get_if<MemoryOps>(&step)) {
      // The last step's operations end memory_ops_, so the marker goes right behind them.
      if (marks)
        memory_ops_.push_back(mark);
      const std::span<const MemoryOp> ops(memory_ops_.data() + memory->first, memory->count + (marks ? 1 : 0));
      LANYARD_RETURN_IF_ERROR(device.driver().run_memory_ops(stream, ops));
    } else {
      auto& [kernel, arguments] = std::get<Words>(step);
      complete(arguments);
      if (!few_stores_by_memory_ || kernel != Kernel::kStore || arguments.count == 0 || arguments.count > kFewStores) {
        LANYARD_RETURN_IF_ERROR(device.launch(stream, kernel, arguments));
        continue;
      }
      std::array<MemoryOp, kFewStores + 1> ops;
      size_t count = 0;
      for (const WordEntry& store : std::span(arguments.entries, arguments.count))
        ops[count++] = {MemoryOp::Kind::kWrite, store.word, store.value};
      if (marks)
        ops[count++] = mark;
      LANYARD_RETURN_IF_ERROR(device.driver().run_memory_ops(stream, std::span(ops.data(), count)));
    }
  }
  return {};
}

}  // namespace lanyard::gpu
