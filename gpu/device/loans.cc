#include "gpu/device/loans.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>

namespace lanyard::gpu {
namespace {

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

}  // namespace lanyard::gpu
