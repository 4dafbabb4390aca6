// Communication patterns (bench/patterns) on a modelled machine, and the law that their bandwidth
// follows.
#ifndef LANYARD_TOOLS_LANYARD_PATTERN_MODEL_H_
#define LANYARD_TOOLS_LANYARD_PATTERN_MODEL_H_

#include <cstdint>

#include "bench/patterns/pattern.h"
#include "nicsim/modelled/job.h"
#include "nicsim/modelled/machine.h"
#include "transport/base/status.h"
#include "transport/core/transfer.h"

namespace lanyard::tools {

struct PatternModel {
  modelled::Placement placement;
  core::Strategy strategy = core::Strategy::kTargetCounter;
  bool ready = false;     // ready sends
  bool exchange = false;  // what a rank starts in a step of the plan is one exchange
};

// The plan as a job of so many ranks, whose step is the whole plan: each rank starts all its
// messages of a step of the plan at once and waits for them. kInvalidArgument: more messages than
// the model has numbers for; else as lower().
Result<modelled::Job> make_pattern_job(const bench::patterns::Plan& plan, uint32_t ranks,
                                       const modelled::Machine& machine, const PatternModel& model);

// The least time that the cards allow the plan, each sending and receiving at full speed at once.
// It adds up the time of each step's busiest card, for the larger of its sent and received bytes
// (CommBench, section 5.2.1).
modelled::Picoseconds least_time(const bench::patterns::Plan& plan, const modelled::Machine& machine,
                                 const modelled::Placement& placement);

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_PATTERN_MODEL_H_
