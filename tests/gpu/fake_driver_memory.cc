// FakeDriver's memory as the host and the "device" see it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "tests/gpu/fake_driver.h"

namespace lanyard {

using gpu::DeviceAddress;
using gpu::Fault;

namespace {

// Device addresses of host memory start here; no host address is that high.
constexpr DeviceAddress kHostWindow = DeviceAddress{1} << 60;

}  // namespace

std::byte* FakeDriver::reach(DeviceAddress address, uint64_t bytes, uint64_t mappings) {
  const std::lock_guard lock(memory_mutex_);
  if (address >= kHostWindow) {
    const uint64_t host = address - kHostWindow;
    auto after = registered_.upper_bound(host);
    if (after != registered_.begin()) {
      const auto& [base, range] = *std::prev(after);
      if (host + bytes <= base + range.bytes && range.number <= mappings)
        return reinterpret_cast<std::byte*>(host);
    }
  } else {
    auto after = memory_.upper_bound(address);
    if (after != memory_.begin()) {
      const auto& [base, memory] = *std::prev(after);
      if (address + bytes <= base + memory.bytes && memory.number <= mappings)
        return memory.window + (address - base);
    }
  }
  lost_ = true;
  return nullptr;
}

uint64_t FakeDriver::mappings() {
  const std::lock_guard lock(memory_mutex_);
  return mappings_;
}

void FakeDriver::map_anew(int device) {
  const std::lock_guard lock(memory_mutex_);
  for (auto& [base, memory] : memory_)
    if (memory.device == device)
      memory.number = ++mappings_;
}

void FakeDriver::free_all() {
  for (const auto& [base, memory] : memory_)
    unmap(base, memory);
  for (void* memory : pinned_)
    std::free(memory);
}

Status FakeDriver::register_host(void* memory, uint64_t bytes) {
  LANYARD_RETURN_IF_ERROR(inside("register_host").status());
  if (refuse_registration_)
    return fault(Fault::kNoMemory, "register_host");
  const std::lock_guard lock(memory_mutex_);
  const bool is_new = registered_.emplace(reinterpret_cast<uint64_t>(memory), HostRange{bytes, mappings_ + 1}).second;
  mappings_ += is_new ? 1 : 0;
  return is_new ? Status{} : fault(Fault::kAlreadyRegistered, "register_host");
}

void FakeDriver::unregister_host(void* memory) {
  const std::lock_guard lock(memory_mutex_);
  registered_.erase(reinterpret_cast<uint64_t>(memory));
}

uint64_t FakeDriver::registered_ranges() {
  const std::lock_guard lock(memory_mutex_);
  return registered_.size();
}

uint64_t FakeDriver::mapped_loans() {
  const std::lock_guard lock(memory_mutex_);
  return static_cast<uint64_t>(
      std::count_if(memory_.begin(), memory_.end(), [](const auto& entry) { return entry.second.borrowed; }));
}

Result<void*> FakeDriver::allocate_host(uint64_t bytes) {
  void* const memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  const Status status = register_host(memory, bytes);
  if (!status.ok()) {
    std::free(memory);
    return status;
  }
  const std::lock_guard lock(memory_mutex_);
  pinned_.insert(memory);
  return memory;
}

void FakeDriver::free_host(void* memory) {
  unregister_host(memory);
  const std::lock_guard lock(memory_mutex_);
  pinned_.erase(memory);
  std::free(memory);
}

DeviceAddress FakeDriver::map(uint64_t bytes, int device, std::shared_ptr<void> file, bool borrowed) {
  const int descriptor = *static_cast<int*>(file.get());
  void* const base = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, descriptor, 0);
  void* const window = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  LANYARD_CHECK(base != MAP_FAILED && window != MAP_FAILED, "mmap() failed for fake device memory");
  const std::lock_guard lock(memory_mutex_);
  memory_[reinterpret_cast<DeviceAddress>(base)] = {
      bytes, ++mappings_, device, std::move(file), static_cast<std::byte*>(window), borrowed};
  return reinterpret_cast<DeviceAddress>(base);
}

void FakeDriver::unmap(DeviceAddress base, const Memory& memory) {
  munmap(reinterpret_cast<void*>(base), memory.bytes);
  munmap(memory.window, memory.bytes);
}

Result<DeviceAddress> FakeDriver::allocate(uint64_t bytes) {
  LANYARD_ASSIGN_OR_RETURN(const int device, inside("allocate"));
  const std::shared_ptr<int> file(new int(memfd_create("fake_device", 0)), [](int* descriptor) {
    close(*descriptor);
    delete descriptor;
  });
  LANYARD_CHECK(ftruncate(*file, static_cast<off_t>(bytes)) == 0, "ftruncate() failed for fake device memory");
  return map(bytes, device, file, false);
}

std::byte* FakeDriver::make_memory(uint64_t bytes, int device) {
  const gpu::Inside inside(*this, context_of_device(device).value());
  return reinterpret_cast<std::byte*>(allocate(bytes).value());
}

void FakeDriver::free(DeviceAddress base) {
  const std::lock_guard lock(memory_mutex_);
  const auto found = memory_.find(base);
  unmap(base, found->second);
  memory_.erase(found);
}

Result<gpu::PointerFacts> FakeDriver::facts_of(const void* address) {
  LANYARD_RETURN_IF_ERROR(alive("facts_of"));
  const uint64_t number = reinterpret_cast<uint64_t>(address);
  gpu::PointerFacts facts;
  const std::lock_guard lock(memory_mutex_);
  auto after = registered_.upper_bound(number);
  if (after != registered_.begin() && number < std::prev(after)->first + std::prev(after)->second.bytes) {
    facts.kind = gpu::PointerFacts::Kind::kPinned;
    facts.address = number + kHostWindow;
    return facts;
  }
  auto next = memory_.upper_bound(number);
  if (next == memory_.begin() || number >= std::prev(next)->first + std::prev(next)->second.bytes)
    return facts;
  const auto& [base, memory] = *std::prev(next);
  return gpu::PointerFacts{gpu::PointerFacts::Kind::kDevice, memory.device, base, memory.bytes, number};
}

Result<gpu::Driver::IpcHandle> FakeDriver::lend(DeviceAddress base) {
  LANYARD_RETURN_IF_ERROR(inside("lend").status());
  IpcHandle handle{};
  std::memcpy(handle.data(), &base, sizeof base);
  return handle;
}

Result<DeviceAddress> FakeDriver::borrow(const IpcHandle& handle) {
  LANYARD_ASSIGN_OR_RETURN(const int device, inside("borrow"));
  DeviceAddress base = 0;
  std::memcpy(&base, handle.data(), sizeof base);
  Memory lent;
  {
    const std::lock_guard lock(memory_mutex_);
    const auto found = memory_.find(base);
    if (found == memory_.end())
      return fault(Fault::kBadArgument, "borrow");
    lent = found->second;
  }
  if (lent.device != device && !options_.peers)
    return fault(Fault::kUnsupported, "borrow");
  return map(lent.bytes, lent.device, lent.file, true);
}

void FakeDriver::give_back(DeviceAddress base) { free(base); }

}  // namespace lanyard
