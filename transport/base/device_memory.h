// DeviceMemory: memory of a device (a GPU), which the host may not touch. Whoever must tell such memory from the
// host's, copy from or to it, or lend it to another process of the same host does so through this; gpu/ implements it.
//
// Threads: any, but one at a time for one Copy. No call but unmap() waits for a stream of the user's.
#ifndef LANYARD_TRANSPORT_BASE_DEVICE_MEMORY_H_
#define LANYARD_TRANSPORT_BASE_DEVICE_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/status.h"

namespace lanyard {

class DeviceMemory {
 public:
  static constexpr int kHost = -1;

  // What another process of this host needs to reach a range of device memory. Plain data, carried as it stands.
  struct Loan {
    std::array<std::byte, 160> bytes{};
    friend bool operator==(const Loan&, const Loan&) = default;
  };
  // A copy under way.
  struct Copy {
    uint64_t number = 0;
  };

  virtual ~DeviceMemory() = default;

  virtual const char* kind() const = 0;  // "cuda", "hip"

  // The device that [address, address + bytes) belongs to, kHost for whatever the host may touch (managed and pinned
  // memory too). kInvalidArgument for a range that is not within one allocation of a device.
  virtual Result<int> device_of(const void* address, uint64_t bytes) const = 0;

  // Starts a copy; returns at once. Either side may be device memory of this process, borrowed memory, or memory from
  // take_staging(). No order between two copies. kAgain: too many under way; kFailed: the device is lost.
  virtual Result<Copy> start_copy(void* to, const void* from, uint64_t bytes) = 0;
  // Whether the copy has ended, all of it visible to every device and to the host; the copy is forgotten then. To be
  // asked of each copy until it has: one that nobody asks about may stand still. kFailed (the copy is forgotten too).
  virtual Result<bool> has_ended(Copy copy) = 0;

  // Host memory that copies reach at full speed, at least `bytes` long. May block, not on streams. kExhausted.
  virtual Result<std::byte*> take_staging(uint64_t bytes) = 0;
  virtual void give_staging(std::byte* memory) = 0;

  // Lends device memory of this process, for as long as the memory lives. kUnsupported where it cannot be lent.
  virtual Result<Loan> lend(const void* address, uint64_t bytes) = 0;
  // Where `device` of this process reaches what another (or this very one) has lent, until give_back(); copies to there
  // run on it. kHost: whichever device the process uses anyway. A process that made another's device work too would
  // share that in time slices. kUnsupported where it cannot (another host, a device out of reach); the message says
  // why.
  virtual Result<std::byte*> borrow(const Loan& loan, int device) = 0;
  // What nobody has borrowed any more stays mapped until unmap(), or is borrowed again: to unmap waits for devices.
  virtual void give_back(std::byte* borrowed) = 0;
  // Whether there is such memory, and unmaps it. May wait for the devices, all streams of the user's there too: not to
  // be called while one may wait for what the caller, or who waits for the caller, does next.
  virtual bool may_unmap() const { return false; }
  virtual void unmap() {}
  // How long the range is that a loan is of; 0 for what is no loan. To be asked of one that was borrowed, as its lender
  // may write there what it likes: what can be borrowed lies within an allocation.
  virtual uint64_t lent_bytes(const Loan& loan) const = 0;
};

}  // namespace lanyard

#endif  // LANYARD_TRANSPORT_BASE_DEVICE_MEMORY_H_
