#include "nicsim/model/entry_table.h"

#include "transport/base/check.h"

namespace lanyard::nicsim {

EntryTable::EntryTable(uint32_t depth, bool newest_tie_first)
    : entries_(depth), newest_tie_first_(newest_tie_first), free_count_(depth) {
  for (uint32_t i = 0; i + 1 < depth; ++i)
    entries_[i].next = i + 1;
}

void EntryTable::add(const nic::DeferredOp& deferred, Waiting& waiting) {
  LANYARD_CHECK(first_free_ != kNone, "there is a free entry");
  const uint32_t index = first_free_;
  Entry& entry = entries_[index];
  first_free_ = entry.next;
  --free_count_;
  entry = Entry{.op = deferred.op, .trigger = deferred.trigger, .threshold = deferred.threshold, .busy = true};

  // Search from the back: thresholds nearly always rise.
  uint32_t after = waiting.last;
  while (after != kNone && (entries_[after].threshold > entry.threshold ||
                            (newest_tie_first_ && entries_[after].threshold == entry.threshold)))
    after = entries_[after].previous;
  entry.previous = after;
  entry.next = after == kNone ? waiting.first : entries_[after].next;
  (after == kNone ? waiting.first : entries_[after].next) = index;
  (entry.next == kNone ? waiting.last : entries_[entry.next].previous) = index;
  ++waiting.count;
}

void EntryTable::take_out(uint32_t index, Waiting& waiting) {
  if (entries_[index].ready) {
    unlink(ready_first_, ready_last_, index);
  } else {
    unlink(waiting.first, waiting.last, index);
    --waiting.count;
  }
}

void EntryTable::unlink(uint32_t& first, uint32_t& last, uint32_t index) {
  Entry& entry = entries_[index];
  (entry.previous == kNone ? first : entries_[entry.previous].next) = entry.next;
  (entry.next == kNone ? last : entries_[entry.next].previous) = entry.previous;
  entry.previous = entry.next = kNone;
}

void EntryTable::make_ready(uint32_t index) {
  Entry& entry = entries_[index];
  entry.ready = true;
  entry.previous = ready_last_;
  (ready_last_ == kNone ? ready_first_ : entries_[ready_last_].next) = index;
  ready_last_ = index;
}

void EntryTable::release(uint32_t index) {
  Entry& entry = entries_[index];
  entry.busy = entry.ready = false;
  entry.next = first_free_;
  first_free_ = index;
  ++free_count_;
}

}  // namespace lanyard::nicsim
