// Fuzzing a scenario: many schedules of one world, by every scheduler in turn, until one finds something; then
// shrinking: from a schedule that leads to a finding to one that a person can read.
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
  Report report;           // of the first schedule that found something; ok() where none did
  uint64_t seed = 0;       // of that schedule
  Schedule schedule;       // of that schedule
  uint64_t schedules = 0;  // run
  bool ok() const { return report.ok(); }
};

// Runs schedules until one finds something or there are enough. Every schedule in 64 is run twice, and both runs must
// be the same. `scenario` must be valid. Blocks; uses the calling thread alone.
Verdict fuzz(const Scenario& scenario, const FuzzOptions& options);

// One world with its schedulers, for those who fuzz many in turn. One seed stands for one schedule.
class Fuzzer {
 public:
  // `scenario` is valid and outlives it.
  Fuzzer(const Scenario& scenario, const WorldOptions& options);
  // The schedule that follows from the seed, run once. The report is the world's: valid until the next run.
  const Report& run(uint64_t seed) { return world_.run(begin(seed)); }
  // The same again: its schedule, and whether the run was the same as the last.
  Schedule record(uint64_t seed);
  bool repeats(uint64_t seed);

  static SchedulerKind scheduler_of(uint64_t seed) { return static_cast<SchedulerKind>(seed % kSchedulerKinds); }
  World& world() { return world_; }

 private:
  // Begins the schedule of that seed.
  Scheduler& begin(uint64_t seed);

  World world_;
  std::array<std::unique_ptr<Scheduler>, kSchedulerKinds> schedulers_;
};

struct Shrunk {
  Config config;          // a smaller workload, where one has the same finding
  Schedule schedule;      // of that workload
  Report report;          // what it leads to: the same finding of the same oracle
  uint64_t shortest = 0;  // steps of the shortest run to it, where breadth-first search got there; else 0
};

// The same finding (class and oracle) with a smaller workload, then with a shorter run and fewer deviations from the
// run in which the first agent always goes on. Requires that the schedule leads to a finding. Blocks, for each of the
// two so long at most.
Shrunk shrink(const Config& config, const Schedule& schedule, std::chrono::nanoseconds time);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_FUZZ_H_
