#include "gpu/device/gpu_memory.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>

namespace lanyard::gpu {
namespace {

// A copy's number: the device, and the number in the device's queue, which is never 0. 0: an
// empty copy.
constexpr uint64_t kDeviceBits = 8;
constexpr uint64_t kDeviceMask = (uint64_t{1} << kDeviceBits) - 1;

}  // namespace

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

GpuMemory::GpuMemory(Devices& devices, const ProcessName& self)
    : devices_(devices),
      driver_(devices.driver()),
      staging_(driver_),
      loans_(driver_, self),
      queues_(static_cast<size_t>(driver_.device_count())) {
  LANYARD_CHECK(queues_.size() <= kDeviceMask, "too many devices: a copy's number has 8 bits for the device");
}

Result<PointerFacts> GpuMemory::facts_of(const void* address, uint64_t bytes) const {
  const Result<PointerFacts> facts = driver_.facts_of(address);
  if (!facts.ok() || facts.value().kind != PointerFacts::Kind::kDevice)
    return facts;
  const uint64_t offset = facts.value().address - facts.value().base;
  if (offset > facts.value().bytes || bytes > facts.value().bytes - offset)
    return Status(Code::kInvalidArgument, std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                                              " are not within their allocation of " +
                                              std::to_string(facts.value().bytes) + " bytes on device " +
                                              std::to_string(facts.value().device));
  return facts;
}

Result<int> GpuMemory::device_of(const void* address, uint64_t bytes) const {
  if (const std::optional<Loans::Mapping> mapping = loans_.find(address)) {
    if (bytes > mapping->base + mapping->bytes - reinterpret_cast<DeviceAddress>(address))
      return Status(Code::kInvalidArgument, std::to_string(bytes) + " bytes reach beyond the borrowed memory");
    return mapping->owner;
  }
  LANYARD_ASSIGN_OR_RETURN(const PointerFacts facts, facts_of(address, bytes));
  const int device = facts.kind == PointerFacts::Kind::kDevice ? facts.device : kHost;
  remember(address, bytes, device);
  if (device != kHost)
    renew();
  if (int none = kHost; device != kHost)
    home_.compare_exchange_strong(none, device, std::memory_order_relaxed);
  return device;
}

// Records the range. Forgets known ranges that overlap it.
void GpuMemory::remember(const void* address, uint64_t bytes, int device) const {
  const Known known{reinterpret_cast<DeviceAddress>(address), reinterpret_cast<DeviceAddress>(address) + bytes, device};
  const std::unique_lock lock(known_mutex_);
  auto next = known_.lower_bound(known.begin);
  if (next != known_.begin() && std::prev(next)->second.end > known.begin)
    --next;
  while (next != known_.end() && next->second.begin < known.end)
    next = known_.erase(next);
  if (device != kHost && bytes > 0)
    known_.emplace(known.begin, known);
}

Result<GpuMemory::Side> GpuMemory::side_of(const void* address, uint64_t bytes) const {
  if (const std::optional<DeviceAddress> staging = staging_.find(address, bytes))
    return Side{*staging, kHost, false};
  if (const std::optional<Loans::Mapping> mapping = loans_.find(address)) {
    if (bytes > mapping->base + mapping->bytes - reinterpret_cast<DeviceAddress>(address))
      return Status(Code::kInvalidArgument, std::to_string(bytes) + " bytes reach beyond the borrowed memory");
    return Side{reinterpret_cast<DeviceAddress>(address), mapping->mapped_for, true};
  }
  {
    const auto begin = reinterpret_cast<DeviceAddress>(address);
    const std::shared_lock lock(known_mutex_);
    const auto next = known_.upper_bound(begin);
    if (next != known_.begin() && begin + bytes <= std::prev(next)->second.end)
      return Side{begin, std::prev(next)->second.device, false};
  }
  LANYARD_ASSIGN_OR_RETURN(const PointerFacts facts, facts_of(address, bytes));
  renew();  // device_of() was not asked: the memory may be new
  if (facts.kind == PointerFacts::Kind::kPageable)
    return Status(Code::kInvalidArgument, "devices cannot reach this host memory: copy it to memory of take_staging()");
  return Side{facts.address, facts.device, false};
}

void GpuMemory::renew() const {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<CopyQueue>& queue : queues_)
    if (queue != nullptr)
      queue->renew();
}

CopyQueue* GpuMemory::made_queue_of(int device) const {
  const std::lock_guard lock(mutex_);
  return queues_[static_cast<size_t>(device)].get();
}

Result<CopyQueue*> GpuMemory::queue_of(int device) {
  if (CopyQueue* const queue = made_queue_of(device))
    return queue;
  const std::lock_guard making(making_);
  if (CopyQueue* const queue = made_queue_of(device))
    return queue;
  LANYARD_ASSIGN_OR_RETURN(Device* const opened, devices_.of_ordinal(device));
  LANYARD_ASSIGN_OR_RETURN(std::unique_ptr<CopyQueue> made, CopyQueue::make(*opened, devices_.options().copy_linger));
  const std::lock_guard lock(mutex_);
  queues_[static_cast<size_t>(device)] = std::move(made);
  return queues_[static_cast<size_t>(device)].get();
}

Result<DeviceMemory::Copy> GpuMemory::start_copy(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0)
    return Copy{};
  LANYARD_ASSIGN_OR_RETURN(const Side target, side_of(to, bytes));
  LANYARD_ASSIGN_OR_RETURN(const Side source, side_of(from, bytes));
  const bool by_source = target.device == kHost || (source.borrowed && !target.borrowed);
  const Side& runner = by_source ? source : target;
  const Side& other = by_source ? target : source;
  if (runner.device == kHost)
    return Status(Code::kInvalidArgument, "both sides of the copy are host memory");
  LANYARD_ASSIGN_OR_RETURN(CopyQueue* const queue, queue_of(runner.device));
  if (other.device != kHost && other.device != runner.device) {
    if (other.borrowed)
      return Status(Code::kUnsupported, "both sides of the copy are borrowed, for two different devices");
    LANYARD_RETURN_IF_ERROR(queue->reach(other.device));
  }
  LANYARD_ASSIGN_OR_RETURN(const uint64_t number,
                           queue->start(target.address, source.address, bytes, other.device == kHost));
  return Copy{number << kDeviceBits | static_cast<uint64_t>(runner.device)};
}

Result<bool> GpuMemory::has_ended(Copy copy) {
  if (copy.number == 0)
    return true;
  return made_queue_of(static_cast<int>(copy.number & kDeviceMask))->has_ended(copy.number >> kDeviceBits);
}

Result<std::byte*> GpuMemory::take_staging(uint64_t bytes) {
  const size_t before = staging_.buffers();
  Result<std::byte*> memory = staging_.take(bytes, home());
  if (staging_.buffers() != before)
    renew();
  return memory;
}

Result<std::byte*> GpuMemory::borrow(const Loan& loan, int device) {
  Result<std::byte*> memory = loans_.borrow(loan, device == kHost ? home() : device);
  renew();
  return memory;
}

Result<DeviceMemory::Loan> GpuMemory::lend(const void* address, uint64_t bytes) {
  if (loans_.find(address))
    return Status(Code::kUnsupported, "borrowed memory cannot be lent");
  LANYARD_ASSIGN_OR_RETURN(const PointerFacts facts, facts_of(address, bytes));
  if (facts.kind != PointerFacts::Kind::kDevice)
    return Status(Code::kInvalidArgument, "only device memory can be lent");
  // The driver needs a context to make a handle.
  LANYARD_ASSIGN_OR_RETURN(Device* const device, devices_.of_ordinal(facts.device));
  const Inside inside(driver_, device->context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  return loans_.lend(facts, address, bytes);
}

}  // namespace lanyard::gpu
