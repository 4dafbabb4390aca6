#include "gpu/device/staging.h"

#include <algorithm>
#include <bit>
#include <string>

namespace lanyard::gpu {

Staging::~Staging() {
  if (buffers_.empty())
    return;
  const Inside inside(driver_, context_);
  if (!inside.status().ok())
    return;  // the driver is already gone
  for (const auto& [memory, buffer] : buffers_)
    driver_.free_host(const_cast<std::byte*>(memory));
}

Result<std::byte*> Staging::take(uint64_t bytes, int device) {
  if (bytes > uint64_t{1} << 48)
    return Status(Code::kExhausted, std::to_string(bytes) + " bytes of staging memory: more than the limit of 2^48");
  const uint64_t wanted = std::bit_ceil(std::max(bytes, kSmallest));
  const std::lock_guard lock(mutex_);
  const auto found = free_.lower_bound(wanted);
  if (found == free_.end() || found->first > 4 * wanted)
    return allocate(wanted, device);
  std::byte* const memory = free_.extract(found).mapped();
  buffers_.at(memory).taken = true;
  return memory;
}

Result<std::byte*> Staging::allocate(uint64_t bytes, int device) {
  // Any device's context will do: all devices reach the memory.
  LANYARD_ASSIGN_OR_RETURN(const ContextHandle context, driver_.context_of_device(device));
  if (context_ == nullptr)
    context_ = context;
  const Inside inside(driver_, context);
  LANYARD_RETURN_IF_ERROR(inside.status());
  LANYARD_ASSIGN_OR_RETURN(void* const memory, driver_.allocate_host(bytes));
  const Result<PointerFacts> facts = driver_.facts_of(memory);
  if (!facts.ok()) {
    driver_.free_host(memory);
    return facts.status();
  }
  std::byte* const start = static_cast<std::byte*>(memory);
  buffers_.emplace(start, Buffer{bytes, facts.value().address, true});
  return start;
}

void Staging::give(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(memory);
  LANYARD_CHECK(found != buffers_.end() && found->second.taken,
                "give() takes the start of a staging buffer that is taken");
  found->second.taken = false;
  free_.emplace(found->second.bytes, memory);
}

std::optional<DeviceAddress> Staging::find(const void* memory, uint64_t bytes) const {
  const std::byte* const start = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(mutex_);
  auto after = buffers_.upper_bound(start);
  if (after == buffers_.begin())
    return std::nullopt;
  const auto& [base, buffer] = *--after;
  const uint64_t offset = static_cast<uint64_t>(start - base);
  if (!buffer.taken || offset > buffer.bytes || bytes > buffer.bytes - offset)
    return std::nullopt;
  return buffer.address + offset;
}

}  // namespace lanyard::gpu
