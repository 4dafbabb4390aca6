// VirtualClock: virtual time for a world that has it: every agent that is enabled is due at some picosecond, and the
// earliest one goes next. Steps then have an order of their own, and a run has a length in time.
#ifndef LANYARD_NICSIM_DETERMINISTIC_VIRTUAL_CLOCK_H_
#define LANYARD_NICSIM_DETERMINISTIC_VIRTUAL_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace lanyard::nicsim {

using Picoseconds = uint64_t;

// How long a step takes from the moment at which nothing stands in its way, by StepKind. The defaults are of the order
// of a card beyond PCIe and a link of 25 GB/s; they are no measurements of one.
struct Timing {
  Picoseconds host = 200'000;
  Picoseconds post = 150'000;
  Picoseconds overflow = 500'000;
  Picoseconds stream = 1'000'000;
  Picoseconds ring = 500'000;
  Picoseconds fire = 100'000;
  Picoseconds read = 400'000;
  Picoseconds land = 600'000;
  Picoseconds count = 50'000;
  Picoseconds ack = 600'000;
  Picoseconds per_byte = 40;  // of what lands
};

class VirtualClock {
 public:
  static constexpr uint32_t kNobody = UINT32_MAX;

  void resize(size_t agents) { times_.resize(agents); }
  Picoseconds now() const { return now_; }

  // The agent has become enabled, in that step of the world, and is due so much later than now: but where it was
  // disabled in the same step, it is due as it was.
  void start(uint32_t agent, Picoseconds duration, uint64_t step) {
    Times& times = times_[agent];
    if (times.due != kNever && times.stopped_in == step)
      return;
    times.due = now_ + duration;
    heap_.push_back({times.due, agent});
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  void stop(uint32_t agent, uint64_t step) { times_[agent].stopped_in = step; }

  // The earliest of those that are due, of several the one with the smallest number; kNobody where there is none. To be
  // called after each step; enabled(agent) says who still is.
  template <typename Enabled>
  uint32_t next(Enabled&& enabled) {
    while (!heap_.empty()) {
      const auto [due, agent] = heap_.front();
      if (times_[agent].due == due && enabled(agent))
        break;
      if (times_[agent].due == due)
        times_[agent].due = kNever;
      pop();
    }
    return next_ = heap_.empty() ? kNobody : heap_.front().second;
  }
  // What next() said last.
  uint32_t next() const { return next_; }
  // Time goes on to where that agent is due, which then is due no more. Requires next() != kNobody.
  uint32_t advance() {
    now_ = heap_.front().first;
    pop();
    times_[next_].due = kNever;
    return next_;
  }

 private:
  static constexpr Picoseconds kNever = UINT64_MAX;

  struct Times {
    Picoseconds due = kNever;
    uint64_t stopped_in = UINT64_MAX;
  };

  void pop() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
  }

  Picoseconds now_ = 0;
  uint32_t next_ = kNobody;
  std::vector<Times> times_;                            // by agent
  std::vector<std::pair<Picoseconds, uint32_t>> heap_;  // what start() said, some of it out of date
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_VIRTUAL_CLOCK_H_
