// Fuzzing: runs many schedules of one world, by every scheduler in turn, until one has a finding.
// Shrinking: turns a schedule with a finding into one that a person can read.
#ifndef LANYARD_NICSIM_DETERMINISTIC_FUZZ_H_
#define LANYARD_NICSIM_DETERMINISTIC_FUZZ_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/scenario.h"
#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

struct FuzzOptions {
  uint64_t seed = 1;
  uint64_t schedules = 10'000;  // at most
  WorldOptions world{};
};

struct Verdict {
  Report report;           // of the first schedule with a finding; ok() if none has one
  uint64_t seed = 0;       // of that schedule
  Schedule schedule;       // empty if ok()
  uint64_t schedules = 0;  // how many have run
  bool ok() const { return report.ok(); }
};

// Runs schedules until one has a finding or all have run. One schedule in 64 runs twice, and both
// runs must be equal. `scenario` must be valid. Blocks; uses only the calling thread.
Verdict fuzz(const Scenario& scenario, const FuzzOptions& options);

// One world with its schedulers, for callers that fuzz many worlds. A seed names one schedule.
class Fuzzer {
 public:
  // `scenario` is valid and outlives it.
  Fuzzer(const Scenario& scenario, const WorldOptions& options);
  // Runs the schedule of the seed once. The report belongs to the world: valid until the next run.
  const Report& run(uint64_t seed) { return world_.run(begin(seed)); }
  // Runs it again. Returns the schedule, or whether this run was equal to the last.
  Schedule record(uint64_t seed);
  bool repeats(uint64_t seed);

  static SchedulerKind scheduler_of(uint64_t seed) { return static_cast<SchedulerKind>(seed % kSchedulerKinds); }
  World& world() { return world_; }

 private:
  // Resets the world, and returns the scheduler for this seed.
  Scheduler& begin(uint64_t seed);

  World world_;
  std::array<std::unique_ptr<Scheduler>, kSchedulerKinds> schedulers_;
};

struct Shrunk {
  Config config;          // a smaller workload with the same finding, if there is one
  Schedule schedule;      // of that workload
  Report report;          // of that schedule: the same finding of the same oracle
  uint64_t shortest = 0;  // steps of the shortest run to it; 0: breadth-first search did not find it
};

// Looks for the same finding (class and oracle) in a smaller workload, then in a shorter run with
// fewer deviations from the run in which the first agent always acts. Requires a schedule with a
// finding. Blocks for about `time` in each of the two parts.
Shrunk shrink(const Config& config, const Schedule& schedule, std::chrono::nanoseconds time);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_FUZZ_H_
