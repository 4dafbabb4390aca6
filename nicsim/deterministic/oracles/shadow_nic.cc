#include "nicsim/deterministic/oracles/shadow_nic.h"

#include <algorithm>

namespace lanyard::nicsim {

void ShadowNic::succeeded(uint32_t counter, uint64_t times) {
  nic::CounterValue& value = counters_[counter].value;
  value.success = (value.success + times) & nic::kMaxSuccess;
  release(counters_[counter]);
}

void ShadowNic::failed(uint32_t counter, uint32_t times) {
  nic::CounterValue& value = counters_[counter].value;
  value.failure = std::min(nic::kMaxFailure, value.failure + times);
  release(counters_[counter]);
}

void ShadowNic::posted(const nic::DeferredOp& op) {
  Counter& counter = counters_[op.trigger.value];
  size_t place = counter.entries.size();
  while (place > counter.ready && counter.entries[place - 1].threshold > op.threshold)
    --place;
  counter.entries.insert(counter.entries.begin() + static_cast<ptrdiff_t>(place), {op.threshold, op.op.context});
  ++outstanding_;
  release(counter);
}

void ShadowNic::canceled(uint32_t index) {
  Counter& counter = counters_[index];
  outstanding_ -= static_cast<uint32_t>(counter.entries.size() - counter.ready);
  counter.entries.resize(counter.ready);  // what is ready fires
}

const char* ShadowNic::fired(uint32_t index, uint64_t threshold, uint64_t context) {
  Counter& counter = counters_[index];
  if (counter.ready == 0)
    return "an entry fired before its counter had reached the threshold, or twice (N1)";
  if (counter.entries.front().threshold != threshold || counter.entries.front().context != context)
    return "an entry fired before its turn (N2)";
  counter.entries.erase(counter.entries.begin());
  --counter.ready;
  --outstanding_;
  return nullptr;
}

const char* ShadowNic::compare(const NicModel& model, uint32_t index) const {
  const Counter& counter = counters_[index];
  const Result<nic::CounterValue> value = model.read({index});
  if (!value.ok() || value.value().success != counter.value.success)
    return "a counter does not hold the successes that were counted (N4, N5)";
  if (value.value().failure != counter.value.failure)
    return "a counter does not hold the failures that there were (N5)";
  if (const auto waiting = model.first_waiting({index});
      waiting && model.threshold_of(*waiting) <= counter.value.reached())
    return "an entry waits though its counter has reached the threshold (N1)";
  return nullptr;
}

}  // namespace lanyard::nicsim
