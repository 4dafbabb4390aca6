// FakeDeviceMemory: two devices in software. Their memory is mapped without access rights, so that
// a host access ends the test. A thread makes the copies, each after a random delay, in any order.
#ifndef LANYARD_TESTS_FAKE_DEVICE_MEMORY_H_
#define LANYARD_TESTS_FAKE_DEVICE_MEMORY_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

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
  explicit FakeDeviceMemory(const Options& options);
  // Ends all copies in flight. Frees all allocated memory.
  ~FakeDeviceMemory() override;

  const char* kind() const override { return "fake"; }
  Result<int> device_of(const void* address, uint64_t bytes) const override;
  Result<Copy> start_copy(void* to, const void* from, uint64_t bytes) override;
  Result<bool> has_ended(Copy copy) override;
  Result<std::byte*> take_staging(uint64_t bytes) override;
  void give_staging(std::byte* memory) override;
  Result<Loan> lend(const void* address, uint64_t bytes) override;
  Result<std::byte*> borrow(const Loan& loan, int device) override;
  void give_back(std::byte* borrowed) override;
  uint64_t lent_bytes(const Loan& loan) const override;

  // ---- For tests
  std::byte* allocate(int device, uint64_t bytes);  // zeroed
  void free(std::byte* memory);
  // Reads and writes device memory at once, as a kernel does.
  std::vector<std::byte> read(const std::byte* address, uint64_t bytes) const;
  void write(std::byte* address, const std::vector<std::byte>& bytes);
  Usage usage() const;
  // No copy makes progress while held.
  void hold_copies(bool hold);
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
  struct Pending {
    uint64_t number = 0;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    uint64_t bytes = 0;
    Clock::time_point due;
    bool ended = false;
    bool failed = false;
  };

  // The range that contains all the bytes; null if none does. Requires mutex_.
  const Range* range_of(const void* address, uint64_t bytes, std::byte** seen) const;
  void unmap(std::byte* address, const Range& range);
  void run();

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
