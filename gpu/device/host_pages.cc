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

HostPages::~HostPages() { forget(); }

Result<HostPages::Place> HostPages::reach(const Device& device, const uint64_t* word) {
  const uint64_t page = page_of(word);
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = registered_.find(page); found != registered_.end())
      if (const auto known = found->second.addresses.find(device.ordinal()); known != found->second.addresses.end())
        return Place{known->second + (number_of(word) - page), false};
  }
  const std::unique_lock lock(mutex_);
  return look_up(device, word);
}

Result<HostPages::Place> HostPages::look_up(const Device& device, const uint64_t* word) {
  const uint64_t page = page_of(word);
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
      return Status(Code::kUnsupported, "streams cannot wait for a word in managed memory: use ordinary host memory");
    case PointerFacts::Kind::kPageable:
      return Status(Code::kUnsupported, "the device cannot reach a word of host memory, though its page is registered");
    case PointerFacts::Kind::kPinned: break;
  }
  const DeviceAddress address = facts.address;
  // Others may unregister pages that they registered, so do not remember those.
  if (const auto found = registered_.find(page); found != registered_.end())
    found->second.addresses[device.ordinal()] = address - (number_of(word) - page);
  return Place{address, false};
}

Status HostPages::register_page(const Device& device, uint64_t page) {
  if (registered_.contains(page))
    return {};
  const Status status = driver_.register_host(pointer_to(page), page_bytes_);
  if (status.code() == Code::kInvalidState)
    return {};  // others have registered at least a part of it
  if (!status.ok() && status.code() != Code::kFailed)
    return Status(Code::kUnsupported,
                  "the driver cannot register a page of words (shared, mapped from a device, "
                  "or beyond ulimit -l?): " +
                      status.message());
  if (status.ok())
    registered_[page].context = device.context();
  return status;
}

void HostPages::forget() {
  const std::unique_lock lock(mutex_);
  for (const auto& [page, known] : registered_) {
    const Inside inside(driver_, known.context);
    if (inside.status().ok())
      driver_.unregister_host(pointer_to(page));
  }
  registered_.clear();
}

}  // namespace lanyard::gpu
