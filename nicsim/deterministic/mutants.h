// Mutants: the mistakes that somebody could make in the protocol or in a NIC, each compiled in behind a switch, and the
// hunt that shows that an oracle finds it. A mutant that survives is a hole in the oracles or in the workloads.
#ifndef LANYARD_NICSIM_DETERMINISTIC_MUTANTS_H_
#define LANYARD_NICSIM_DETERMINISTIC_MUTANTS_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "nicsim/deterministic/report.h"
#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/shrink.h"

namespace lanyard::nicsim {

struct Mutant {
  uint32_t number;  // of its switch
  const char* name;
  const char* mistake;  // what the code does instead
  const char* place;    // the function
  uint32_t workload;    // one that kills it, of workloads()
  const char* proof;    // why no run can differ from the unmutated; null where one can
};
std::span<const Mutant> mutants();
// Configurations (Config::parse) that every mutant is hunted in, in this order; the last stands for random programs.
std::span<const char* const> workloads();

struct Prey {
  uint32_t mutant = 0;                    // 0: none, and nothing may be found
  uint64_t seed = 0;                      // of the first schedule of each workload
  std::span<const uint32_t> workloads;    // which, in this order
  uint64_t schedules = 1024;              // of each workload, at most
  std::chrono::nanoseconds time{0};       // at most; 0: as long as it takes
  std::chrono::nanoseconds shrinking{0};  // at most, for each part of shrinking what was found; 0: it is not shrunk
};

struct Kill {
  Report report;  // ok(): it was not found
  uint32_t workload = 0;
  SchedulerKind scheduler = SchedulerKind::kRandom;
  uint64_t seed = 0;
  uint64_t schedules = 0;  // run, the last one included
  uint64_t steps = 0;      // of the last one
  Shrunk shrunk;           // where shrinking was asked for
};

// Runs a few schedules of each workload, then more, until an oracle finds something. Uses the calling thread alone, in
// which no mutant is chosen afterwards.
Kill hunt(const Prey& prey);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_MUTANTS_H_
