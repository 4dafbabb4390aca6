// ShadowNic: the right values of a NIC's counters and entries, from their causes: rings landed,
// messages counted, operations ended, entries posted. Each step compares the model with it.
//
// It finds entries that fire early, late, twice, never or out of order. It finds counts that are
// lost, doubled or of the wrong kind, and leaks of entries and places in flight (nic.h: N1, N2, N4,
// N5 and N6).
#ifndef LANYARD_NICSIM_DETERMINISTIC_ORACLES_SHADOW_NIC_H_
#define LANYARD_NICSIM_DETERMINISTIC_ORACLES_SHADOW_NIC_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "nicsim/model/nic_model.h"

namespace lanyard::nicsim {

class ShadowNic {
 public:
  explicit ShadowNic(const ModelLimits& limits) : counters_(limits.max_counters), depth_(limits.deferred_depth) {}

  // Causes.
  void succeeded(uint32_t counter, uint64_t times) {
    nic::CounterValue& value = counters_[counter].value;
    value.success = (value.success + times) & nic::kMaxSuccess;
    release(counters_[counter]);
  }
  void failed(uint32_t counter, uint32_t times = 1) {
    nic::CounterValue& value = counters_[counter].value;
    value.failure = std::min(nic::kMaxFailure, value.failure + times);
    release(counters_[counter]);
  }
  void reset(uint32_t counter) { counters_[counter].value = {}; }
  void opened(uint32_t counter, nic::CounterValue value) {
    counters_[counter].value = value;
    counters_[counter].entries.reserve(kUsual);
  }
  void posted(const nic::DeferredOp& op) {
    Counter& counter = counters_[op.trigger.value];
    size_t place = counter.entries.size();
    while (place > counter.ready && counter.entries[place - 1].threshold > op.threshold)
      --place;
    counter.entries.insert(counter.entries.begin() + static_cast<ptrdiff_t>(place), {op.threshold, op.op.context});
    ++outstanding_;
    release(counter);
  }
  void canceled(uint32_t index) {
    Counter& counter = counters_[index];
    outstanding_ -= static_cast<uint32_t>(counter.entries.size() - counter.ready);
    counter.entries.resize(counter.ready);  // ready entries still fire
  }
  void launched() { ++in_flight_; }  // an operation is in flight
  void ended() { --in_flight_; }
  // The model fires an entry of this counter. Returns the mistake in that, or null.
  const char* fired(uint32_t index, uint64_t threshold, uint64_t context) {
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

  // Returns the mistake in the model's counter, or null.
  const char* compare(const NicModel& model, uint32_t index) const {
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
  // Returns the mistake in the model as a whole, or null.
  const char* compare(const NicModel& model) const {
    if (model.free_entries() + outstanding_ < depth_)
      return "an entry that has fired, or was taken back, still takes its place (N6)";
    if (model.free_entries() + outstanding_ > depth_)
      return "an entry has given up its place and has not fired (N6)";
    return model.in_flight() == in_flight_ ? nullptr : "an operation keeps its place though it has ended";
  }
  const nic::CounterValue& value(uint32_t counter) const { return counters_[counter].value; }
  uint32_t outstanding() const { return outstanding_; }

 private:
  static constexpr size_t kUsual = 2;  // typical number of entries of a counter

  struct Entry {
    uint64_t threshold;
    uint64_t context;
  };
  struct Counter {
    nic::CounterValue value;
    // Ready entries, oldest first; then waiting ones, by threshold, then age.
    std::vector<Entry> entries;
    size_t ready = 0;
  };
  static void release(Counter& counter) {
    while (counter.ready < counter.entries.size() &&
           counter.entries[counter.ready].threshold <= counter.value.reached())
      ++counter.ready;
  }

  std::vector<Counter> counters_;
  const uint32_t depth_;
  uint32_t outstanding_ = 0;  // posted entries that have not fired
  uint32_t in_flight_ = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_ORACLES_SHADOW_NIC_H_
