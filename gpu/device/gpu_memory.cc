#include "gpu/device/gpu_memory.h"

#include <iterator>
#include <optional>
#include <string>

namespace lanyard::gpu {
namespace {

// A copy's number: the device, and the number in its queue, which is never 0. 0: nothing was to be copied.
constexpr uint64_t kDeviceBits = 8;
constexpr uint64_t kDeviceMask = (uint64_t{1} << kDeviceBits) - 1;

}  // namespace

GpuMemory::GpuMemory(Devices& devices, const ProcessName& self)
    : devices_(devices),
      driver_(devices.driver()),
      staging_(driver_),
      loans_(driver_, self),
      queues_(static_cast<size_t>(driver_.device_count())) {
  LANYARD_CHECK(queues_.size() <= kDeviceMask, "a copy's number has 8 bits for the device");
}

Result<PointerFacts> GpuMemory::facts_of(const void* address, uint64_t bytes) const {
  const Result<PointerFacts> facts = driver_.facts_of(address);
  if (!facts.ok() || facts.value().kind != PointerFacts::Kind::kDevice)
    return facts;
  const uint64_t offset = facts.value().address - facts.value().base;
  if (offset > facts.value().bytes || bytes > facts.value().bytes - offset)
    return Status(Code::kInvalidArgument, std::to_string(bytes) + " bytes reach beyond an allocation of device " +
                                              std::to_string(facts.value().device) + ", which has " +
                                              std::to_string(facts.value().bytes) + ", at " + std::to_string(offset));
  return facts;
}

Result<int> GpuMemory::device_of(const void* address, uint64_t bytes) const {
  if (const std::optional<Loans::Mapping> mapping = loans_.find(address)) {
    if (bytes > mapping->base + mapping->bytes - reinterpret_cast<DeviceAddress>(address))
      return Status(Code::kInvalidArgument, std::to_string(bytes) + " bytes are more than was borrowed");
    return mapping->lenders;
  }
  const Result<PointerFacts> facts = facts_of(address, bytes);
  if (!facts.ok())
    return facts.status();
  const int device = facts.value().kind == PointerFacts::Kind::kDevice ? facts.value().device : kHost;
  remember(address, bytes, device);
  if (device != kHost)
    renew();
  if (int none = kHost; device != kHost)
    home_.compare_exchange_strong(none, device, std::memory_order_relaxed);
  return device;
}

// Replaces what was known of any part of it.
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
      return Status(Code::kInvalidArgument, std::to_string(bytes) + " bytes are more than was borrowed");
    return Side{reinterpret_cast<DeviceAddress>(address), mapping->mapped_for, true};
  }
  {
    const auto begin = reinterpret_cast<DeviceAddress>(address);
    const std::shared_lock lock(known_mutex_);
    const auto next = known_.upper_bound(begin);
    if (next != known_.begin() && begin + bytes <= std::prev(next)->second.end)
      return Side{begin, std::prev(next)->second.device, false};
  }
  const Result<PointerFacts> facts = facts_of(address, bytes);
  if (!facts.ok())
    return facts.status();
  renew();  // of memory that nobody has asked about nothing is known
  if (facts.value().kind == PointerFacts::Kind::kPageable)
    return Status(Code::kInvalidArgument, "host memory that devices do not reach: copy it to memory of take_staging()");
  return Side{facts.value().address, facts.value().device, false};
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
  const Result<Device*> opened = devices_.of_ordinal(device);
  if (!opened.ok())
    return opened.status();
  Result<std::unique_ptr<CopyQueue>> made = CopyQueue::make(*opened.value(), devices_.options().copy_linger);
  if (!made.ok())
    return made.status();
  const std::lock_guard lock(mutex_);
  queues_[static_cast<size_t>(device)] = std::move(made.value());
  return queues_[static_cast<size_t>(device)].get();
}

Result<DeviceMemory::Copy> GpuMemory::start_copy(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0)
    return Copy{};
  const Result<Side> target = side_of(to, bytes);
  if (!target.ok())
    return target.status();
  const Result<Side> source = side_of(from, bytes);
  if (!source.ok())
    return source.status();
  const bool by_source = target.value().device == kHost || (source.value().borrowed && !target.value().borrowed);
  const Side& runner = by_source ? source.value() : target.value();
  const Side& other = by_source ? target.value() : source.value();
  if (runner.device == kHost)
    return Status(Code::kInvalidArgument, "a copy between two places of the host's");
  const Result<CopyQueue*> queue = queue_of(runner.device);
  if (!queue.ok())
    return queue.status();
  if (other.device != kHost && other.device != runner.device) {
    if (other.borrowed)
      return Status(Code::kUnsupported, "memory that was borrowed for two devices");
    LANYARD_RETURN_IF_ERROR(queue.value()->reach(other.device));
  }
  const Result<uint64_t> number =
      queue.value()->start(target.value().address, source.value().address, bytes, other.device == kHost);
  if (!number.ok())
    return number.status();
  return Copy{number.value() << kDeviceBits | static_cast<uint64_t>(runner.device)};
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
  const Result<PointerFacts> facts = facts_of(address, bytes);
  if (!facts.ok())
    return facts.status();
  if (facts.value().kind != PointerFacts::Kind::kDevice)
    return Status(Code::kInvalidArgument, "only device memory is lent");
  // Whoever has a context may ask for a handle.
  const Result<Device*> device = devices_.of_ordinal(facts.value().device);
  if (!device.ok())
    return device.status();
  const Inside inside(driver_, device.value()->context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  return loans_.lend(facts.value(), address, bytes);
}

}  // namespace lanyard::gpu
