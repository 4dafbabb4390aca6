#include "api/request_table.h"

#include <algorithm>

namespace lanyard::api {

RequestRecord& RequestTable::insert(MPI_Request handle) {
  erase(handle);
  if (2 * (used_ + 1) > slots_.size())
    rehash(std::max(kFirstSlots, 4 * (count_ + 1)));
  size_t i = hash(handle);
  while (slots_[i & mask_].record != nullptr)
    ++i;
  Slot& slot = slots_[i & mask_];
  used_ += slot.was_used ? 0 : 1;
  ++count_;
  slot.handle = handle;
  slot.was_used = true;
  slot.record = std::make_unique<RequestRecord>();
  return *slot.record;
}

void RequestTable::erase(MPI_Request handle) {
  for (size_t i = hash(handle);; ++i) {
    Slot& slot = slots_[i & mask_];
    if (slot.record != nullptr && slot.handle == handle) {
      slot.record.reset();
      --count_;
      return;
    }
    if (slot.record == nullptr && !slot.was_used)
      return;
  }
}

void RequestTable::rehash(size_t size) {
  size_t power = kFirstSlots;
  while (power < size)
    power *= 2;
  std::vector<Slot> old(power);
  old.swap(slots_);
  mask_ = power - 1;
  shift_ = 64 - std::countr_zero(power);
  used_ = count_;
  for (Slot& slot : old) {
    if (slot.record == nullptr)
      continue;
    size_t i = hash(slot.handle);
    while (slots_[i & mask_].record != nullptr)
      ++i;
    slots_[i & mask_] = std::move(slot);
  }
}

void RequestTable::communicator_freed(MPI_Comm communicator) {
  for_each([&](RequestRecord& record) {
    if (record.communicator == communicator)
      record.communicator = MPI_COMM_WORLD;
  });
}

}  // namespace lanyard::api
