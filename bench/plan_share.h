// PlanShare: what one rank does of a plan.
#ifndef LANYARD_BENCH_PLAN_SHARE_H_
#define LANYARD_BENCH_PLAN_SHARE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "bench/plan.h"

namespace lanyard::bench {

// One side of a message.
struct Transfer {
  int peer = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  int tag = 0;  // which of the plan's messages between the two, this way
};

struct StepShare {
  std::vector<Transfer> receives, sends;  // each in the order of the pattern
  std::vector<Combine> combines;

  size_t transfers() const { return receives.size() + sends.size(); }
};

class PlanShare {
 public:
  static constexpr int kMostTags = 32768;  // that every MPI has

  PlanShare(const Plan& plan, int rank) : bytes_(plan.memory(rank)) {
    std::map<std::pair<int, int>, int> tags;
    for (const Step& step : plan.steps()) {
      StepShare& mine = steps_.emplace_back();
      for (const Message& m : step.pattern.messages()) {
        const int tag = tags[{m.source, m.destination}]++;
        if (m.destination == rank)
          mine.receives.push_back({m.source, m.destination_offset, m.bytes, tag});
        if (m.source == rank)
          mine.sends.push_back({m.destination, m.source_offset, m.bytes, tag});
      }
      std::copy_if(step.combines.begin(), step.combines.end(), std::back_inserter(mine.combines),
                   [&](const Combine& c) { return c.rank == rank; });
    }
  }

  std::span<const StepShare> steps() const { return steps_; }
  // Of its memory.
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_;
  std::vector<StepShare> steps_;
};

// The most messages from one rank to another.
inline int most_between_two(const Plan& plan) {
  std::map<std::pair<int, int>, int> counts;
  int most = 0;
  for (const Step& step : plan.steps())
    for (const Message& m : step.pattern.messages())
      most = std::max(most, ++counts[{m.source, m.destination}]);
  return most;
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PLAN_SHARE_H_
