// CounterTable: the counters of one NIC.
#ifndef LANYARD_NICSIM_MODEL_COUNTER_TABLE_H_
#define LANYARD_NICSIM_MODEL_COUNTER_TABLE_H_

#include <cstdint>
#include <vector>

#include "nicsim/model/entry_table.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

// Threads: one at a time, but is_open() may run beside calls for other counters. Allocates only in
// the constructor.
class CounterTable {
 public:
  struct Counter {
    nic::CounterValue value;
    EntryTable::Waiting waiting;
    uint32_t uses = 0;  // entries, operations and regions that name it
    uint32_t next_free = UINT32_MAX;
    bool open = false;
  };

  explicit CounterTable(uint32_t most);

  // kExhausted.
  Result<nic::CounterId> add();
  // kInvalidState while it is in use; kNotFound.
  Status remove(nic::CounterId id);
  bool is_open(nic::CounterId id) const { return id.value < most_ && counters_[id.value].open; }
  // Requires is_open().
  Counter& operator[](nic::CounterId id) { return counters_[id.value]; }
  const Counter& operator[](nic::CounterId id) const { return counters_[id.value]; }
  uint32_t open() const { return open_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  const uint32_t most_;
  std::vector<Counter> counters_;
  uint32_t free_ = 0;
  uint32_t open_ = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_MODEL_COUNTER_TABLE_H_
