// Loans: device memory lent to, and borrowed from, other processes of this host.
#ifndef LANYARD_GPU_DEVICE_LOANS_H_
#define LANYARD_GPU_DEVICE_LOANS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "gpu/device/driver.h"
#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// A process among all that have run on a host since it was started, its namespaces notwithstanding.
struct ProcessName {
  std::array<std::byte, 16> boot{};
  uint64_t pid_namespace = 0;
  uint64_t start_time = 0;
  uint64_t pid = 0;
  friend bool operator==(const ProcessName&, const ProcessName&) = default;

  // This one. kUnsupported where /proc does not tell.
  static Result<ProcessName> own();
};

// Any thread at any time. The driver outlives it.
class Loans {
 public:
  using Loan = DeviceMemory::Loan;
  // Borrowed memory that an address is in.
  struct Mapping {
    uint64_t bytes = 0;  // of the allocation, as far as anybody has borrowed of it
    int mapped_for = 0;  // the device whose context reaches it
    int lenders = 0;     // the device it is on
    DeviceAddress base = 0;
  };

  // `self` names this process; tests give others.
  Loans(Driver& driver, const ProcessName& self) : driver_(driver), self_(self) {}
  Loans(const Loans&) = delete;
  Loans& operator=(const Loans&) = delete;
  // Unmaps what was not given back.
  ~Loans();

  // `facts` of the range's memory, which is a device's.
  Result<Loan> lend(const PointerFacts& facts, const void* address, uint64_t bytes);
  static uint64_t lent_bytes(const Loan& loan);
  // Mapped for `device`. Allocations are mapped once a device, however often they are borrowed. kInvalidArgument for a
  // range that the lender's allocation does not have.
  Result<std::byte*> borrow(const Loan& loan, int device);
  // What nobody has borrowed any more stays mapped, for whoever borrows it again or unmaps it. Nothing for memory of
  // this process.
  void give_back(std::byte* borrowed);
  bool may_unmap() const { return unused_.load(std::memory_order_relaxed) > 0; }
  // May wait for devices, and keeps no other call waiting meanwhile.
  void unmap();

  std::optional<Mapping> find(const void* address) const;
  // Allocations that are mapped, for one device each.
  size_t mapped() const;

 private:
  struct Borrowed {
    Mapping mapping;
    Driver::IpcHandle handle;
    uint64_t allocated = 0;  // bytes; more than there can be where the driver does not say
    uint64_t times = 0;
    bool going = false;  // unmap() is at it
  };
  // Holding mutex_.
  std::map<DeviceAddress, Borrowed>::const_iterator locate(const void* address) const;
  void close(const Mapping& mapping);
  Result<int> device_named(const std::array<std::byte, 16>& uuid);

  Driver& driver_;
  const ProcessName self_;
  mutable std::mutex mutex_;
  std::map<DeviceAddress, Borrowed> borrowed_;  // by base
  std::atomic<size_t> unused_{0};               // of them, that nobody has borrowed
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_LOANS_H_
