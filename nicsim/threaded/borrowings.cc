#include "nicsim/threaded/borrowings.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"

namespace lanyard::nicsim {

Borrowings::~Borrowings() {
  for (const Borrowing& each : borrowings_)
    memory_.give_back(each.memory);
}

std::byte* Borrowings::borrow(uint32_t source, uint64_t registration, const DeviceMemory::Loan& loan,
                              nic::RegionId target, int device) {
  const auto found = std::find_if(borrowings_.begin(), borrowings_.end(), [&](const Borrowing& each) {
    return each.source == source && each.registration == registration && each.device == device && each.loan == loan;
  });
  if (found != borrowings_.end()) {
    ++found->copies;
    if (std::find(found->targets.begin(), found->targets.end(), target) == found->targets.end())
      found->targets.push_back(target);
    return found->memory;
  }
  // The source has registered the memory again: it may be other memory at the same address.
  std::erase_if(borrowings_, [&](const Borrowing& each) {
    if (each.source != source || each.registration == registration || each.loan != loan || each.copies > 0)
      return false;
    memory_.give_back(each.memory);
    return true;
  });
  const Result<std::byte*> memory = memory_.borrow(loan, device);
  if (!memory.ok())
    return nullptr;
  borrowings_.push_back({source, registration, loan, device, memory.value(), 1, {target}});
  return memory.value();
}

void Borrowings::ended(const std::byte* borrowed) {
  const auto found = std::find_if(borrowings_.begin(), borrowings_.end(),
                                  [&](const Borrowing& each) { return each.memory == borrowed && each.copies > 0; });
  LANYARD_CHECK(found != borrowings_.end(), "ended() needs a copy in flight from this memory");
  --found->copies;
}

void Borrowings::forget(nic::RegionId target) {
  std::erase_if(borrowings_, [&](Borrowing& each) {
    if (std::erase(each.targets, target) == 0 || !each.targets.empty())
      return false;
    memory_.give_back(each.memory);
    return true;
  });
}

}  // namespace lanyard::nicsim
