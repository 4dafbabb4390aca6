#include "api/request_table.h"

#include <algorithm>

#include "api/watched_handles.h"

namespace lanyard::api {

constinit WatchedHandles watched;
constinit WatchedHandles watched_by_free;

RequestRecord& RequestTable::insert(MPI_Request handle) {
  erase(handle);
  if (2 * (used_ + 1) > slots_.size())
    rehash(std::max(kFirstSlots, 4 * (count_ + 1)));
  if (spare_.empty())
    spare_.push_back(&records_.emplace_back());
  size_t i = hash(handle);
  while (slots_[i & mask_].record != nullptr)
    ++i;
  Slot& slot = slots_[i & mask_];
  used_ += slot.was_used ? 0 : 1;
  ++count_;
  slot.handle = handle;
  slot.was_used = true;
  slot.record = spare_.back();
  spare_.pop_back();
  watched_by_free.add(handle);
  return *slot.record;
}

void RequestTable::erase(MPI_Request handle) {
  Slot* slot = slot_of(handle);
  if (slot == nullptr)
    return;
  watched_by_free.remove(handle);
  if (slot->record->is_watched)
    watched.remove(handle);
  *slot->record = RequestRecord();
  spare_.push_back(slot->record);
  slot->record = nullptr;
  --count_;
}

void RequestTable::watch(MPI_Request handle) {
  RequestRecord& record = *find(handle);
  if (record.is_watched)
    return;
  record.is_watched = true;
  watched.add(handle);
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
  for (const Slot& slot : old) {
    if (slot.record == nullptr)
      continue;
    size_t i = hash(slot.handle);
    while (slots_[i & mask_].record != nullptr)
      ++i;
    slots_[i & mask_] = slot;
  }
}

}  // namespace lanyard::api
