#include "gpu/device/device_stream.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "gpu/packing.h"

namespace lanyard::gpu {
namespace {

using Kind = StreamOp::Kind;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestHalt{1};

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

Result<std::unique_ptr<DeviceStream>> DeviceStream::make(Device& device, HostPages& pages, StreamHandle handle,
                                                         const DeviceOptions& options) {
  const Inside inside(device.driver(), device.context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  LANYARD_ASSIGN_OR_RETURN(const uint64_t capture, device.driver().capture_of(handle));
  if (capture == 0)
    LANYARD_RETURN_IF_ERROR(device.driver().is_empty(handle).status());
  LANYARD_ASSIGN_OR_RETURN(const WordPair words, device.take_pair());
  return std::unique_ptr<DeviceStream>(new DeviceStream(device, pages, handle, options, words));
}

DeviceStream::DeviceStream(Device& device, HostPages& pages, StreamHandle handle, const DeviceOptions& options,
                           const WordPair& words)
    : device_(device), pages_(pages), handle_(handle), options_(options), words_(words), waits_(kMaxWaits) {}

DeviceStream::~DeviceStream() {
  // Do not ask the driver: the program may have destroyed its stream.
  if (executed() == submitted_ && !captured_)
    device_.give_pair(words_);  // D3
}

Status DeviceStream::note(Status status) {
  // All arguments were valid when the stream was made, so the error is permanent.
  if (status.code() == Code::kInvalidArgument)
    status = Status(Code::kFailed, "the stream is not valid any more: " + status.message());
  if (status.code() == Code::kFailed && failure_.ok())
    failure_ = status;
  return status;
}

Status DeviceStream::enqueue(std::span<const StreamOp> ops) {
  for (const StreamOp& op : ops)
    LANYARD_RETURN_IF_ERROR(op.kind == Kind::kCall
                                ? Status(Code::kUnsupported, "a stream of a GPU cannot call host functions")
                                : check_operation(op));
  const std::lock_guard lock(mutex_);
  if (!failure_.ok())
    return failure_;
  if (halted_)
    return Status(Code::kInvalidState, "the stream is halted");
  if (ops.empty())
    return {};
  const Inside inside(device_.driver(), device_.context());
  LANYARD_RETURN_IF_ERROR(note(inside.status()));
  const Result<uint64_t> capture = device_.driver().capture_of(handle_);
  if (!capture.ok())
    return note(capture.status());
  const bool captured = capture.value() != 0;

  plan_.begin(device_.facts().has_memory_ops && !captured);
  planned_waits_.clear();
  for (const StreamOp& op : ops) {
    if (options_.only_met_waits && !captured) {
      LANYARD_ASSIGN_OR_RETURN(const bool met, is_met(op));
      if (!met)
        return Status(Code::kAgain,
                      "a wait of the batch is not met yet, and this process enqueues only waits that are met");
    }
    LANYARD_RETURN_IF_ERROR(put(op, captured));
  }
  if (captured) {
    captured_ = true;
    const Status status = plan_.submit(device_, handle_, words_.first_address, 0, 0);
    // An invalid capture yields no graph. After another error a graph may have a part of the batch.
    if (status.ok() || status.code() == Code::kInvalidState)
      return status;
    return note(Status(Code::kFailed, "the driver refused a captured batch, maybe half-way: " + status.message()));
  }
  LANYARD_RETURN_IF_ERROR(make_room());
  return submit();
}

Result<bool> DeviceStream::is_met(const StreamOp& op) {
  if (op.kind != Kind::kWait64)
    return true;
  const Result<HostPages::Place> place = pages_.reach(device_, op.word);
  if (!place.ok())
    return note(place.status());
  if (place.value().on_device)
    return true;  // the host cannot read it
  return std::atomic_ref(*op.word).load(std::memory_order_acquire) >= op.value;
}

Status DeviceStream::put(const StreamOp& op, bool captured) {
  if (op.kind == Kind::kWait64 && captured)
    return Status(Code::kUnsupported, "kWait64 waits for a fixed value and cannot be captured: use kWaitNext64");
  if (op.kind == Kind::kPack || op.kind == Kind::kUnpack) {
    LANYARD_RETURN_IF_ERROR(can_pack(*static_cast<const Packing*>(op.object)));
    put_packing(op);
    return {};
  }
  if (op.kind == Kind::kStartLane || op.kind == Kind::kWaitLane) {
    const Lane& lane = *static_cast<const Lane*>(op.object);
    if (lane.device != device_.ordinal())
      return Status(Code::kUnsupported, "GPUs carry this request's messages themselves, and its memory is on device " +
                                            std::to_string(lane.device) +
                                            ": start it on a stream of that device, or set its "
                                            "hint lanyard_route to card before its match");
    plan_.put(lane, op.kind == Kind::kWaitLane);
    return {};
  }
  const DeviceFacts& facts = device_.facts();
  const Result<HostPages::Place> place = pages_.reach(device_, op.word);
  if (!place.ok())
    return note(place.status());
  const DeviceAddress word = place.value().address;
  switch (op.kind) {
    case Kind::kAdd64: plan_.put(Kernel::kRing, word, op.value); break;
    case Kind::kWrite64:
      // On a shared device a kernel would wait for this process's turn.
      if (facts.has_memory_ops && !captured && device_.is_shared()) {
        plan_.put({MemoryOp::Kind::kWrite, word, op.value});
      } else {
        plan_.put(Kernel::kStore, word, op.value);
      }
      break;
    case Kind::kWait64:
      if (facts.has_memory_ops && !place.value().on_device && (options_.foreign_writes || device_.is_shared())) {
        plan_.put({MemoryOp::Kind::kWait, word, op.value});
        planned_waits_.push_back({op.word, op.value, 0});
      } else {
        plan_.put(Kernel::kWait, word, op.value);
      }
      break;
    case Kind::kWriteNext64:
    case Kind::kWaitNext64:
      if (!device_.has_count(op.count))
        return Status(Code::kInvalidArgument, "the counter is not from this stream's take_count()");
      plan_.put(op.kind == Kind::kWriteNext64 ? Kernel::kStoreNext : Kernel::kWaitNext, word,
                reinterpret_cast<DeviceAddress>(op.count), op.value);
      break;
    default: break;  // the others are above
  }
  return {};
}

Status DeviceStream::can_pack(const Packing& packing) const {
  if (packing.device == device_.ordinal())
    return {};
  return Status(Code::kUnsupported,
                packing.device == DeviceMemory::kHost
                    ? "a stream of a GPU cannot pack or unpack host memory: use a host stream, memory of the GPU, or a "
                      "contiguous buffer and your own kernel"
                    : "a stream of a GPU cannot pack or unpack memory of another GPU: use a stream of that GPU");
}

void DeviceStream::put_packing(const StreamOp& op) {
  if (op.value == 0)
    return;
  const Packing& packing = *static_cast<const Packing*>(op.object);
  if (packing.combination != nullptr) {
    const Combination& combination = *packing.combination;
    plan_.put(CombineArguments{reinterpret_cast<uint64_t>(packing.memory),
                               reinterpret_cast<uint64_t>(packing.loops.get()), combination.parts.size(),
                               combination.count, combination.element, combination.operation});
    return;
  }
  const uint32_t unit = std::min(packing.unit, uint32_t{1} << std::min(std::countr_zero(op.value), 4));
  plan_.put(PackArguments{reinterpret_cast<uint64_t>(packing.memory), reinterpret_cast<uint64_t>(packing.packed.get()),
                          reinterpret_cast<uint64_t>(packing.loops.get()), op.value, unit,
                          op.kind == Kind::kUnpack ? 1u : 0u});
}

// D1
Status DeviceStream::make_room() {
  const uint64_t steps = plan_.steps();
  if (steps > kMaxOutstanding || planned_waits_.size() > kMaxWaits)
    return Status(Code::kExhausted, "a batch of " + std::to_string(steps) + " launches and " +
                                        std::to_string(planned_waits_.size()) + " waits: at most " +
                                        std::to_string(kMaxOutstanding) + " and " + std::to_string(kMaxWaits) + " fit");
  forget_met_waits();
  if (submitted_ - executed() + steps > kMaxOutstanding || wait_count_ + planned_waits_.size() > kMaxWaits)
    return Status(Code::kAgain, "the stream's launch queue is full");
  return {};
}

Status DeviceStream::submit() {
  const uint64_t number = submitted_ + plan_.steps();
  // Record the waits before the driver gets them: halt() must find them.
  for (const Wait& wait : planned_waits_)
    waits_[(oldest_wait_ + wait_count_++) % waits_.size()] = {wait.word, wait.value, number};
  const Status status = plan_.submit(device_, handle_, words_.first_address, words_.second_address, number);
  submitted_ = number;
  if (status.ok())
    return {};
  return note(Status(Code::kFailed, "the driver refused a batch, maybe half-way: " + status.message()));
}

void DeviceStream::forget_met_waits() {
  const uint64_t passed = executed();
  while (wait_count_ > 0 && waits_[oldest_wait_ % waits_.size()].number <= passed) {
    ++oldest_wait_;
    --wait_count_;
  }
}

bool DeviceStream::poll() {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok())
    return false;
  return halted_ ? executed() == submitted_ : ask_driver();
}

bool DeviceStream::ask_driver() {
  const Inside inside(device_.driver(), device_.context());
  if (!note(inside.status()).ok())
    return false;
  const Result<uint64_t> capture = device_.driver().capture_of(handle_);
  if (!note(capture.status()).ok())
    return false;
  if (capture.value() != 0)
    return executed() == submitted_;
  const Result<bool> empty = device_.driver().is_empty(handle_);
  return note(empty.status()).ok() && empty.value();
}

Status DeviceStream::health() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

uint64_t DeviceStream::capturing() const {
  {
    // The program may have destroyed its stream.
    const std::lock_guard lock(mutex_);
    if (halted_)
      return 0;
  }
  const Inside inside(device_.driver(), device_.context());
  if (!inside.status().ok())
    return 0;
  const Result<uint64_t> capture = device_.driver().capture_of(handle_);
  return capture.ok() ? capture.value() : 0;
}

Result<uint64_t*> DeviceStream::reach(uint64_t* word) {
  LANYARD_RETURN_IF_ERROR(check_operation({.kind = Kind::kWait64, .word = word}));
  const Inside inside(device_.driver(), device_.context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  LANYARD_ASSIGN_OR_RETURN(const HostPages::Place place, pages_.reach(device_, word));
  return reinterpret_cast<uint64_t*>(place.address);
}

// D2
void DeviceStream::raise_words() {
  forget_met_waits();
  for (uint64_t i = 0; i < wait_count_; ++i) {
    const Wait& wait = waits_[(oldest_wait_ + i) % waits_.size()];
    const std::atomic_ref word(*wait.word);
    uint64_t seen = word.load();
    while (seen < wait.value && !word.compare_exchange_weak(seen, wait.value)) {
    }
  }
}

bool DeviceStream::halt(std::chrono::nanoseconds /*limit*/) {
  const Clock::time_point deadline = Clock::now() + kLongestHalt;
  std::atomic_ref(*words_.first).store(1);
  {
    const std::lock_guard lock(mutex_);
    halted_ = true;
    if (executed() == submitted_)
      return true;
  }
  do {
    {
      const std::lock_guard lock(mutex_);
      halted_ = true;
      if (!failure_.ok())
        return true;
      raise_words();
      if (ask_driver() || !failure_.ok())
        return true;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  } while (Clock::now() < deadline);
  return true;
}

}  // namespace lanyard::gpu
