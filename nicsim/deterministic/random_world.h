// RandomWorld: the worlds that random programs run in.
#ifndef LANYARD_NICSIM_DETERMINISTIC_RANDOM_WORLD_H_
#define LANYARD_NICSIM_DETERMINISTIC_RANDOM_WORLD_H_

#include "nicsim/deterministic/random.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

// All but who carries operations and mail, which depends on the program.
WorldOptions draw_world(Random& random);
// Whether operations fail or processes die there.
inline bool is_faulty(const WorldOptions& world) { return world.failures || world.kills; }
// Whose libfabric is below the core's driver, if there is one, and whether cards carry the mail. `stands`: whether the
// program has requests that stand.
void draw_carriers(Random& random, WorldOptions& world, bool stands);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_RANDOM_WORLD_H_
