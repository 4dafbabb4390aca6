#include "tools/lanyard/canary.h"

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/fuzz.h"

namespace lanyard::tools {

std::optional<CanarySighting> watch_canary(const std::string& text, uint64_t seed,
                                           const std::vector<nicsim::SchedulerKind>& schedulers) {
  const nicsim::Config config = nicsim::Config::parse(text).value();
  const nicsim::Scenario scenario = config.scenario();
  const nicsim::Verdict verdict = nicsim::fuzz(
      scenario,
      {.seed = seed, .schedules = kCanarySchedules, .time = {}, .schedulers = schedulers, .world = config.world});
  if (verdict.ok())
    return std::nullopt;
  return CanarySighting{verdict.report, verdict.schedules};
}

}  // namespace lanyard::tools
