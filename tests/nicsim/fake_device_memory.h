// FakeDeviceMemory: two devices in software. Their memory is mapped without access rights, so that
// a host access ends the test. A thread makes the copies, each after a random delay, in any order.
#ifndef LANYARD_TESTS_FAKE_DEVICE_MEMORY_H_
#define LANYARD_TESTS_FAKE_DEVICE_MEMORY_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "transport/base/check.h"
#include "transport/base/device_memory.h"

namespace lanyard {

// Any thread may call it. Use it only in the process that made it.
class FakeDeviceMemory final : public DeviceMemory {
 public:
  struct Options {
    std::chrono::microseconds most_delay{100};  // longest time until a copy ends
    uint32_t most_copies = 8;                   // in flight; one more returns kAgain
    bool lends = true;
    bool borrows = true;
    uint64_t seed = 1;
  };
  // Resources that have not been given back.
  struct Usage {
    size_t staging = 0;
    size_t borrowed = 0;
    size_t copies = 0;
    friend bool operator==(const Usage&, const Usage&) = default;
  };

  FakeDeviceMemory() : FakeDeviceMemory(Options()) {}
  explicit FakeDeviceMemory(const Options& options) : options_(options), random_(options.seed) {
    thread_ = std::thread([this] { run(); });
  }
  // Ends all copies in flight. Frees all allocated memory.
  ~FakeDeviceMemory() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
    for (const auto& [address, range] : ranges_)
      unmap(const_cast<std::byte*>(address), range);
  }

  const char* kind() const override { return "fake"; }
  Result<int> device_of(const void* address, uint64_t bytes) const override {
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
  Result<Copy> start_copy(void* to, const void* from, uint64_t bytes) override {
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
  Result<bool> has_ended(Copy copy) override {
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
  Result<std::byte*> take_staging(uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (exhaust_staging)
      return Status(Code::kExhausted, "the fake device has no staging memory");
    auto* memory = new std::byte[bytes];  // freed when given back, so that sanitizers see a late access
    ranges_[memory] = {.device = kHost, .bytes = bytes, .seen = memory};
    return memory;
  }
  void give_staging(std::byte* memory) override { free(memory); }
  Result<Loan> lend(const void* address, uint64_t bytes) override {
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
  Result<std::byte*> borrow(const Loan& loan, int device) override {
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
  void give_back(std::byte* borrowed) override {
    std::byte* base = nullptr;
    {
      const std::lock_guard lock(mutex_);
      auto found = ranges_.upper_bound(borrowed);
      LANYARD_CHECK(found != ranges_.begin() && std::prev(found)->second.borrowed,
                    "give_back() of memory not borrowed");
      base = const_cast<std::byte*>(std::prev(found)->first);
    }
    free(base);
  }
  uint64_t lent_bytes(const Loan& loan) const override {
    Lent lent;
    std::memcpy(&lent, loan.bytes.data(), sizeof lent);
    return lent.bytes;
  }

  // ---- For tests
  // Zeroed memory.
  std::byte* allocate(int device, uint64_t bytes) {
    const int fd = ::memfd_create("fake device", MFD_CLOEXEC);
    LANYARD_CHECK(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0, "no memory for the fake device");
    std::byte* address = map(fd, bytes, PROT_NONE);
    std::byte* seen = map(fd, bytes, PROT_READ | PROT_WRITE);
    const std::lock_guard lock(mutex_);
    ranges_[address] = {.device = device, .bytes = bytes, .seen = seen, .fd = fd};
    return address;
  }
  void free(std::byte* memory) {
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
  // Reads and writes device memory at once, as a kernel does.
  std::vector<std::byte> read(const std::byte* address, uint64_t bytes) const {
    const std::lock_guard lock(mutex_);
    std::byte* there = nullptr;
    LANYARD_CHECK(range_of(address, bytes, &there) != nullptr, "read() outside device memory");
    return {there, there + bytes};
  }
  void write(std::byte* address, const std::vector<std::byte>& bytes) {
    const std::lock_guard lock(mutex_);
    std::byte* there = nullptr;
    LANYARD_CHECK(range_of(address, bytes.size(), &there) != nullptr, "write() outside device memory");
    std::copy(bytes.begin(), bytes.end(), there);
  }
  Usage usage() const {
    const std::lock_guard lock(mutex_);
    Usage usage{.copies = pending_.size()};
    for (const auto& [address, range] : ranges_) {
      usage.staging += range.device == kHost;
      usage.borrowed += range.borrowed;
    }
    return usage;
  }
  // No copy makes progress while held.
  void hold_copies(bool hold) {
    {
      const std::lock_guard lock(mutex_);
      hold_copies_ = hold;
    }
    changed_.notify_all();
  }
  std::atomic<uint64_t> copies_made{0};
  std::atomic<uint64_t> borrows_made{0};
  // Faults.
  std::atomic<bool> fail_copies{false};  // copies fail when they end
  std::atomic<bool> fail_starts{false};  // start_copy() fails
  std::atomic<bool> refuse_borrows{false};
  std::atomic<bool> exhaust_staging{false};

 private:
  using Clock = std::chrono::steady_clock;
  // A range of addresses that copies may touch.
  struct Range {
    int device = kHost;
    uint64_t bytes = 0;
    std::byte* seen = nullptr;
    int fd = -1;  // memfd of memory allocated here
    bool borrowed = false;
    int reached_by = kHost;  // for borrowed memory: the only device that copies it; kHost: any
  };
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
  struct Pending {
    uint64_t number = 0;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    uint64_t bytes = 0;
    Clock::time_point due;
    bool ended = false;
    bool failed = false;
  };

  static std::byte* map(int fd, uint64_t bytes, int rights) {
    void* address = ::mmap(nullptr, bytes, rights, MAP_SHARED, fd, 0);
    LANYARD_CHECK(address != MAP_FAILED, "mmap() failed for fake device memory");
    return static_cast<std::byte*>(address);
  }
  // The range that contains all the bytes; null if none does. Requires mutex_.
  const Range* range_of(const void* address, uint64_t bytes, std::byte** seen) const {
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
  void unmap(std::byte* address, const Range& range) {
    if (range.device == kHost) {
      delete[] address;
      return;
    }
    ::munmap(address, range.bytes);
    ::munmap(range.seen, range.bytes);
    if (range.fd >= 0)
      ::close(range.fd);
  }
  // Copies under the lock, so that free() sees whether a copy uses the memory.
  void run() {
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

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const std::byte*, Range> ranges_;  // by first address
  std::vector<Pending> pending_;
  std::mt19937_64 random_;
  uint64_t numbers_ = 0;
  bool hold_copies_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_FAKE_DEVICE_MEMORY_H_
