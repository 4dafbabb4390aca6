// Stall: what a world says where nothing moves any more and a program has not ended.
#ifndef LANYARD_NICSIM_DETERMINISTIC_ORACLES_STALL_H_
#define LANYARD_NICSIM_DETERMINISTIC_ORACLES_STALL_H_

#include <string>

#include "nicsim/deterministic/report.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim::oracle {

struct Stall {
  Finding finding = Finding::kNone;  // kNone: failures or deaths explain it
  std::string text;                  // the cause in a line, then the stall reports of the core, by rank
};

// kDeadlock: both sides of a message have started an iteration, and it does not complete; or entries are missing.
// kUser: a start or a match is missing that the program never makes. Requires a world without enabled agents.
Stall look_at_stall(World& world);

}  // namespace lanyard::nicsim::oracle

#endif  // LANYARD_NICSIM_DETERMINISTIC_ORACLES_STALL_H_
