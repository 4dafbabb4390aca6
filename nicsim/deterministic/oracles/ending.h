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
// The part of it that says why: a cause in a line, then the stall reports of the core, by rank. kDeadlock: both sides
// of a message have started an iteration, and it does not complete; or entries are missing. kUser: a start or a match
// is missing that the program never makes. Nothing where failures or deaths explain it.
void explain_stall(World& world);

}  // namespace lanyard::nicsim::oracle

#endif  // LANYARD_NICSIM_DETERMINISTIC_ORACLES_ENDING_H_
