#include "tools/lanyard/canary.h"

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/fuzz.h"

namespace lanyard::tools {

std::optional<CanarySighting> watch_canary(const std::string& text, uint64_t seed,
                                           const std::vector<nicsim::SchedulerKind>& schedulers) {
  const nicsim::Config config = nicsim::Config::parse(text).value();
  const nicsim::Exchange exchange = config.exchange();
  const nicsim::Verdict verdict = nicsim::fuzz(
      exchange,
      {.seed = seed, .schedules = kCanarySchedules, .time = {}, .schedulers = schedulers, .world = config.world});
  if (verdict.ok())
    return std::nullopt;
  return CanarySighting{verdict.report, verdict.schedules};
}

}  // namespace lanyard::tools
