// CounterTable: the counters of one NIC, and which of them are to be copied to their words (N10).
#ifndef LANYARD_NICSIM_MODEL_COUNTER_TABLE_H_
#define LANYARD_NICSIM_MODEL_COUNTER_TABLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "nicsim/model/entry_table.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

// Threads: one at a time, but for is_open() and has_word(), which may run beside calls for other counters. Allocates
// when it is made only.
class CounterTable {
 public:
  struct Counter {
    nic::CounterValue value;
    EntryTable::Waiting waiting;
    uint32_t uses = 0;  // entries, operations and regions that name it
    uint32_t next_free = UINT32_MAX;
    uint64_t* word = nullptr;
    bool open = false;
  };

  explicit CounterTable(uint32_t most);

  // kExhausted.
  Result<nic::CounterId> add();
  // kInvalidState while it is in use; kNotFound. What was to be copied of it goes with it.
  Status remove(nic::CounterId id);
  bool is_open(nic::CounterId id) const { return id.value < most_ && counters_[id.value].open; }
  // Requires is_open().
  Counter& operator[](nic::CounterId id) { return counters_[id.value]; }
  const Counter& operator[](nic::CounterId id) const { return counters_[id.value]; }
  uint32_t open() const { return open_; }

  // As Nic::set_word.
  Status set_word(nic::CounterId id, uint64_t* word);
  bool has_word(nic::CounterId id) const { return is_open(id) && counters_[id.value].word != nullptr; }
  // Whether its word, which it has, holds what it counts.
  bool is_copied(nic::CounterId id) const {
    return *counters_[id.value].word == nic::to_word(counters_[id.value].value);
  }
  // The counter, if it has a word, is to be copied there; copy_out() does it, of one that has.
  void want_copy(nic::CounterId id);
  void copy_out(nic::CounterId id);
  // In no order.
  std::span<const uint32_t> wanted_copies() const { return wanted_copies_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  const uint32_t most_;
  std::vector<Counter> counters_;
  std::vector<uint32_t> wanted_copies_;  // each once
  uint32_t free_ = 0;
  uint32_t open_ = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_MODEL_COUNTER_TABLE_H_
