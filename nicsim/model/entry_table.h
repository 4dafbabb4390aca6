// EntryTable: the deferred-work entries of one NIC. An entry is free, waits for its counter, or is
// ready to fire.
#ifndef LANYARD_NICSIM_MODEL_ENTRY_TABLE_H_
#define LANYARD_NICSIM_MODEL_ENTRY_TABLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/nic/nic.h"

namespace lanyard::nicsim {

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
    uint32_t count = 0;
  };

  // newest_tie_first: of entries with the same threshold, the last one added comes first.
  EntryTable(uint32_t depth, bool newest_tie_first);

  uint32_t size() const { return static_cast<uint32_t>(entries_.size()); }
  uint32_t free() const { return free_count_; }
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
  uint32_t free_count_;
  uint32_t first_free_ = 0;
  uint32_t ready_first_ = kNone;
  uint32_t ready_last_ = kNone;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_MODEL_ENTRY_TABLE_H_
