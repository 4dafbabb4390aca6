// Canary: a run that must be found faulty, so that a fuzzer that finds nothing is known to look.
#ifndef LANYARD_TOOLS_LANYARD_CANARY_H_
#define LANYARD_TOOLS_LANYARD_CANARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nicsim/deterministic/report.h"
#include "nicsim/deterministic/schedulers.h"

namespace lanyard::tools {

// A small exchange on NICs that lose rings, which no NIC may.
inline constexpr const char* kCanary = "2ranks,1req-one-way,1iter,lost-rings";
inline constexpr uint64_t kCanarySchedules = 2'000;

struct CanarySighting {
  nicsim::Report report;
  uint64_t schedules = 0;  // that it took
};

// Runs schedules of the configuration until the oracles report something; nothing where they never do. Requires a valid
// configuration.
std::optional<CanarySighting> watch_canary(const std::string& config, uint64_t seed,
                                           const std::vector<nicsim::SchedulerKind>& schedulers);

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_CANARY_H_
