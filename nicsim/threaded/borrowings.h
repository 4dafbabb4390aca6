// Borrowings: memory that other processes have lent to this NIC. It borrows each range once and
// keeps it while any region exists that has received data from it.
//
// Threads: the one that drives the NIC.
#ifndef LANYARD_NICSIM_THREADED_BORROWINGS_H_
#define LANYARD_NICSIM_THREADED_BORROWINGS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/base/device_memory.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

class Borrowings {
 public:
  explicit Borrowings(DeviceMemory& memory) : memory_(memory) {}
  // Gives everything back. Requires that no copy is in flight.
  ~Borrowings();
  Borrowings(const Borrowings&) = delete;
  Borrowings& operator=(const Borrowings&) = delete;

  // Returns the address of a range that `source` has lent, for one copy into `target`, until
  // ended(). Null if the range is out of reach. `device` is the target's device. `registration`
  // tells the loan from earlier loans of the same memory.
  std::byte* borrow(uint32_t source, uint64_t registration, const DeviceMemory::Loan& loan, nic::RegionId target,
                    int device);
  void ended(const std::byte* borrowed);
  // Requires that the region is deregistered and that all copies into it have ended.
  void forget(nic::RegionId target);

 private:
  struct Borrowing {
    uint32_t source = 0;
    uint64_t registration = 0;
    DeviceMemory::Loan loan;
    int device = DeviceMemory::kHost;  // the device that reaches it
    std::byte* memory = nullptr;
    uint32_t copies = 0;                 // in flight
    std::vector<nic::RegionId> targets;  // regions that have received data from it
  };

  DeviceMemory& memory_;
  std::vector<Borrowing> borrowings_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_BORROWINGS_H_
