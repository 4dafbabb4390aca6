// Shrinking: from a schedule that leads to a finding to one that a person can read.
#ifndef LANYARD_NICSIM_DETERMINISTIC_SHRINK_H_
#define LANYARD_NICSIM_DETERMINISTIC_SHRINK_H_

#include <chrono>
#include <cstdint>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/report.h"
#include "nicsim/deterministic/schedulers.h"

namespace lanyard::nicsim {

struct ShrinkOptions {
  std::chrono::nanoseconds time = std::chrono::seconds(10);  // at most, for each of its two parts
};

struct Shrunk {
  Config config;          // a smaller workload, where one has the same finding
  Schedule schedule;      // of that workload
  Report report;          // what it leads to: the same finding of the same oracle
  uint64_t shortest = 0;  // steps of the shortest run to it, where breadth-first search got there; else 0
};

// The same finding (class and oracle) with a smaller workload, then with a shorter run and fewer deviations from the
// run in which the first agent always goes on. Requires that the schedule leads to a finding. Blocks.
Shrunk shrink(const Config& config, const Schedule& schedule, const ShrinkOptions& options = {});

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_SHRINK_H_
