#include "nicsim/model/tables.h"

#include <string>

#include "transport/base/check.h"
#include "transport/nic/driver.h"

namespace lanyard::nicsim {

using nic::CounterId;
using nic::RegionId;

void EntryTable::add(const nic::DeferredOp& deferred, Waiting& waiting) {
  LANYARD_CHECK(!free_.empty(), "there is a free entry");
  const uint32_t index = free_.take();
  Entry& entry = entries_[index];
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
}

void EntryTable::take_out(uint32_t index, Waiting& waiting) {
  if (entries_[index].ready)
    unlink(ready_first_, ready_last_, index);
  else
    unlink(waiting.first, waiting.last, index);
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
  entries_[index].busy = entries_[index].ready = false;
  free_.give_back(index);
}

Result<CounterId> CounterTable::add() {
  if (free_.empty())
    return Status(Code::kExhausted, "all " + std::to_string(counters_.size()) + " counters are open");
  const CounterId id{free_.take()};
  counters_[id.value] = {.open = true};
  return id;
}

Status CounterTable::remove(CounterId id) {
  if (!is_open(id))
    return nic::no_counter();
  Counter& counter = counters_[id.value];
  if (counter.uses > 0)
    return {Code::kInvalidState,
            std::to_string(counter.uses) + " entries, operations or regions still use the counter"};
  counter.open = false;
  free_.give_back(id.value);
  return {};
}

RegionTable::RegionTable(uint32_t most) : regions_(most), free_(most) {
  LANYARD_CHECK(most > 0 && most <= kMost, "a key must have room for a region's index");
}

// The index of the region with this key, if there is one.
uint32_t RegionTable::index_of(uint64_t key) const {
  if (const auto chosen = chosen_keys_.find(key); chosen != chosen_keys_.end())
    return chosen->second;
  return static_cast<uint32_t>(key & ((1u << kIndexBits) - 1));
}

Result<RegionId> RegionTable::add(void* base, uint64_t bytes, nic::CounterId remote_write,
                                  const RegionOptions& options) {
  if (base == nullptr && bytes > 0)
    return Status(Code::kInvalidArgument, "a region of " + std::to_string(bytes) + " bytes needs an address");
  if (free_.empty())
    return Status(Code::kExhausted, "all " + std::to_string(regions_.size()) + " regions are registered");
  if (options.key && chosen_keys_.contains(*options.key))
    return Status(Code::kInvalidState, "another region has this key already");
  const RegionId id{free_.take()};
  if (options.key)
    chosen_keys_[*options.key] = id.value;
  regions_[id.value] = {.base = static_cast<std::byte*>(base),
                        .bytes = bytes,
                        .generation = next_generation_++,
                        .remote_write = remote_write,
                        .open = true,
                        .remote = options.remote,
                        .chosen_key = options.key};
  return id;
}

Status RegionTable::remove(RegionId id, bool busy) {
  if (id.value >= regions_.size() || !regions_[id.value].open)
    return nic::no_region();
  Region& region = regions_[id.value];
  if (region.uses > 0)
    return {Code::kInvalidState, std::to_string(region.uses) + " entries or operations still use the region"};
  region.closing = true;
  if (region.pins > 0 || busy)
    return {Code::kAgain, "messages are landing in the region"};
  region.open = false;
  if (region.chosen_key)
    chosen_keys_.erase(*region.chosen_key);
  free_.give_back(id.value);
  return {};
}

uint64_t RegionTable::key_of(RegionId id) const {
  const Region& region = regions_[id.value];
  return region.chosen_key.value_or(region.generation << kIndexBits | id.value);
}

std::optional<RegionId> RegionTable::target_of(uint64_t key) const {
  const RegionId id{index_of(key)};
  const Region* found = find(id);
  if (found == nullptr || !found->remote || key != key_of(id))
    return std::nullopt;
  return id;
}

}  // namespace lanyard::nicsim
