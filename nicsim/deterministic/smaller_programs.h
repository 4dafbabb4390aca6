// Programs that are smaller than a given one in one respect, for shrinking.
#ifndef LANYARD_NICSIM_DETERMINISTIC_SMALLER_PROGRAMS_H_
#define LANYARD_NICSIM_DETERMINISTIC_SMALLER_PROGRAMS_H_

#include <vector>

#include "nicsim/deterministic/scenario.h"

namespace lanyard::nicsim {

// The most promising first: without a message; without the last start of one, or its last match; without its kernels;
// without a call that must be refused, a wait of the host's, or a rank that does nothing. Each is valid and balanced:
// what is left out is left out on both sides of a message.
std::vector<Scenario> smaller_programs(const Scenario& scenario);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_SMALLER_PROGRAMS_H_
