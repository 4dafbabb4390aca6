// Draws which requests of a program are merged into exchanges of the protocol's (transport/core/exchange.h).
#ifndef LANYARD_NICSIM_DETERMINISTIC_DRAW_MERGED_H_
#define LANYARD_NICSIM_DETERMINISTIC_DRAW_MERGED_H_

#include "nicsim/deterministic/scenario.h"
#include "nicsim/deterministic/random.h"

namespace lanyard::nicsim {

// Of each rank some of the requests that its program always starts together and waits for together, and that are
// matched from the beginning. Requires that no rank blocks on a message before it has started to receive all those that
// may be merged with it. `faulty`: operations fail or processes die, so that no call need be refused for one reason.
void draw_merged(Scenario& scenario, Random& random, bool faulty);

// Ranks that all have exchanges with two sets.
HaloOptions draw_two_sets(Random& random);

// Some of their requests are single ones after all, on one side or both; and some calls lack a member, and are refused.
void draw_parts(Scenario& scenario, Random& random, bool faulty);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_DRAW_MERGED_H_
