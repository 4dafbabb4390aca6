// RegionTable: the memory that one NIC knows, by the caller's id and by the key that messages bring.
#ifndef LANYARD_NICSIM_MODEL_REGION_TABLE_H_
#define LANYARD_NICSIM_MODEL_REGION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

// How a region differs from what nic::Nic::register_region makes.
struct RegionOptions {
  bool remote = true;    // messages may land in it; else it serves as local memory only
  bool writable = true;  // of those: what writes, atomics among them
  // The region's key, where its user chooses it; such a key is valid again in the next region that has it. Who chooses
  // keys chooses them for all regions of the NIC that messages land in.
  std::optional<uint64_t> key = {};
};

// Threads: one at a time, but for find(), which may run beside calls for other regions. Allocates for chosen keys only.
class RegionTable {
 public:
  static constexpr uint32_t kMost = (1u << 24) - 1;

  struct Region {
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    uint64_t generation = 0;
    nic::CounterId remote_write;
    uint32_t uses = 0;  // waiting entries and own operations under way
    uint32_t pins = 0;  // arrivals between locate() and landed()
    uint32_t next_free = UINT32_MAX;
    bool open = false;
    bool closing = false;
    bool remote = true;
    bool writable = true;
    std::optional<uint64_t> chosen_key;
  };

  // Requires most <= kMost.
  explicit RegionTable(uint32_t most);

  // kExhausted; kInvalidArgument for bytes without an address; kInvalidState for a chosen key that there is.
  Result<nic::RegionId> add(void* base, uint64_t bytes, nic::CounterId remote_write, const RegionOptions& options);
  // Refuses further arrivals at once. kAgain while arrivals are pinned or the engine is `busy` with the memory: repeat,
  // or reopen(). kInvalidState while it is in use; kNotFound.
  Status remove(nic::RegionId id, bool busy);
  void reopen(nic::RegionId id) { regions_[id.value].closing = false; }

  // Null where there is none that is not closing.
  const Region* find(nic::RegionId id) const {
    if (id.value >= regions_.size() || !regions_[id.value].open || regions_[id.value].closing)
      return nullptr;
    return &regions_[id.value];
  }
  // Requires that it is open, or closing.
  Region& operator[](nic::RegionId id) { return regions_[id.value]; }
  const Region& operator[](nic::RegionId id) const { return regions_[id.value]; }
  // Requires find().
  uint64_t key_of(nic::RegionId id) const;
  // The region that messages with this key land in, which find() finds; none where there is none.
  std::optional<nic::RegionId> target_of(uint64_t key) const;
  // The same, of a message that has been let in.
  nic::RegionId pinned(uint64_t key) const { return {index_of(key)}; }
  uint32_t open() const { return open_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kIndexBits = 24;  // of a key: the region's index; the rest is its generation

  struct ChosenKey {
    uint64_t key = 0;
    uint32_t region = 0;
  };

  std::vector<ChosenKey>::const_iterator chosen(uint64_t key) const;
  uint32_t index_of(uint64_t key) const;

  std::vector<Region> regions_;
  std::vector<ChosenKey> chosen_keys_;  // by key
  uint64_t next_generation_ = 1;
  uint32_t free_ = 0;
  uint32_t open_ = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_MODEL_REGION_TABLE_H_
