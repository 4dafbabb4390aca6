// GpuMemory: DeviceMemory over a vendor's driver.
//
// A copy runs on the device whose memory it writes; if it writes host memory, on the device whose
// memory it reads. With borrowed memory it runs on the device that the memory is mapped for. No
// call waits for a stream of the program's. The drivers force two exceptions: the first use of a
// device (Device::open()), and the last give_back() of an allocation of another process.
#ifndef LANYARD_GPU_DEVICE_GPU_MEMORY_H_
#define LANYARD_GPU_DEVICE_GPU_MEMORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "gpu/device/copy_queue.h"
#include "gpu/device/device.h"
#include "gpu/device/driver.h"
#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// Pinned host memory for copies from and to devices, kept for reuse. Any thread may use it at any
// time. The driver must outlive it.
//
// Sizes are powers of two. Nothing returns to the driver before the end: freeing pinned memory
// waits for all streams of the device, and one of them may be waiting for the freeing thread. To
// limit the total, a request takes any free buffer of up to four times its size.
class Staging {
 public:
  static constexpr uint64_t kSmallest = 4096;

  explicit Staging(Driver& driver) : driver_(driver) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  // Requires: no copy uses it. Also frees buffers that were not given back.
  ~Staging();

  // At least `bytes` bytes, page-aligned. Calls the driver if no free buffer fits. kExhausted.
  Result<std::byte*> take(uint64_t bytes, int device);
  // The number of buffers. It never falls.
  size_t buffers() const {
    const std::lock_guard lock(mutex_);
    return buffers_.size();
  }
  // Requires: from take(), not given back.
  void give(std::byte* memory);

  // The address at which devices reach the range, if all of it is within a buffer that is taken.
  std::optional<DeviceAddress> find(const void* memory, uint64_t bytes) const;

 private:
  struct Buffer {
    uint64_t bytes;
    DeviceAddress address;
    bool taken;
  };
  Result<std::byte*> allocate(uint64_t bytes, int device);

  Driver& driver_;
  mutable std::mutex mutex_;
  ContextHandle context_ = nullptr;  // that made the first buffer
  std::map<const std::byte*, Buffer> buffers_;
  std::multimap<uint64_t, std::byte*> free_;  // by bytes
};

// Identifies a process among all that have run on a host since it was started, in any namespace.
struct ProcessName {
  std::array<std::byte, 16> boot{};
  uint64_t pid_namespace = 0;
  uint64_t start_time = 0;
  uint64_t pid = 0;
  friend bool operator==(const ProcessName&, const ProcessName&) = default;

  // This process. kUnsupported: /proc does not tell.
  static Result<ProcessName> own();
};

// Device memory that is lent to, or borrowed from, other processes of this host. Any thread may use
// it at any time. The driver must outlive it.
class Loans {
 public:
  using Loan = DeviceMemory::Loan;
  // The borrowed memory that an address is in.
  struct Mapping {
    uint64_t bytes = 0;  // from `base` to the end of the furthest range that was borrowed
    int mapped_for = 0;  // the device whose context reaches it
    int owner = 0;       // the device that it is on
    DeviceAddress base = 0;
  };

  // `self` names this process; tests pass others.
  Loans(Driver& driver, const ProcessName& self) : driver_(driver), self_(self) {}
  Loans(const Loans&) = delete;
  Loans& operator=(const Loans&) = delete;
  // Unmaps memory that was not given back.
  ~Loans();

  // `facts` describes the range's memory, which must be a device's.
  Result<Loan> lend(const PointerFacts& facts, const void* address, uint64_t bytes);
  // 0: not a loan.
  static uint64_t lent_bytes(const Loan& loan);
  // Maps lent memory for `device`. An allocation is mapped once a device, however often it is
  // borrowed. kInvalidArgument: not a loan, or the range is not within the lender's allocation.
  // kUnsupported: the memory is on another host, or out of reach.
  Result<std::byte*> borrow(const Loan& loan, int device);
  // The last call for an allocation unmaps it, which may wait for the device. Does nothing for
  // memory of this process.
  void give_back(std::byte* borrowed);

  std::optional<Mapping> find(const void* address) const;

 private:
  struct Borrowed {
    Mapping mapping;
    Driver::IpcHandle handle;
    uint64_t allocated = 0;  // bytes; UINT64_MAX if the driver does not say
    uint64_t times = 0;
  };
  // Requires: mutex_ is held.
  std::map<DeviceAddress, Borrowed>::const_iterator locate(const void* address) const;
  void unmap(const Mapping& mapping);
  Result<int> device_named(const std::array<std::byte, 16>& uuid);

  Driver& driver_;
  const ProcessName self_;
  mutable std::mutex mutex_;
  std::map<DeviceAddress, Borrowed> borrowed_;  // by base
};

class GpuMemory final : public DeviceMemory {
 public:
  // The devices must outlive it. `self` names this process in loans.
  GpuMemory(Devices& devices, const ProcessName& self);

  const char* kind() const override { return driver_.kind(); }
  // For borrowed memory: the device that it is on. Call it again after memory was freed and
  // allocated anew: copies use its last answer.
  Result<int> device_of(const void* address, uint64_t bytes) const override;
  // Besides: kInvalidArgument: neither side is device memory, or one is host memory that devices do
  // not reach. kUnsupported: the two devices cannot reach each other.
  Result<Copy> start_copy(void* to, const void* from, uint64_t bytes) override;
  Result<bool> has_ended(Copy copy) override;
  Result<std::byte*> take_staging(uint64_t bytes) override;
  void give_staging(std::byte* memory) override { staging_.give(memory); }
  Result<Loan> lend(const void* address, uint64_t bytes) override;
  Result<std::byte*> borrow(const Loan& loan, int device) override;
  void give_back(std::byte* borrowed) override { loans_.give_back(borrowed); }
  uint64_t lent_bytes(const Loan& loan) const override { return Loans::lent_bytes(loan); }

 private:
  // One side of a copy.
  struct Side {
    DeviceAddress address = 0;
    int device = kHost;     // the one that reaches it best
    bool borrowed = false;  // only that device reaches it
  };
  Result<PointerFacts> facts_of(const void* address, uint64_t bytes) const;
  void remember(const void* address, uint64_t bytes, int device) const;
  Result<Side> side_of(const void* address, uint64_t bytes) const;
  CopyQueue* made_queue_of(int device) const;  // null: none yet
  Result<CopyQueue*> queue_of(int device);
  // Called when there may be memory that running kernels do not reach.
  void renew() const;

  // The device that this process uses: the first that device_of() has found, else the calling
  // thread's current one.
  int home() const {
    const int device = home_.load(std::memory_order_relaxed);
    return device == kHost ? driver_.current_device() : device;
  }

  Devices& devices_;
  Driver& driver_;
  Staging staging_;
  Loans loans_;
  // The last answers of device_of() for ranges of device memory. The driver is slow to tell, and
  // copies ask too.
  struct Known {
    DeviceAddress begin, end;
    int device;
  };
  mutable std::atomic<int> home_{kHost};
  mutable std::shared_mutex known_mutex_;
  mutable std::map<DeviceAddress, Known> known_;  // by begin; no overlaps
  std::mutex making_;                             // held while a queue is made, maybe for long
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<CopyQueue>> queues_;  // by device
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_GPU_MEMORY_H_
