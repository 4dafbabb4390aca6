// GpuMemory: DeviceMemory over a vendor's driver.
//
// A copy runs on the device whose memory it writes, or reads where it writes the host's; one with borrowed memory runs
// on the device that the memory is mapped for. No call waits for a stream of the program's, with two exceptions that
// are the drivers': the first use of a device (Device::open), and the last give_back() of an allocation of another
// process.
#ifndef LANYARD_GPU_DEVICE_GPU_MEMORY_H_
#define LANYARD_GPU_DEVICE_GPU_MEMORY_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "gpu/device/copy_queue.h"
#include "gpu/device/device.h"
#include "gpu/device/driver.h"
#include "gpu/device/loans.h"
#include "gpu/device/staging.h"
#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

class GpuMemory final : public DeviceMemory {
 public:
  // Borrows the devices. `self` names this process for loans.
  GpuMemory(Devices& devices, const ProcessName& self);

  const char* kind() const override { return driver_.kind(); }
  // For borrowed memory the device that it is on. To be asked again once memory was freed and allocated anew: copies go
  // by what it said last.
  Result<int> device_of(const void* address, uint64_t bytes) const override;
  // Besides: kInvalidArgument: neither side is device memory, or one is host memory that devices do not reach;
  // kUnsupported: two devices that cannot reach each other.
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
    int device = kHost;     // that reaches it best
    bool borrowed = false;  // only that one reaches it
  };
  Result<PointerFacts> facts_of(const void* address, uint64_t bytes) const;
  void remember(const void* address, uint64_t bytes, int device) const;
  Result<Side> side_of(const void* address, uint64_t bytes) const;
  CopyQueue* made_queue_of(int device) const;  // null: none yet
  Result<CopyQueue*> queue_of(int device);
  // There may be memory that running kernels do not reach.
  void renew() const;

  // The device that the process uses: the first that memory was asked about of, else the calling thread's.
  int home() const {
    const int device = home_.load(std::memory_order_relaxed);
    return device == kHost ? driver_.current_device() : device;
  }

  Devices& devices_;
  Driver& driver_;
  Staging staging_;
  Loans loans_;
  // What device_of() was last told of ranges of device memory: the driver takes its time to tell, and copies ask too.
  struct Known {
    DeviceAddress begin, end;
    int device;
  };
  mutable std::atomic<int> home_{kHost};
  mutable std::shared_mutex known_mutex_;
  mutable std::map<DeviceAddress, Known> known_;  // by begin; they do not overlap
  std::mutex making_;                             // a queue; may be held for long
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<CopyQueue>> queues_;  // by device
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_GPU_MEMORY_H_
