// DeviceMemory: memory of a device (a GPU) that the host must not read or write. Drivers use it to
// tell device memory from host memory, to copy from or to it, and to lend it to other processes of
// the host. gpu/ implements it.
//
// Threads: any, but only one at a time for one Copy. No call waits for a stream of the user.
#ifndef LANYARD_TRANSPORT_BASE_DEVICE_MEMORY_H_
#define LANYARD_TRANSPORT_BASE_DEVICE_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/base/status.h"

namespace lanyard {

class DeviceMemory {
 public:
  static constexpr int kHost = -1;

  // Another process of this host needs this to reach a range of device memory. Plain data.
  struct Loan {
    std::array<std::byte, 160> bytes{};
    friend bool operator==(const Loan&, const Loan&) = default;
  };
  // A copy in flight.
  struct Copy {
    uint64_t number = 0;
  };

  virtual ~DeviceMemory() = default;

  virtual const char* kind() const = 0;  // "cuda", "hip"

  // Returns the device that owns [address, address + bytes), or kHost if the host may access the
  // range. Managed and pinned memory count as host memory. kInvalidArgument if the range is not
  // within one allocation of a device.
  virtual Result<int> device_of(const void* address, uint64_t bytes) const = 0;

  // Starts a copy and returns at once. Each side may be device memory of this process, borrowed
  // memory, or memory from take_staging(). Copies have no order among them. kAgain: too many in
  // flight. kFailed: the device is lost.
  virtual Result<Copy> start_copy(void* to, const void* from, uint64_t bytes) = 0;
  // Returns true once the copy is complete and visible to all devices and the host. Poll each
  // copy until it ends: an unpolled copy may make no progress. On true or kFailed the Copy is no
  // longer valid.
  virtual Result<bool> has_ended(Copy copy) = 0;

  // Returns at least `bytes` of host memory that copies reach at full speed. May block, but not on
  // streams. kExhausted.
  virtual Result<std::byte*> take_staging(uint64_t bytes) = 0;
  virtual void give_staging(std::byte* memory) = 0;

  // Lends device memory of this process to other processes. The loan lasts as long as the memory.
  // kUnsupported if this memory cannot be lent.
  virtual Result<Loan> lend(const void* address, uint64_t bytes) = 0;
  // Returns an address where `device` of this process reaches lent memory, until give_back(). This
  // process may itself be the lender. Copies of that memory run on `device`. kHost stands for the
  // device that the process already uses: a second device would be shared in time slices.
  // kUnsupported if the memory is out of reach; the message says why.
  virtual Result<std::byte*> borrow(const Loan& loan, int device) = 0;
  virtual void give_back(std::byte* borrowed) = 0;
  // Returns the length of the lent range in bytes, or 0 if this is no loan. Ask only after borrow()
  // has accepted the loan: the lender may write anything into it, but borrow() refuses ranges
  // outside an allocation.
  virtual uint64_t lent_bytes(const Loan& loan) const = 0;
};

}  // namespace lanyard

#endif  // LANYARD_TRANSPORT_BASE_DEVICE_MEMORY_H_
