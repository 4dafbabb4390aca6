// Loans: device memory that is lent to, or borrowed from, other processes of this host.
#ifndef LANYARD_GPU_DEVICE_LOANS_H_
#define LANYARD_GPU_DEVICE_LOANS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "gpu/device/driver.h"
#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

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

// Any thread may use it at any time. The driver must outlive it.
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

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_LOANS_H_
