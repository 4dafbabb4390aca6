#include "nicsim/model/counter_table.h"

#include <algorithm>
#include <atomic>
#include <string>

namespace lanyard::nicsim {

using nic::CounterId;

namespace {

Status no_counter() { return {Code::kNotFound, "no such counter is open"}; }

}  // namespace

CounterTable::CounterTable(uint32_t most) : most_(most), counters_(most) {
  wanted_copies_.reserve(most);
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
            "the counter is named by " + std::to_string(counter.uses) + " entries, operations or regions"};
  counter.open = false;
  std::erase(wanted_copies_, id.value);
  counter.next_free = free_;
  free_ = id.value;
  --open_;
  return {};
}

Status CounterTable::set_word(CounterId id, uint64_t* word) {
  if (!is_open(id))
    return no_counter();
  if (word == nullptr || reinterpret_cast<uintptr_t>(word) % sizeof *word != 0)
    return {Code::kInvalidArgument, "a counter's word is 8 bytes, aligned to 8"};
  if (counters_[id.value].word != nullptr)
    return {Code::kInvalidState, "the counter has a word"};
  counters_[id.value].word = word;
  copy_out(id);
  return {};
}

void CounterTable::want_copy(CounterId id) {
  if (has_word(id) && std::find(wanted_copies_.begin(), wanted_copies_.end(), id.value) == wanted_copies_.end())
    wanted_copies_.push_back(id.value);
}

void CounterTable::copy_out(CounterId id) {
  std::erase(wanted_copies_, id.value);
  std::atomic_ref<uint64_t>(*counters_[id.value].word)
      .store(nic::to_word(counters_[id.value].value), std::memory_order_release);
}

}  // namespace lanyard::nicsim
