#include "tests/nicsim/fake_device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "transport/base/check.h"

namespace lanyard {

namespace {

// The content of this kind's Loan.
struct Lent {
  int32_t pid = 0;
  int32_t fd = -1;
  int32_t device = 0;
  int32_t unused = 0;
  uint64_t mapped = 0;  // bytes of the allocation
  uint64_t offset = 0;  // of the lent range in the allocation
  uint64_t bytes = 0;   // of the lent range
  uint64_t address = 0;
};
static_assert(sizeof(Lent) <= sizeof(DeviceMemory::Loan));

std::byte* map(int fd, uint64_t bytes, int rights) {
  void* address = ::mmap(nullptr, bytes, rights, MAP_SHARED, fd, 0);
  LANYARD_CHECK(address != MAP_FAILED, "mmap() failed for fake device memory");
  return static_cast<std::byte*>(address);
}

}  // namespace

FakeDeviceMemory::FakeDeviceMemory(const Options& options) : options_(options), random_(options.seed) {
  thread_ = std::thread([this] { run(); });
}

FakeDeviceMemory::~FakeDeviceMemory() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (const auto& [address, range] : ranges_)
    unmap(const_cast<std::byte*>(address), range);
}

void FakeDeviceMemory::unmap(std::byte* address, const Range& range) {
  if (range.device == kHost) {
    delete[] address;
    return;
  }
  ::munmap(address, range.bytes);
  ::munmap(range.seen, range.bytes);
  if (range.fd >= 0)
    ::close(range.fd);
}

// ---- Memory

std::byte* FakeDeviceMemory::allocate(int device, uint64_t bytes) {
  const int fd = ::memfd_create("fake device", MFD_CLOEXEC);
  LANYARD_CHECK(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0, "no memory for the fake device");
  std::byte* address = map(fd, bytes, PROT_NONE);
  std::byte* seen = map(fd, bytes, PROT_READ | PROT_WRITE);
  const std::lock_guard lock(mutex_);
  ranges_[address] = {.device = device, .bytes = bytes, .seen = seen, .fd = fd};
  return address;
}

void FakeDeviceMemory::free(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(memory);
  LANYARD_CHECK(found != ranges_.end(), "free() of device memory that was not allocated");
  for (const Pending& copy : pending_) {
    const bool read = copy.from >= memory && copy.from < memory + found->second.bytes;
    const bool written = copy.to >= memory && copy.to < memory + found->second.bytes;
    LANYARD_CHECK(copy.ended || (!read && !written), "free() of device memory while a copy uses it");
  }
  unmap(memory, found->second);
  ranges_.erase(found);
}

const FakeDeviceMemory::Range* FakeDeviceMemory::range_of(const void* address, uint64_t bytes, std::byte** seen) const {
  const auto* first = static_cast<const std::byte*>(address);
  auto found = ranges_.upper_bound(first);
  if (found == ranges_.begin())
    return nullptr;
  --found;
  const auto offset = static_cast<uint64_t>(first - found->first);
  if (offset > found->second.bytes || bytes > found->second.bytes - offset)
    return nullptr;
  if (seen != nullptr)
    *seen = found->second.seen + offset;
  return &found->second;
}

std::vector<std::byte> FakeDeviceMemory::read(const std::byte* address, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  std::byte* there = nullptr;
  LANYARD_CHECK(range_of(address, bytes, &there) != nullptr, "read() outside device memory");
  return {there, there + bytes};
}

void FakeDeviceMemory::write(std::byte* address, const std::vector<std::byte>& bytes) {
  const std::lock_guard lock(mutex_);
  std::byte* there = nullptr;
  LANYARD_CHECK(range_of(address, bytes.size(), &there) != nullptr, "write() outside device memory");
  std::copy(bytes.begin(), bytes.end(), there);
}

Result<int> FakeDeviceMemory::device_of(const void* address, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto* first = static_cast<const std::byte*>(address);
  for (const auto& [base, range] : ranges_) {
    if (range.device == kHost || first + bytes <= base || first >= base + range.bytes)
      continue;
    if (first < base || first + bytes > base + range.bytes)
      return Status(Code::kInvalidArgument, "the range is not within one allocation of the fake device");
    return range.device;
  }
  return kHost;
}

Result<std::byte*> FakeDeviceMemory::take_staging(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (exhaust_staging)
    return Status(Code::kExhausted, "the fake device has no staging memory");
  auto* memory = new std::byte[bytes];  // freed when given back, so that sanitizers see a late access
  ranges_[memory] = {.device = kHost, .bytes = bytes, .seen = memory};
  return memory;
}

void FakeDeviceMemory::give_staging(std::byte* memory) { free(memory); }

// ---- Copies

Result<DeviceMemory::Copy> FakeDeviceMemory::start_copy(void* to, const void* from, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  LANYARD_CHECK(range_of(to, bytes, nullptr) != nullptr && range_of(from, bytes, nullptr) != nullptr,
                "start_copy(): each side must be device memory, borrowed or staging memory");
  const Range& source = *range_of(from, bytes, nullptr);
  const Range& target = *range_of(to, bytes, nullptr);
  LANYARD_CHECK(source.reached_by == kHost || target.device == kHost || source.reached_by == target.device,
                "start_copy(): memory borrowed for one device is copied by another");
  if (fail_starts)
    return Status(Code::kFailed, "the fake device is lost");
  if (pending_.size() >= options_.most_copies)
    return Status(Code::kAgain, "too many copies are in flight");
  const auto delay = std::chrono::microseconds(random_() % static_cast<uint64_t>(options_.most_delay.count() + 1));
  pending_.push_back({.number = ++numbers_,
                      .to = static_cast<std::byte*>(to),
                      .from = static_cast<const std::byte*>(from),
                      .bytes = bytes,
                      .due = Clock::now() + delay});
  changed_.notify_all();
  return Copy{numbers_};
}

Result<bool> FakeDeviceMemory::has_ended(Copy copy) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(pending_.begin(), pending_.end(), [&](const Pending& each) { return each.number == copy.number; });
  LANYARD_CHECK(found != pending_.end(), "has_ended() of a copy that has already been reported as ended");
  if (!found->ended)
    return false;
  const bool failed = found->failed;
  pending_.erase(found);
  if (failed)
    return Status(Code::kFailed, "a copy of the fake device failed");
  return true;
}

// Copies under the lock, so that free() sees whether a copy uses the memory.
void FakeDeviceMemory::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    Clock::time_point next = Clock::now() + std::chrono::hours(1);
    for (Pending& copy : pending_) {
      if (copy.ended || (hold_copies_ && !stopping_))
        continue;
      if (copy.due > Clock::now() && !stopping_) {
        next = std::min(next, copy.due);
        continue;
      }
      std::byte* to = nullptr;
      std::byte* from = nullptr;
      range_of(copy.to, copy.bytes, &to);
      range_of(copy.from, copy.bytes, &from);
      copy.failed = fail_copies;
      if (!copy.failed && copy.bytes > 0)
        std::memcpy(to, from, copy.bytes);
      copy.ended = true;
      ++copies_made;
    }
    if (stopping_)
      return;
    changed_.wait_until(lock, next);
  }
}

// ---- Loans

Result<DeviceMemory::Loan> FakeDeviceMemory::lend(const void* address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::byte* there = nullptr;
  const Range* range = range_of(address, bytes, &there);
  LANYARD_CHECK(range != nullptr && range->device != kHost && !range->borrowed, "lend() of memory of no own device");
  if (!options_.lends)
    return Status(Code::kUnsupported, "the fake device lends nothing");
  const Lent lent{.pid = ::getpid(),
                  .fd = range->fd,
                  .device = range->device,
                  .mapped = range->bytes,
                  .offset = static_cast<uint64_t>(there - range->seen),
                  .bytes = bytes,
                  .address = reinterpret_cast<uint64_t>(address)};
  Loan loan;
  std::memcpy(loan.bytes.data(), &lent, sizeof lent);
  return loan;
}

Result<std::byte*> FakeDeviceMemory::borrow(const Loan& loan, int device) {
  Lent lent;
  std::memcpy(&lent, loan.bytes.data(), sizeof lent);
  const std::lock_guard lock(mutex_);
  if (!options_.borrows || refuse_borrows)
    return Status(Code::kUnsupported, "the fake device borrows nothing");
  const std::string path = "/proc/" + std::to_string(lent.pid) + "/fd/" + std::to_string(lent.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return Status(Code::kUnsupported, "cannot open the lender's memory");
  std::byte* address = map(fd, lent.mapped, PROT_NONE);
  std::byte* seen = map(fd, lent.mapped, PROT_READ | PROT_WRITE);
  ::close(fd);
  ranges_[address] = {
      .device = lent.device, .bytes = lent.mapped, .seen = seen, .borrowed = true, .reached_by = device};
  ++borrows_made;
  return address + lent.offset;
}

uint64_t FakeDeviceMemory::lent_bytes(const Loan& loan) const {
  Lent lent;
  std::memcpy(&lent, loan.bytes.data(), sizeof lent);
  return lent.bytes;
}

void FakeDeviceMemory::give_back(std::byte* borrowed) {
  std::byte* base = nullptr;
  {
    const std::lock_guard lock(mutex_);
    auto found = ranges_.upper_bound(borrowed);
    LANYARD_CHECK(found != ranges_.begin() && std::prev(found)->second.borrowed, "give_back() of memory not borrowed");
    base = const_cast<std::byte*>(std::prev(found)->first);
  }
  free(base);
}

// ---- For tests

FakeDeviceMemory::Usage FakeDeviceMemory::usage() const {
  const std::lock_guard lock(mutex_);
  Usage usage{.copies = pending_.size()};
  for (const auto& [address, range] : ranges_) {
    usage.staging += range.device == kHost;
    usage.borrowed += range.borrowed;
  }
  return usage;
}

void FakeDeviceMemory::hold_copies(bool hold) {
  {
    const std::lock_guard lock(mutex_);
    hold_copies_ = hold;
  }
  changed_.notify_all();
}

}  // namespace lanyard
