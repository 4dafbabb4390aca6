// Borrowings: the device memory of other processes that this card has in its reach, each range borrowed once and kept
// for as long as a region lives that something came into from there.
//
// Threads: whoever drives the NIC.
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
  // Gives everything back. Requires that no copy is under way.
  ~Borrowings();
  Borrowings(const Borrowings&) = delete;
  Borrowings& operator=(const Borrowings&) = delete;

  // Where the range lies that `source` has lent, for one copy into `target`, which is on `device`, until ended(); null
  // where it cannot be reached. `registration` tells it from what the same loan meant before.
  std::byte* borrow(uint32_t source, uint64_t registration, const DeviceMemory::Loan& loan, nic::RegionId target,
                    int device);
  void ended(const std::byte* borrowed);
  // The region has gone, and all copies into it have ended.
  void forget(nic::RegionId target);

 private:
  struct Borrowing {
    uint32_t source = 0;
    uint64_t registration = 0;
    DeviceMemory::Loan loan;
    int device = DeviceMemory::kHost;  // that reaches it
    std::byte* memory = nullptr;
    uint32_t copies = 0;                 // under way
    std::vector<nic::RegionId> targets;  // that it is kept for
  };

  DeviceMemory& memory_;
  std::vector<Borrowing> borrowings_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_BORROWINGS_H_
