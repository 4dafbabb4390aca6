// Fuzzing an exchange: many schedules of one world, by a portfolio of schedulers, until one finds something.
#ifndef LANYARD_NICSIM_DETERMINISTIC_FUZZ_H_
#define LANYARD_NICSIM_DETERMINISTIC_FUZZ_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nicsim/deterministic/scenario.h"
#include "nicsim/deterministic/report.h"
#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

struct FuzzOptions {
  uint64_t seed = 1;
  uint64_t schedules = 10'000;              // at most
  std::chrono::nanoseconds time{0};         // at most; 0: as long as it takes
  std::vector<SchedulerKind> schedulers{};  // in turn; empty: all of them
  WorldOptions world{};
};

struct Verdict {
  Report report;                                     // of the first schedule that found something; ok() where none did
  SchedulerKind scheduler = SchedulerKind::kRandom;  // whose it was
  uint64_t seed = 0;                                 // of that schedule
  Schedule schedule;                                 // of that schedule
  uint64_t schedules = 0;                            // run
  uint64_t steps = 0;                                // taken
  bool ok() const { return report.ok(); }
};

// Runs schedules until one finds something or there are enough. Every schedule in 64 is run twice, and both runs must
// be the same. `exchange` must be valid. Blocks; uses the calling thread alone.
Verdict fuzz(const Scenario& scenario, const FuzzOptions& options);

// One world with its schedulers, for those who fuzz many in turn. One seed stands for one schedule.
class Fuzzer {
 public:
  // `exchange` is valid and outlives it.
  Fuzzer(const Scenario& scenario, const WorldOptions& options, std::vector<SchedulerKind> schedulers);
  // The schedule that follows from the seed, run once. The report is the world's: valid until the next run.
  const Report& run(uint64_t seed);
  // The same again: its schedule, and whether the run was the same as the last.
  Schedule record(uint64_t seed);
  bool repeats(uint64_t seed);

  SchedulerKind scheduler_of(uint64_t seed) const { return kinds_[seed % kinds_.size()]; }
  World& world() { return world_; }

 private:
  // Begins the schedule of that seed.
  Scheduler& begin(uint64_t seed);

  World world_;
  std::vector<SchedulerKind> kinds_;
  std::vector<std::unique_ptr<Scheduler>> schedulers_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_FUZZ_H_
