// Which steps of a world may be taken before all others without leaving anything out: the reduction of explore().
#ifndef LANYARD_NICSIM_DETERMINISTIC_COMMUTING_H_
#define LANYARD_NICSIM_DETERMINISTIC_COMMUTING_H_

#include <cstdint>

#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

// Whether that agent's step stays enabled and commutes with whatever any other agent may do before it, in a world whose
// options allow a reduction. It looks at what two steps touch, not at what a right NIC would do with it, so that it
// holds with mistakes in the NIC and in the protocol as well. commuting.cc says of each kind what speaks against it.
bool commutes_with_all(const World& world, uint32_t agent);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_COMMUTING_H_
