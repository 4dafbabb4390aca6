#include "gpu/device/backend.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "gpu/device/device_stream.h"

namespace lanyard::gpu {

Result<std::unique_ptr<Backend>> Backend::make(std::unique_ptr<Driver> driver, const DeviceOptions& options) {
  LANYARD_ASSIGN_OR_RETURN(const ProcessName self, ProcessName::own());
  return std::unique_ptr<Backend>(new Backend(std::move(driver), self, options));
}

Backend::Backend(std::unique_ptr<Driver> driver, const ProcessName& self, const DeviceOptions& options)
    : driver_(std::move(driver)),
      devices_(*driver_, options),
      pages_(*driver_),
      memory_(devices_, self),
      lanes_(devices_, pages_, memory_) {}

std::vector<std::string> Backend::describe_devices() {
  std::vector<std::string> lines;
  for (int device = 0; device < driver_->device_count(); ++device) {
    const Result<DeviceFacts> facts = driver_->facts(device);
    lines.push_back(
        !facts.ok()
            ? facts.status().message()
            : facts.value().name + ", " + std::to_string(facts.value().multiprocessors) +
                  " multiprocessors, waits by kernels" +
                  (facts.value().has_memory_ops ? ", or by memory operations if other processes use it too" : ""));
  }
  return lines;
}

std::vector<std::string> Backend::describe_lanes() {
  std::vector<std::string> lines;
  for (int device = 0; device < driver_->device_count(); ++device)
    for (int other = device; other < driver_->device_count(); ++other) {
      Status way = lanes_.check_way(device, other);
      if (way.ok())
        way = lanes_.check_way(other, device);
      lines.push_back("devices " + std::to_string(device) + " and " + std::to_string(other) + ": " +
                      (way.ok() ? "yes" : "no, " + way.message()));
    }
  return lines;
}

Result<std::unique_ptr<Stream>> Backend::make_stream(void* handle) {
  LANYARD_ASSIGN_OR_RETURN(const ContextHandle context, driver_->context_of_stream(handle));
  LANYARD_ASSIGN_OR_RETURN(Device* const device, devices_.of_context(context));
  LANYARD_ASSIGN_OR_RETURN(std::unique_ptr<DeviceStream> stream,
                           DeviceStream::make(*device, pages_, handle, devices_.options()));
  return std::unique_ptr<Stream>(std::move(stream));
}

namespace {

// Rounds sizes up, so that one request can reuse the memory of another.
size_t rounded_words(uint64_t bytes) {
  constexpr uint64_t kFine = uint64_t{1} << 20;
  const uint64_t rounded = bytes <= kFine ? std::bit_ceil(bytes) : (bytes + kFine - 1) / kFine * kFine;
  return std::max<uint64_t>(rounded / sizeof(uint64_t), 32);
}

// The largest power of two, at most 16, that divides the address and all offsets, strides
// and lengths.
uint32_t unit_of(const Layout& layout, const void* memory) {
  uint64_t all = reinterpret_cast<uint64_t>(memory) | 16;
  for (const LayoutLoop& loop : layout.loops())
    all |= static_cast<uint64_t>(loop.offset) | loop.bytes | (loop.count > 1 ? static_cast<uint64_t>(loop.stride) : 0);
  return uint32_t{1} << std::countr_zero(all);
}

}  // namespace

Result<std::shared_ptr<Packing>> Backend::make_packing(std::shared_ptr<const Layout> layout, void* memory, int device) {
  if (layout->loops().size() > kMostLoops)
    return Status(Code::kUnsupported,
                  "the datatype has " + std::to_string(layout->loops().size()) + " irregular blocks; at most " +
                      std::to_string(kMostLoops) +
                      " can be packed in memory of a GPU: pack into a contiguous buffer by your own kernel");
  LANYARD_ASSIGN_OR_RETURN(Device* const owner, devices_.of_ordinal(device));
  const auto give_back = [owner](std::byte* taken) { owner->give_memory(taken); };
  const auto words = std::span(reinterpret_cast<const uint64_t*>(layout->loops().data()),
                               layout->loops().size() * sizeof(LayoutLoop) / sizeof(uint64_t));
  LANYARD_ASSIGN_OR_RETURN(std::byte* const packed, owner->take_memory(rounded_words(layout->bytes())));
  auto packing = std::make_shared<Packing>();
  packing->packed = {packed, give_back};
  LANYARD_ASSIGN_OR_RETURN(std::byte* const loops, owner->take_memory(words));
  packing->loops = {loops, give_back};
  packing->unit = unit_of(*layout, memory);
  packing->layout = std::move(layout);
  packing->memory = memory;
  packing->device = device;
  return packing;
}

Result<std::shared_ptr<Packing>> Backend::make_combining(Combination combination, uint64_t stride, void* memory,
                                                         int device) {
  if (!is_for_devices(combination.element))
    return Status(Code::kUnsupported, "GPUs have no long double: reduce it in host memory, on a host stream");
  LANYARD_ASSIGN_OR_RETURN(Device* const owner, devices_.of_ordinal(device));
  const auto give_back = [owner](std::byte* taken) { owner->give_memory(taken); };
  LANYARD_ASSIGN_OR_RETURN(std::byte* const contributions,
                           owner->take_memory(rounded_words(combination.unplaced() * stride)));
  auto packing = std::make_shared<Packing>();
  packing->packed = {contributions, give_back};
  combination.place(contributions, stride);
  LANYARD_ASSIGN_OR_RETURN(std::byte* const parts, owner->take_memory(combination.parts));
  packing->loops = {parts, give_back};
  packing->combination = std::make_shared<Combination>(std::move(combination));
  packing->memory = memory;
  packing->device = device;
  return packing;
}

}  // namespace lanyard::gpu
