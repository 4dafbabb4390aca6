#include "api/request_table.h"

#include <algorithm>
#include <utility>

#include "api/watched_handles.h"

namespace lanyard::api {

constinit WatchedHandles watched;
constinit WatchedHandles watched_by_free;

void RequestTable::note(MPI_Request handle, const RequestArguments& arguments) {
  take(handle).arguments = arguments;
  ++noted_;
}

RequestRecord& RequestTable::insert(MPI_Request handle) { return record_for(take(handle)); }

void RequestTable::settle() {
  for (size_t i = 0; noted_ > 0; ++i)
    if (slots_[i].state == State::kUsed && slots_[i].record == nullptr)
      settle(slots_[i]);
}

void RequestTable::erase(MPI_Request handle) {
  Slot* slot = slot_of(handle);
  if (slot == nullptr)
    return;
  watched_by_free.remove(handle);
  give(*slot);
  slot->state = State::kErased;
  --count_;
}

void RequestTable::watch(MPI_Request handle) {
  RequestRecord& record = *find(handle);
  if (record.is_watched)
    return;
  record.is_watched = true;
  watched.add(handle);
}

RequestTable::Slot& RequestTable::take(MPI_Request handle) {
  if (Slot* old = slot_of(handle)) {
    give(*old);
    return *old;
  }
  if (2 * (dirty_ + 1) > slots_.size())
    rehash(std::max(kFirstSlots, 4 * (count_ + 1)));
  size_t i = hash(handle);
  while (slots_[i & mask_].state == State::kUsed)
    ++i;
  Slot& slot = slots_[i & mask_];
  dirty_ += slot.state == State::kFree ? 1 : 0;
  ++count_;
  slot.handle = handle;
  slot.state = State::kUsed;
  watched_by_free.add(handle);
  return slot;
}

void RequestTable::give(Slot& slot) {
  if (slot.record == nullptr) {
    --noted_;
    return;
  }
  if (slot.record->is_watched)
    watched.remove(slot.handle);
  *slot.record = RequestRecord();
  spare_.push_back(std::exchange(slot.record, nullptr));
}

RequestRecord& RequestTable::record_for(Slot& slot) {
  if (spare_.empty())
    spare_.push_back(&records_.emplace_back());
  slot.record = spare_.back();
  spare_.pop_back();
  return *slot.record;
}

RequestRecord& RequestTable::settle(Slot& slot) {
  --noted_;
  RequestRecord& record = record_for(slot);
  resolve(context_, slot.arguments, record);
  return record;
}

void RequestTable::rehash(size_t size) {
  size_t power = kFirstSlots;
  while (power < size)
    power *= 2;
  std::vector<Slot> old(power);
  old.swap(slots_);
  mask_ = power - 1;
  shift_ = 64 - std::countr_zero(power);
  dirty_ = count_;
  for (const Slot& slot : old) {
    if (slot.state != State::kUsed)
      continue;
    size_t i = hash(slot.handle);
    while (slots_[i & mask_].state == State::kUsed)
      ++i;
    slots_[i & mask_] = slot;
  }
}

}  // namespace lanyard::api
