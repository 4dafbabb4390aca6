#include "api/request_table.h"

#include <algorithm>
#include <utility>

#include "api/watched_handles.h"

namespace lanyard::api {

constinit WatchedHandles watched;
constinit WatchedHandles watched_by_free;

void RequestTable::note(MPI_Request handle, const RequestArguments& arguments) {
  Slot& slot = take(handle);
  slot.arguments = arguments;
  add_note(slot);
}

void RequestTable::note(MPI_Request handle, MPI_Comm communicator, Making making) {
  Slot& slot = take(handle);
  slot.arguments.communicator = communicator;
  slot.making = std::move(making);
  add_note(slot);
}

RequestRecord& RequestTable::insert(MPI_Request handle) { return record_for(take(handle)); }

void RequestTable::settle(MPI_Comm communicator) {
  while (!noted_.empty())
    settle(*slot_of(noted_.back()));
  // Backwards: the last one takes the place of one that is settled.
  for (size_t i = noted_collectives_.size(); i-- > 0;)
    if (Slot& slot = *slot_of(noted_collectives_[i]); slot.arguments.communicator == communicator)
      settle(slot);
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

void RequestTable::add_note(Slot& slot) {
  std::vector<MPI_Request>& notes = notes_like(slot);
  slot.noted_at = static_cast<uint32_t>(notes.size());
  notes.push_back(slot.handle);
}

// The last one takes its place.
void RequestTable::unnote(Slot& slot) {
  std::vector<MPI_Request>& notes = notes_like(slot);
  if (slot.noted_at + 1 != notes.size()) {
    notes[slot.noted_at] = notes.back();
    slot_of(notes.back())->noted_at = slot.noted_at;
  }
  notes.pop_back();
}

void RequestTable::give(Slot& slot) {
  if (slot.record == nullptr) {
    unnote(slot);
    if (slot.making != nullptr)
      slot.making = nullptr;
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
  unnote(slot);
  RequestRecord& record = record_for(slot);
  if (const Making making = std::exchange(slot.making, nullptr))
    making(record);
  else
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
  for (Slot& slot : old) {
    if (slot.state != State::kUsed)
      continue;
    size_t i = hash(slot.handle);
    while (slots_[i & mask_].state == State::kUsed)
      ++i;
    slots_[i & mask_] = std::move(slot);
  }
}

}  // namespace lanyard::api
