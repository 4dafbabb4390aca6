// Collectives: what Lanyard's persistent collectives (api/collective.h) have a stream do, as a program for the engine.
#ifndef LANYARD_NICSIM_DETERMINISTIC_COLLECTIVES_H_
#define LANYARD_NICSIM_DETERMINISTIC_COLLECTIVES_H_

#include <cstdint>

#include "nicsim/deterministic/scenario.h"

namespace lanyard::nicsim {

struct CollectivesOptions {
  uint32_t ranks = 2;  // two or more
  uint32_t iterations = 2;
  uint32_t bytes = 16;  // of a message
  bool sync = false;    // MPIX_Queue_wait after every iteration
  bool free = false;    // requests are freed as soon as they have completed
  bool gaps = false;    // in all buffers
};

// As a step of a solver has them, on one stream one behind the other: everybody's contribution to everybody, as an
// allreduce and (of no bytes) a barrier, with two sets of messages in turn; a broadcast from the first rank, and one
// from the last. A rank's messages of one collective are merged, be it a single one, and packed before its start.
// That each process has every other's contribution of this iteration behind the wait is what the unpacking looks at; it
// is also all that a barrier promises.
Scenario make_collectives(const CollectivesOptions& options);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_COLLECTIVES_H_
