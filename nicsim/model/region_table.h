// RegionTable: the registered memory of one NIC, by the caller's id and by the key in messages.
#ifndef LANYARD_NICSIM_MODEL_REGION_TABLE_H_
#define LANYARD_NICSIM_MODEL_REGION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

// Options beyond nic::Nic::register_region.
struct RegionOptions {
  bool remote = true;  // messages may land in it; if false, it is only local memory
  // The region's key, if the user chooses keys. After deregistration the same key may be chosen
  // again. A user who chooses one key must choose the keys of all regions of this NIC that messages
  // land in.
  std::optional<uint64_t> key = {};
};

// Threads: one at a time, except find(), which may run beside calls for other regions. Allocates
// only in the constructor and for chosen keys.
class RegionTable {
 public:
  static constexpr uint32_t kMost = (1u << 24) - 1;

  struct Region {
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    uint64_t generation = 0;
    nic::CounterId remote_write;
    uint32_t uses = 0;  // waiting entries and own operations in flight
    uint32_t pins = 0;  // arrivals between locate() and landed()
    uint32_t next_free = UINT32_MAX;
    bool open = false;
    bool closing = false;
    bool remote = true;
    std::optional<uint64_t> chosen_key;
  };

  // Requires most <= kMost.
  explicit RegionTable(uint32_t most);

  // kExhausted; kInvalidArgument for bytes without an address; kInvalidState if the chosen key
  // is taken.
  Result<nic::RegionId> add(void* base, uint64_t bytes, nic::CounterId remote_write, const RegionOptions& options);
  // Refuses further arrivals at once. kAgain while arrivals are pinned or the engine is `busy` with
  // the memory: call again, or reopen(). kInvalidState while the region is in use; kNotFound.
  Status remove(nic::RegionId id, bool busy);
  void reopen(nic::RegionId id) { regions_[id.value].closing = false; }

  // Null unless the region is open and not closing.
  const Region* find(nic::RegionId id) const {
    if (id.value >= regions_.size() || !regions_[id.value].open || regions_[id.value].closing)
      return nullptr;
    return &regions_[id.value];
  }
  // Requires that the region is open or closing.
  Region& operator[](nic::RegionId id) { return regions_[id.value]; }
  const Region& operator[](nic::RegionId id) const { return regions_[id.value]; }
  // Requires find().
  uint64_t key_of(nic::RegionId id) const;
  // The region where messages with this key land, if find() finds it.
  std::optional<nic::RegionId> target_of(uint64_t key) const;
  // The same, for a message that locate() has accepted.
  nic::RegionId pinned(uint64_t key) const { return {index_of(key)}; }
  uint32_t open() const { return open_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kIndexBits = 24;  // of a key: region index; the rest: generation

  struct ChosenKey {
    uint64_t key = 0;
    uint32_t region = 0;
  };

  std::vector<ChosenKey>::const_iterator chosen(uint64_t key) const;
  uint32_t index_of(uint64_t key) const;

  std::vector<Region> regions_;
  std::vector<ChosenKey> chosen_keys_;  // sorted by key
  uint64_t next_generation_ = 1;
  uint32_t free_ = 0;
  uint32_t open_ = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_MODEL_REGION_TABLE_H_
