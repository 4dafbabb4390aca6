#include "gpu/device/gpu_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <type_traits>

namespace lanyard::gpu {
namespace {

// A copy's number: the device, and the number in the device's queue, which is never 0. 0: an
// empty copy.
constexpr uint64_t kDeviceBits = 8;
constexpr uint64_t kDeviceMask = (uint64_t{1} << kDeviceBits) - 1;

constexpr uint64_t kMark = 0x316e616f4c79616c;  // marks loans of this layout; others are refused

// The bytes of a Loan.
struct Form {
  uint64_t mark;
  ProcessName lender;
  std::array<std::byte, 16> device;
  Driver::IpcHandle handle;
  uint64_t offset;  // from the allocation's base
  uint64_t bytes;
  uint64_t address;  // in the lender
};
static_assert(sizeof(Form) <= sizeof(DeviceMemory::Loan) && std::is_trivially_copyable_v<Form>);

// Another process wrote the form, so check it.
bool is_within(const Form& form, uint64_t allocated) {
  return form.offset <= allocated && form.bytes <= allocated - form.offset;
}
// Bytes that a mapping needs to hold the range. An empty range counts as one byte, so that
// find() finds it.
uint64_t reach_of(const Form& form) { return form.offset + std::max<uint64_t>(form.bytes, 1); }
Status outside(const Form& form) {
  return {Code::kInvalidArgument, "the loan's " + std::to_string(form.bytes) + " bytes at offset " +
                                      std::to_string(form.offset) + " are not within the lender's allocation"};
}

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

// ---- Loans

Result<ProcessName> ProcessName::own() {
  ProcessName name;
  name.pid = static_cast<uint64_t>(getpid());
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::erase(boot, '-');
  const bool is_hex = std::all_of(boot.begin(), boot.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (boot.size() != 2 * name.boot.size() || !is_hex)
    return Status(Code::kUnsupported, "/proc/sys/kernel/random/boot_id does not identify this host");
  for (size_t i = 0; i < name.boot.size(); ++i)
    name.boot[i] = static_cast<std::byte>(std::stoi(boot.substr(2 * i, 2), nullptr, 16));
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) == 0)
    name.pid_namespace = space.st_ino;
  // Field 22 is the start time. Field 2, the program's name in parentheses, may have blanks in it.
  std::string line;
  std::getline(std::ifstream("/proc/self/stat"), line);
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string field;
  for (int number = 3; number <= 22; ++number)
    fields >> field;
  if (!fields)
    return Status(Code::kUnsupported, "/proc/self/stat does not tell when this process began");
  name.start_time = std::stoull(field);
  return name;
}

Loans::~Loans() {
  for (const auto& [base, borrowed] : borrowed_)
    unmap(borrowed.mapping);
}

Result<Loans::Loan> Loans::lend(const PointerFacts& facts, const void* address, uint64_t bytes) {
  LANYARD_ASSIGN_OR_RETURN(const DeviceFacts device, driver_.facts(facts.device));
  LANYARD_ASSIGN_OR_RETURN(const Driver::IpcHandle handle, driver_.lend(facts.base));
  const Form form{
      kMark, self_, device.uuid, handle, facts.address - facts.base, bytes, reinterpret_cast<uint64_t>(address)};
  Loan loan;
  std::memcpy(loan.bytes.data(), &form, sizeof form);
  return loan;
}

uint64_t Loans::lent_bytes(const Loan& loan) {
  Form form;
  std::memcpy(&form, loan.bytes.data(), sizeof form);
  return form.mark == kMark ? form.bytes : 0;
}

Result<int> Loans::device_named(const std::array<std::byte, 16>& uuid) {
  for (int device = 0; device < driver_.device_count(); ++device) {
    LANYARD_ASSIGN_OR_RETURN(const DeviceFacts facts, driver_.facts(device));
    if (facts.uuid == uuid)
      return device;
  }
  return Status(Code::kUnsupported,
                "the memory is on a device that this process does not see (CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES)");
}

Result<std::byte*> Loans::borrow(const Loan& loan, int mapped_for) {
  Form form;
  std::memcpy(&form, loan.bytes.data(), sizeof form);
  if (form.mark != kMark)
    return Status(Code::kInvalidArgument,
                  "the bytes are not a loan of device memory, or the loan is from another version of Lanyard");
  if (form.lender == self_)
    return reinterpret_cast<std::byte*>(form.address);
  if (form.lender.boot != self_.boot)
    return Status(Code::kUnsupported, "the memory is on another host");
  LANYARD_ASSIGN_OR_RETURN(const int device, device_named(form.device));

  const std::lock_guard lock(mutex_);
  for (auto& [base, borrowed] : borrowed_) {
    if (borrowed.handle != form.handle || borrowed.mapping.mapped_for != mapped_for)
      continue;
    if (!is_within(form, borrowed.allocated))
      return outside(form);
    ++borrowed.times;
    borrowed.mapping.bytes = std::max(borrowed.mapping.bytes, reach_of(form));
    return reinterpret_cast<std::byte*>(base + form.offset);
  }
  LANYARD_ASSIGN_OR_RETURN(const ContextHandle context, driver_.context_of_device(mapped_for));
  const Inside inside(driver_, context);
  LANYARD_RETURN_IF_ERROR(inside.status());
  const Result<DeviceAddress> mapped = driver_.borrow(form.handle);
  if (!mapped.ok() && mapped.status().code() != Code::kFailed)
    return Status(Code::kUnsupported, "device " + std::to_string(mapped_for) + " cannot reach memory that process " +
                                          std::to_string(form.lender.pid) + " has on device " + std::to_string(device) +
                                          ": " + mapped.status().message());
  LANYARD_ASSIGN_OR_RETURN(const DeviceAddress base, mapped);
  const Result<PointerFacts> facts = driver_.facts_of(reinterpret_cast<const void*>(base));
  const bool sized = facts.ok() && facts.value().kind == PointerFacts::Kind::kDevice;
  const uint64_t allocated = sized ? facts.value().bytes : UINT64_MAX;
  if (!is_within(form, allocated)) {
    driver_.give_back(base);
    return outside(form);
  }
  borrowed_[base] = {{reach_of(form), mapped_for, device, base}, form.handle, allocated, 1};
  return reinterpret_cast<std::byte*>(base + form.offset);
}

void Loans::unmap(const Mapping& mapping) {
  const Result<ContextHandle> context = driver_.context_of_device(mapping.mapped_for);
  if (!context.ok())
    return;
  const Inside inside(driver_, context.value());
  if (inside.status().ok())
    driver_.give_back(mapping.base);
}

void Loans::give_back(std::byte* borrowed) {
  const std::lock_guard lock(mutex_);
  const auto found = locate(borrowed);
  if (found == borrowed_.end())
    return;  // memory of this process
  Borrowed& entry = borrowed_.at(found->first);
  if (--entry.times > 0)
    return;
  unmap(entry.mapping);
  borrowed_.erase(found);
}

std::optional<Loans::Mapping> Loans::find(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto found = locate(address);
  if (found == borrowed_.end())
    return std::nullopt;
  return found->second.mapping;
}

std::map<DeviceAddress, Loans::Borrowed>::const_iterator Loans::locate(const void* address) const {
  const DeviceAddress wanted = reinterpret_cast<DeviceAddress>(address);
  auto after = borrowed_.upper_bound(wanted);
  if (after == borrowed_.begin())
    return borrowed_.end();
  --after;
  return wanted - after->first < after->second.mapping.bytes ? after : borrowed_.end();
}

// ---- Memory

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
