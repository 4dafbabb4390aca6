// What must hold when nothing moves any more.
#ifndef LANYARD_NICSIM_DETERMINISTIC_ORACLES_ENDING_H_
#define LANYARD_NICSIM_DETERMINISTIC_ORACLES_ENDING_H_

#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim::oracle {

// Every program has ended: every counter and word has the value that the starts ask for, no entry and no operation is
// left, and every failure was reported. Kills whatever is done twice, lost or hushed up.
void judge_quiescence(World& world);
// Something waits for ever. A finding with the stall reports of the core, unless failed operations explain it.
void judge_stall(World& world);

}  // namespace lanyard::nicsim::oracle

#endif  // LANYARD_NICSIM_DETERMINISTIC_ORACLES_ENDING_H_
