// Refinement: whether what threaded NICs did is something that the NICs of the deterministic engine may do.
//
// The trace is replayed against the books that the deterministic engine's oracles keep (oracles/shadow_nic.h), so one
// meaning of the NIC holds for both engines. It must show every NIC that its packets come from or go to.
//
// Kills: entries that fire early, late, twice, never, out of turn, or do something else than was posted (N1, N2, N6);
// messages that are counted without having been sent, twice, by another counter or in a region that is gone (N4, N8);
// completions that are early, doubled or lost (N5); counters that read as something else than was counted.
#ifndef LANYARD_NICSIM_DETERMINISTIC_REFINEMENT_H_
#define LANYARD_NICSIM_DETERMINISTIC_REFINEMENT_H_

#include "nicsim/model/nic_model.h"
#include "nicsim/threaded/trace.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

// The first event that is not allowed, and why (kFailed). `limits` are those of the NICs.
Status accept(const Trace& trace, const ModelLimits& limits);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_REFINEMENT_H_
