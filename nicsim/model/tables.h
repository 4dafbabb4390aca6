// The tables of one NIC: its entries, counters and regions.
#ifndef LANYARD_NICSIM_MODEL_TABLES_H_
#define LANYARD_NICSIM_MODEL_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

// The free places of a table; gives the one that came back last. Allocates only in the constructor.
class FreePlaces {
 public:
  explicit FreePlaces(uint32_t places) : places_(places), free_(places) { std::iota(free_.rbegin(), free_.rend(), 0u); }

  bool empty() const { return free_.empty(); }
  uint32_t count() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t taken() const { return places_ - count(); }
  // Requires !empty().
  uint32_t take() {
    const uint32_t place = free_.back();
    free_.pop_back();
    return place;
  }
  void give_back(uint32_t place) { free_.push_back(place); }

 private:
  const uint32_t places_;
  std::vector<uint32_t> free_;
};

// The deferred-work entries. An entry is free, waits for its counter, or is ready to fire.
// Threads: one at a time. Allocates only in the constructor.
class EntryTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Entry {
    nic::Op op;
    nic::CounterId trigger;
    uint64_t threshold = 0;
    uint32_t previous = kNone;  // in the entry's list
    uint32_t next = kNone;
    bool busy = false;  // not free
    bool ready = false;
  };
  // The waiting entries of one counter: by threshold, then in the order of posting (N2).
  struct Waiting {
    uint32_t first = kNone;
    uint32_t last = kNone;
  };

  // newest_tie_first: of entries with the same threshold, the last one added comes first.
  EntryTable(uint32_t depth, bool newest_tie_first)
      : entries_(depth), newest_tie_first_(newest_tie_first), free_(depth) {}

  uint32_t size() const { return static_cast<uint32_t>(entries_.size()); }
  uint32_t free() const { return free_.count(); }
  const Entry& operator[](uint32_t entry) const { return entries_[entry]; }

  // Adds an entry to its trigger's waiting list. Requires a free entry.
  void add(const nic::DeferredOp& deferred, Waiting& waiting);
  // Removes the entry from its list: from `waiting`, or from the ready entries.
  void take_out(uint32_t entry, Waiting& waiting);
  // Appends the entry to the ready entries. Requires that it is in no list.
  void make_ready(uint32_t entry);
  // Frees the entry. Requires that it is in no list.
  void release(uint32_t entry);

  // The entry that has been ready longest, and the entry after a given one in its list.
  std::optional<uint32_t> first_ready() const { return found(ready_first_); }
  std::optional<uint32_t> next(uint32_t entry) const { return found(entries_[entry].next); }
  static std::optional<uint32_t> first_of(const Waiting& waiting) { return found(waiting.first); }

 private:
  static std::optional<uint32_t> found(uint32_t entry) { return entry == kNone ? std::nullopt : std::optional(entry); }
  void unlink(uint32_t& first, uint32_t& last, uint32_t entry);

  std::vector<Entry> entries_;
  const bool newest_tie_first_;
  FreePlaces free_;
  uint32_t ready_first_ = kNone;
  uint32_t ready_last_ = kNone;
};

// Threads: one at a time, but is_open() may run beside calls for other counters. Allocates only in
// the constructor.
class CounterTable {
 public:
  struct Counter {
    nic::CounterValue value = {};
    EntryTable::Waiting waiting = {};
    uint32_t uses = 0;  // entries, operations and regions that name it
    bool open = false;
  };

  explicit CounterTable(uint32_t most) : counters_(most), free_(most) {}

  // kExhausted.
  Result<nic::CounterId> add();
  // kInvalidState while it is in use; kNotFound.
  Status remove(nic::CounterId id);
  bool is_open(nic::CounterId id) const { return id.value < counters_.size() && counters_[id.value].open; }
  // Requires is_open().
  Counter& operator[](nic::CounterId id) { return counters_[id.value]; }
  const Counter& operator[](nic::CounterId id) const { return counters_[id.value]; }
  uint32_t open() const { return free_.taken(); }

 private:
  std::vector<Counter> counters_;
  FreePlaces free_;
};

// Options beyond nic::Nic::register_region.
struct RegionOptions {
  bool remote = true;  // messages may land in it; if false, it is only local memory
  // The region's key, if the user chooses keys. After deregistration the same key may be chosen
  // again. A user who chooses one key must choose the keys of all regions of this NIC that messages
  // land in.
  std::optional<uint64_t> key = {};
};

// The registered memory, by the caller's id and by the key in messages.
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
  uint32_t open() const { return free_.taken(); }

 private:
  static constexpr uint32_t kIndexBits = 24;  // of a key: region index; the rest: generation

  uint32_t index_of(uint64_t key) const;

  std::vector<Region> regions_;
  std::map<uint64_t, uint32_t> chosen_keys_;  // to indices
  uint64_t next_generation_ = 1;
  FreePlaces free_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_MODEL_TABLES_H_
