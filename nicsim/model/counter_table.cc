#include "nicsim/model/counter_table.h"

#include <string>

namespace lanyard::nicsim {

using nic::CounterId;

namespace {

Status no_counter() { return {Code::kNotFound, "no such counter is open"}; }

}  // namespace

CounterTable::CounterTable(uint32_t most) : most_(most), counters_(most) {
  for (uint32_t i = 0; i + 1 < most; ++i)
    counters_[i].next_free = i + 1;
}

Result<CounterId> CounterTable::add() {
  if (free_ == kNone)
    return Status(Code::kExhausted, "all " + std::to_string(counters_.size()) + " counters are open");
  const CounterId id{free_};
  Counter& counter = counters_[id.value];
  free_ = counter.next_free;
  counter = Counter{};
  counter.open = true;
  ++open_;
  return id;
}

Status CounterTable::remove(CounterId id) {
  if (!is_open(id))
    return no_counter();
  Counter& counter = counters_[id.value];
  if (counter.uses > 0)
    return {Code::kInvalidState,
            std::to_string(counter.uses) + " entries, operations or regions still use the counter"};
  counter.open = false;
  counter.next_free = free_;
  free_ = id.value;
  --open_;
  return {};
}

}  // namespace lanyard::nicsim
