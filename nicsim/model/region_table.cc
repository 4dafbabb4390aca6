#include "nicsim/model/region_table.h"

#include <algorithm>
#include <string>

#include "transport/base/check.h"

namespace lanyard::nicsim {

using nic::RegionId;

RegionTable::RegionTable(uint32_t most) : regions_(most) {
  LANYARD_CHECK(most > 0 && most <= kMost, "a key must have room for a region's index");
  for (uint32_t i = 0; i + 1 < most; ++i)
    regions_[i].next_free = i + 1;
}

// The first chosen key that is not less than `key`.
std::vector<RegionTable::ChosenKey>::const_iterator RegionTable::chosen(uint64_t key) const {
  return std::lower_bound(chosen_keys_.begin(), chosen_keys_.end(), key,
                          [](const ChosenKey& entry, uint64_t wanted) { return entry.key < wanted; });
}

// The index of the region with this key, if there is one.
uint32_t RegionTable::index_of(uint64_t key) const {
  if (!chosen_keys_.empty()) {
    const auto found = chosen(key);
    if (found != chosen_keys_.end() && found->key == key)
      return found->region;
  }
  return static_cast<uint32_t>(key & ((1u << kIndexBits) - 1));
}

Result<RegionId> RegionTable::add(void* base, uint64_t bytes, nic::CounterId remote_write,
                                  const RegionOptions& options) {
  if (base == nullptr && bytes > 0)
    return Status(Code::kInvalidArgument, "a region of " + std::to_string(bytes) + " bytes needs an address");
  if (free_ == kNone)
    return Status(Code::kExhausted, "all " + std::to_string(regions_.size()) + " regions are registered");
  const RegionId id{free_};
  if (options.key.has_value()) {
    const auto at = chosen(*options.key);
    if (at != chosen_keys_.end() && at->key == *options.key)
      return Status(Code::kInvalidState, "another region has this key already");
    chosen_keys_.insert(at, {*options.key, id.value});
  }
  Region& region = regions_[id.value];
  free_ = region.next_free;
  region = Region{};
  region.base = static_cast<std::byte*>(base);
  region.bytes = bytes;
  region.generation = next_generation_++;
  region.remote = options.remote;
  region.chosen_key = options.key;
  region.remote_write = remote_write;
  region.open = true;
  ++open_;
  return id;
}

Status RegionTable::remove(RegionId id, bool busy) {
  if (id.value >= regions_.size() || !regions_[id.value].open)
    return {Code::kNotFound, "no such region is registered"};
  Region& region = regions_[id.value];
  if (region.uses > 0)
    return {Code::kInvalidState, std::to_string(region.uses) + " entries or operations still use the region"};
  region.closing = true;
  if (region.pins > 0 || busy)
    return {Code::kAgain, "messages are landing in the region"};
  region.open = false;
  if (region.chosen_key.has_value())
    chosen_keys_.erase(chosen(*region.chosen_key));
  region.next_free = free_;
  free_ = id.value;
  --open_;
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
