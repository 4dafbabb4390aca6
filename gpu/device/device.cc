#include "gpu/device/device.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>

#include "transport/base/check.h"

namespace lanyard::gpu {
namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t kPairBytes = 2 * kLine;
constexpr uint64_t kRingBytes = sizeof(CopyCommands);
constexpr uint64_t kRingsAt = Device::kPairs * kPairBytes;
constexpr uint64_t kAsideAt = kRingsAt + Device::kRings * kRingBytes;
constexpr uint64_t kEndsAside = 64;
constexpr uint64_t kAsideBytes = kEndsAside * sizeof(LaneEnd);
constexpr uint64_t kHostBytes = kAsideAt + kAsideBytes;

std::string name_of(std::span<const std::byte> uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (const std::byte byte : uuid) {
    name += kDigits[std::to_integer<unsigned>(byte) >> 4];
    name += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return name;
}

std::span<const std::byte> bytes_of(const auto& arguments) { return std::as_bytes(std::span(&arguments, 1)); }

}  // namespace

Result<std::unique_ptr<Device>> Device::open(Driver& driver, ContextHandle context, Sharing sharing) {
  std::unique_ptr<Device> device(new Device(driver, context, sharing));
  LANYARD_RETURN_IF_ERROR(device->set_up());
  return device;
}

Status Device::set_up() {
  const Result<int> ordinal = driver_.device_of_context(context_);
  if (!ordinal.ok())
    return ordinal.status();
  ordinal_ = ordinal.value();
  Result<DeviceFacts> facts = driver_.facts(ordinal_);
  if (!facts.ok())
    return facts.status();
  facts_ = std::move(facts.value());

  if (sharing_ == Sharing::kAsk) {
    Result<std::unique_ptr<Census>> census = Census::join("/dev/shm", "gpu-" + name_of(facts_.uuid));
    if (census.ok())
      census_ = std::move(census.value());  // else nobody else can tell either
  }

  const Inside inside(driver_, context_);
  LANYARD_RETURN_IF_ERROR(inside.status());
  constexpr std::array<const char*, kKernels> names = {"ring",  "store", "store_next", "wait",  "wait_next",  "copy",
                                                       "serve", "pack",  "reduce",     "lanes", "small_lanes"};
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const Result<KernelHandle> kernel = driver_.load_kernel(names[i]);
    if (!kernel.ok())
      return kernel.status();
    kernels_[i] = kernel.value();
  }
  const Result<StreamHandle> stream = driver_.make_stream();
  if (!stream.ok())
    return stream.status();
  side_stream_ = stream.value();

  const Result<void*> memory = driver_.allocate_host(kHostBytes);
  if (!memory.ok())
    return memory.status();
  host_memory_ = static_cast<std::byte*>(memory.value());
  const Result<PointerFacts> memory_facts = driver_.facts_of(host_memory_);
  if (!memory_facts.ok())
    return memory_facts.status();
  host_address_ = memory_facts.value().address;
  const Result<DeviceAddress> counts = driver_.allocate(kCounts * sizeof(uint64_t));
  if (!counts.ok())
    return counts.status();
  count_memory_ = counts.value();
  const Result<DeviceAddress> ends = driver_.allocate(kEnds * sizeof(LaneEnd));
  if (!ends.ok())
    return ends.status();
  end_memory_ = ends.value();

  // A first launch of each kernel, with nothing to do.
  Result<WordPair> pair = take_pair();
  if (!pair.ok())
    return pair.status();
  const std::lock_guard lock(side_);
  for (const Kernel kernel : {Kernel::kRing, Kernel::kStore, Kernel::kStoreNext, Kernel::kWait, Kernel::kWaitNext})
    LANYARD_RETURN_IF_ERROR(run_aside(kernel, WordArguments{}));
  CopyArguments copy{};
  copy.completion = pair.value().first_address;
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, 1, copy));
  const Result<CommandRing> ring = take_ring();
  if (!ring.ok())
    return ring.status();
  ServeArguments serve{};
  serve.commands = ring.value().address;
  serve.left = pair.value().second_address;
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, serve));
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, PackArguments{}));
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, CombineArguments{}));
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, Kernel::kLanes, 1, 0, LaneArguments{}));
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, Kernel::kSmallLanes, 1, 0, LaneArguments{}));
  LANYARD_RETURN_IF_ERROR(wait_aside());
  give_ring(ring.value());
  give_pair(pair.value());
  return {};
}

Device::~Device() {
  const Inside inside(driver_, context_);
  if (!inside.status().ok())
    return;  // the driver has gone first
  if (side_stream_ != nullptr)
    driver_.destroy_stream(side_stream_);
  if (host_memory_ != nullptr)
    driver_.free_host(host_memory_);
  if (count_memory_ != 0)
    driver_.free(count_memory_);
  if (end_memory_ != 0)
    driver_.free(end_memory_);
  for (const auto& [memory, words] : memory_)
    driver_.free(memory);
  for (const DeviceAddress slab : slabs_)
    driver_.free(slab);
}

uint32_t Device::blocks_for(uint64_t units, uint32_t threads) const {
  const uint64_t most = uint64_t{8} * static_cast<uint64_t>(facts_.multiprocessors);
  return static_cast<uint32_t>(std::clamp<uint64_t>((units + threads - 1) / threads, 1, most));
}

Status Device::launch(StreamHandle stream, Kernel kernel, const WordArguments& arguments) {
  return driver_.launch(stream, kernels_[static_cast<size_t>(kernel)], 1, std::max(arguments.count, 1u),
                        bytes_of(arguments), Driver::Order::kBehind);
}

Status Device::launch(StreamHandle stream, uint32_t blocks, const CopyArguments& arguments) {
  return driver_.launch(stream, kernels_[static_cast<size_t>(Kernel::kCopy)], blocks, kCopyThreads, bytes_of(arguments),
                        Driver::Order::kBehind);
}

Status Device::launch(StreamHandle stream, const ServeArguments& arguments) {
  return driver_.launch(stream, kernels_[static_cast<size_t>(Kernel::kServe)], 1, kServeThreads, bytes_of(arguments),
                        Driver::Order::kBehind);
}

Status Device::launch(StreamHandle stream, const PackArguments& arguments) {
  const uint64_t units = arguments.bytes / std::max(arguments.unit, 1u);
  return driver_.launch(stream, kernels_[static_cast<size_t>(Kernel::kPack)], blocks_for(units, kPackThreads),
                        kPackThreads, bytes_of(arguments), Driver::Order::kBehind);
}

Status Device::launch(StreamHandle stream, const CombineArguments& arguments) {
  return driver_.launch(stream, kernels_[static_cast<size_t>(Kernel::kReduce)],
                        blocks_for(arguments.count, kReduceThreads), kReduceThreads, bytes_of(arguments),
                        Driver::Order::kBehind);
}

// As many blocks as chunks, but no more than are there at the same time beside the program's: a block copies several.
// Blocks that wait stay for as long as it takes, so they leave most of the device to what they may be waiting for.
Status Device::launch(StreamHandle stream, Kernel kernel, uint64_t chunks, uint64_t chunk_bytes,
                      const LaneArguments& arguments) {
  if (kernel == Kernel::kSmallLanes) {
    const uint32_t threads = std::max(arguments.count, 1u) * static_cast<uint32_t>(facts_.warp_threads);
    return driver_.launch(stream, kernels_[static_cast<size_t>(kernel)], 1, threads, bytes_of(arguments),
                          Driver::Order::kBesides);
  }
  constexpr uint64_t kUnit = 16;
  const auto all = static_cast<uint64_t>(facts_.multiprocessors);
  const uint64_t most = arguments.wait != 0 ? std::max<uint64_t>(1, all / 4) : all;
  const auto blocks = static_cast<uint32_t>(std::clamp<uint64_t>(chunks, 1, most));
  const uint64_t most_threads = arguments.wait != 0 ? kLaneThreads / 2 : kLaneThreads;
  const auto threads = static_cast<uint32_t>(
      std::clamp<uint64_t>(std::bit_ceil(chunk_bytes / kUnit), 2 * LaneArguments::kLanes, most_threads));
  return driver_.launch(stream, kernels_[static_cast<size_t>(kernel)], blocks, threads, bytes_of(arguments),
                        Driver::Order::kBesides);
}

Status Device::run_aside(Kernel kernel, const WordArguments& arguments) {
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, kernel, arguments));
  return wait_aside();
}

Status Device::wait_aside() {
  for (;;) {
    const Result<bool> empty = driver_.is_empty(side_stream_);
    if (!empty.ok())
      return empty.status();
    if (empty.value())
      return {};
    std::this_thread::yield();
  }
}

Result<WordPair> Device::take_pair() {
  std::optional<uint32_t> slot = pairs_.take();
  if (!slot) {
    collect_pairs();
    slot = pairs_.take();
  }
  if (!slot)
    return Status(Code::kExhausted, std::to_string(kPairs) +
                                        " streams, copy queues and streams that graphs were "
                                        "captured on exist on " +
                                        facts_.name + ": destroy graphs that are done with");
  const uint64_t offset = *slot * kPairBytes;
  WordPair pair;
  pair.first = reinterpret_cast<uint64_t*>(host_memory_ + offset);
  pair.second = reinterpret_cast<uint64_t*>(host_memory_ + offset + kLine);
  pair.first_address = host_address_ + offset;
  pair.second_address = host_address_ + offset + kLine;
  pair.slot = *slot;
  std::atomic_ref(*pair.first).store(0);
  std::atomic_ref(*pair.second).store(0);
  return pair;
}

Result<CommandRing> Device::take_ring() {
  const std::optional<uint32_t> slot = rings_.take();
  if (!slot)
    return Status(Code::kExhausted, std::to_string(kRings) + " copy queues exist on " + facts_.name);
  const uint64_t offset = kRingsAt + *slot * kRingBytes;
  std::memset(host_memory_ + offset, 0, kRingBytes);
  return CommandRing{reinterpret_cast<CopyCommands*>(host_memory_ + offset), host_address_ + offset, *slot};
}

void Device::give_pair(const WordPair& pair, Captures named) {
  {
    const std::lock_guard lock(named_mutex_);
    named_.emplace_back(pair.slot, std::move(named));
  }
  collect_pairs();
}

void Device::collect_pairs() {
  const std::lock_guard lock(named_mutex_);
  std::erase_if(named_, [this](auto& each) {
    if (!each.second.all_gone())
      return false;
    pairs_.give(each.first);
    return true;
  });
}

Result<uint64_t*> Device::take_count(uint64_t value) {
  const std::optional<uint32_t> slot = counts_.take();
  if (!slot)
    return Status(Code::kExhausted, std::to_string(kCounts) + " counts are in use on " + facts_.name);
  WordArguments arguments{};
  arguments.count = 1;
  arguments.entries[0] = {count_memory_ + *slot * sizeof(uint64_t), value, 0};
  const Inside inside(driver_, context_);
  Status status = inside.status();
  if (status.ok()) {
    const std::lock_guard lock(side_);
    status = run_aside(Kernel::kStore, arguments);
  }
  if (!status.ok()) {
    counts_.give(*slot);
    return status;
  }
  return reinterpret_cast<uint64_t*>(arguments.entries[0].word);
}

Result<DeviceAddress> Device::find_memory(size_t words) {
  if (const auto unused = unused_.find(words); unused != unused_.end()) {
    const DeviceAddress memory = unused->second;
    unused_.erase(unused);
    return memory;
  }
  const Result<DeviceAddress> fresh = driver_.allocate(words * sizeof(uint64_t));
  if (fresh.ok())
    memory_.emplace(fresh.value(), words);
  return fresh;
}

Result<std::byte*> Device::take_memory(size_t words) {
  const Inside inside(driver_, context_);
  LANYARD_RETURN_IF_ERROR(inside.status());
  const std::lock_guard lock(side_);
  const Result<DeviceAddress> memory = find_memory(words);
  if (!memory.ok())
    return memory.status();
  return reinterpret_cast<std::byte*>(memory.value());
}

Result<std::byte*> Device::take_memory(std::span<const uint64_t> content) {
  const Inside inside(driver_, context_);
  LANYARD_RETURN_IF_ERROR(inside.status());
  const std::lock_guard lock(side_);
  const Result<DeviceAddress> found = find_memory(content.size());
  if (!found.ok())
    return found.status();
  const DeviceAddress memory = found.value();
  for (size_t first = 0; first < content.size(); first += WordArguments::kEntries) {
    WordArguments arguments{};
    arguments.count = static_cast<uint32_t>(std::min<size_t>(WordArguments::kEntries, content.size() - first));
    for (uint32_t i = 0; i < arguments.count; ++i)
      arguments.entries[i] = {memory + (first + i) * sizeof(uint64_t), content[first + i], 0};
    if (Status status = run_aside(Kernel::kStore, arguments); !status.ok()) {
      unused_.emplace(content.size(), memory);
      return status;
    }
  }
  return reinterpret_cast<std::byte*>(memory);
}

void Device::give_memory(std::byte* memory) {
  const std::lock_guard lock(side_);
  const auto known = memory_.find(reinterpret_cast<DeviceAddress>(memory));
  LANYARD_CHECK(known != memory_.end(), "memory of take_memory() is given back");
  unused_.emplace(known->second, known->first);
}

Status Device::copy_to_end(DeviceAddress end, const LaneEnd& content, size_t bytes) {
  const Inside inside(driver_, context_);
  LANYARD_RETURN_IF_ERROR(inside.status());
  const std::lock_guard lock(side_);
  std::memcpy(host_memory_ + kAsideAt, &content, bytes);
  return copy_aside(end, host_address_ + kAsideAt, bytes);
}

Status Device::copy_aside(DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  LANYARD_RETURN_IF_ERROR(driver_.copy(side_stream_, to, from, bytes));
  return wait_aside();
}

Result<DeviceAddress> Device::take_end() {
  const std::optional<uint32_t> slot = ends_.take();
  if (!slot)
    return Status(Code::kExhausted, std::to_string(kEnds) + " lanes end on " + facts_.name);
  const DeviceAddress end = end_memory_ + *slot * sizeof(LaneEnd);
  if (Status status = copy_to_end(end, LaneEnd{}, sizeof(LaneEnd)); !status.ok()) {
    ends_.give(*slot);
    return status;
  }
  return end;
}

Status Device::write_end(DeviceAddress end, const LaneEnd& content) {
  return copy_to_end(end, content, offsetof(LaneEnd, started));
}

// As many at once as there is memory for: those that lie next to each other, or nearly.
Status Device::read_ends(std::span<const DeviceAddress> ends, std::span<LaneEnd> content) {
  const Inside inside(driver_, context_);
  LANYARD_RETURN_IF_ERROR(inside.status());
  const std::lock_guard lock(side_);
  for (size_t first = 0; first < ends.size();) {
    size_t behind = first + 1;
    while (behind < ends.size() && ends[behind] - ends[first] < kAsideBytes)
      ++behind;
    LANYARD_RETURN_IF_ERROR(
        copy_aside(host_address_ + kAsideAt, ends[first], ends[behind - 1] - ends[first] + sizeof(LaneEnd)));
    for (size_t i = first; i < behind; ++i)
      std::memcpy(&content[i], host_memory_ + kAsideAt + (ends[i] - ends[first]), sizeof(LaneEnd));
    first = behind;
  }
  return {};
}

Result<DeviceAddress> Device::find_slots(uint64_t bytes) {
  if (const auto unused = unused_slots_.find(bytes); unused != unused_slots_.end()) {
    const DeviceAddress slots = unused->second;
    unused_slots_.erase(unused);
    return slots;
  }
  LANYARD_CHECK(bytes <= kSlab, "slots are as long as a slab at most");
  if (kSlab - slab_used_ < bytes) {
    const Result<DeviceAddress> slab = driver_.allocate(kSlab);
    if (!slab.ok())
      return slab.status();
    slabs_.push_back(slab.value());
    slab_used_ = 0;
  }
  const DeviceAddress slots = slabs_.back() + slab_used_;
  slab_used_ += bytes;
  return slots;
}

Result<DeviceAddress> Device::take_slots(uint64_t bytes) {
  const Inside inside(driver_, context_);
  LANYARD_RETURN_IF_ERROR(inside.status());
  const std::lock_guard lock(side_);
  const uint64_t rounded = std::bit_ceil(std::max(bytes, kLine));
  Result<DeviceAddress> slots = find_slots(rounded);
  if (!slots.ok())
    return slots;
  std::memset(host_memory_ + kAsideAt, 0, kAsideBytes);
  for (uint64_t done = 0; done < rounded; done += kAsideBytes) {
    const uint64_t length = std::min(kAsideBytes, rounded - done);
    if (Status status = copy_aside(slots.value() + done, host_address_ + kAsideAt, length); !status.ok()) {
      unused_slots_.emplace(rounded, slots.value());
      return status;
    }
  }
  return slots;
}

void Device::give_slots(DeviceAddress slots, uint64_t bytes) {
  const std::lock_guard lock(side_);
  unused_slots_.emplace(std::bit_ceil(std::max(bytes, kLine)), slots);
}

void Device::give_end(DeviceAddress end) { ends_.give(static_cast<uint32_t>((end - end_memory_) / sizeof(LaneEnd))); }

void Device::give_count(uint64_t* count) {
  counts_.give(static_cast<uint32_t>((reinterpret_cast<DeviceAddress>(count) - count_memory_) / sizeof(uint64_t)));
}

}  // namespace lanyard::gpu
