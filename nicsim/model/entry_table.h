// EntryTable: the deferred-work entries of one NIC. Each is free, waits among those of its counter, or is ready to
// fire.
#ifndef LANYARD_NICSIM_MODEL_ENTRY_TABLE_H_
#define LANYARD_NICSIM_MODEL_ENTRY_TABLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/nic/nic.h"

namespace lanyard::nicsim {

// Threads: one at a time. Allocates when it is made only.
class EntryTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Entry {
    nic::Op op;
    nic::CounterId trigger;
    uint64_t threshold = 0;
    uint32_t previous = kNone;  // in the list that it is in
    uint32_t next = kNone;
    bool busy = false;  // not free
    bool ready = false;
  };
  // The entries of one counter that wait, by threshold, then by age.
  struct Waiting {
    uint32_t first = kNone;
    uint32_t last = kNone;
    uint32_t count = 0;
  };

  // `newest_tie_first`: of those that wait for one threshold, the one added last comes first.
  EntryTable(uint32_t depth, bool newest_tie_first);

  uint32_t size() const { return static_cast<uint32_t>(entries_.size()); }
  uint32_t free() const { return free_count_; }
  const Entry& operator[](uint32_t entry) const { return entries_[entry]; }

  // Lets it wait among its trigger's. Requires a free entry.
  void add(const nic::DeferredOp& deferred, Waiting& waiting);
  // Out of the list that it is in: `waiting`, or of those that are ready.
  void take_out(uint32_t entry, Waiting& waiting);
  // Becomes the last of those that are ready. Requires that it is in no list.
  void make_ready(uint32_t entry);
  // Is free from now on. Requires that it is in no list.
  void release(uint32_t entry);

  // What has been ready for longest, and what comes after an entry in its list.
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
