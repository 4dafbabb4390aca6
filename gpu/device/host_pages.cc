#include "gpu/device/host_pages.h"

#include <unistd.h>

#include <mutex>
#include <string>

namespace lanyard::gpu {
namespace {

uint64_t number_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
void* pointer_to(uint64_t number) { return reinterpret_cast<void*>(number); }

}  // namespace

HostPages::HostPages(Driver& driver) : driver_(driver), page_bytes_(static_cast<uint64_t>(sysconf(_SC_PAGESIZE))) {}

HostPages::~HostPages() {
  for (const auto& [page, context] : registered_)
    unregister(page, context);
}

void HostPages::unregister(uint64_t page, ContextHandle context) {
  const Inside inside(driver_, context);
  if (inside.status().ok())
    driver_.unregister_host(pointer_to(page));
}

Result<HostPages::Place> HostPages::reach(const Device& device, const uint64_t* word) {
  const uint64_t page = number_of(word) & ~(page_bytes_ - 1);
  {
    const std::shared_lock lock(mutex_);
    const auto found = addresses_.find(key(page, device.ordinal()));
    if (found != addresses_.end())
      return Place{found->second + (number_of(word) - page), false};
  }
  const std::unique_lock lock(mutex_);
  return look_up(device, word);
}

Result<HostPages::Place> HostPages::look_up(const Device& device, const uint64_t* word) {
  const uint64_t page = number_of(word) & ~(page_bytes_ - 1);
  LANYARD_ASSIGN_OR_RETURN(PointerFacts facts, driver_.facts_of(word));
  if (facts.kind == PointerFacts::Kind::kPageable) {
    LANYARD_RETURN_IF_ERROR(register_page(device, page));
    LANYARD_ASSIGN_OR_RETURN(facts, driver_.facts_of(word));
  }
  switch (facts.kind) {
    case PointerFacts::Kind::kDevice:
      if (facts.device != device.ordinal())
        LANYARD_RETURN_IF_ERROR(driver_.reach_device(facts.device));
      return Place{facts.address, true};
    case PointerFacts::Kind::kManaged:
      return Status(Code::kUnsupported,
                    "a word in managed memory: streams cannot wait for it; use ordinary host memory");
    case PointerFacts::Kind::kPageable:
      return Status(Code::kUnsupported, "the device cannot reach a word of host memory, though its page is registered");
    case PointerFacts::Kind::kPinned: break;
  }
  const DeviceAddress address = facts.address;
  // What others have registered they may unregister: asked for each time.
  if (registered_.contains(page))
    addresses_[key(page, device.ordinal())] = address - (number_of(word) - page);
  return Place{address, false};
}

Status HostPages::register_page(const Device& device, uint64_t page) {
  if (registered_.contains(page))
    return {};
  const Status status = driver_.register_host(pointer_to(page), page_bytes_);
  if (status.code() == Code::kInvalidState)
    return {};  // somebody else has, a part of it at least
  if (!status.ok() && status.code() != Code::kFailed)
    return Status(Code::kUnsupported,
                  "a page of words cannot be registered with the device (shared, mapped from a device, "
                  "or beyond ulimit -l?): " +
                      status.message());
  if (status.ok())
    registered_.emplace(page, device.context());
  return status;
}

void HostPages::forget(const void* memory, uint64_t bytes) {
  if (bytes == 0)
    return;
  const std::unique_lock lock(mutex_);
  const uint64_t end = number_of(memory) + bytes;
  for (uint64_t page = number_of(memory) & ~(page_bytes_ - 1); page < end; page += page_bytes_) {
    const auto found = registered_.find(page);
    if (found == registered_.end())
      continue;
    unregister(page, found->second);
    registered_.erase(found);
    for (int ordinal = 0; ordinal < driver_.device_count(); ++ordinal)
      addresses_.erase(key(page, ordinal));
  }
}

void HostPages::forget_all() {
  const std::unique_lock lock(mutex_);
  for (const auto& [page, context] : registered_)
    unregister(page, context);
  registered_.clear();
  addresses_.clear();
}

}  // namespace lanyard::gpu
