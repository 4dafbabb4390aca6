// What has to come before what: checked by comparing the books of a Side at each stage of an operation.
//
// Kills: clear-to-sends that are early, doubled or credited to another send; writes that do not wait for them; triggers
// that fire before the stream has got to the start; done words that grow before the data is there; waits that pass too
// early; data that is overwritten before it was read. design: Bridges et al., section V; MPI 4.0 section 3.7 (buffers
// of operations under way).
#ifndef LANYARD_NICSIM_DETERMINISTIC_ORACLES_ORDER_H_
#define LANYARD_NICSIM_DETERMINISTIC_ORACLES_ORDER_H_

#include <cstdint>

#include "nicsim/deterministic/process.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim::oracle {

// Whether the receive was told by its sender's flag, and a write of that iteration or an earlier one has failed.
bool is_told_falsely(const World& world, uint32_t request, uint64_t iteration);

// Each is called at its step, and writes that step into the request's books. A finding ends the run.
void check_fired(World& world, const Transit& transit);
void check_read(World& world, const Transit& transit);
// The first of its bytes land.
void check_landing(World& world, const Transit& transit);
void check_landed(World& world, const Transit& transit);
void check_counted(World& world, const Transit& transit);
// The target's NIC would not have it: it names a region that is gone, or memory outside.
void check_refused(World& world, const Transit& transit);
// A ring of a request's own trigger is under way.
void check_rung(World& world, const Process& process, const StepItem& item);
// The stream gets to a start's last ring, to a wait, to a kernel.
void check_started(World& world, uint32_t request);
void check_waited(World& world, uint32_t request, uint64_t iteration);
void check_packed(World& world, uint32_t request);
void check_unpacked(World& world, uint32_t request);
// Whether the stream has done all the packing or unpacking that was enqueued for the request.
bool has_moved(const World& world, RequestName request);
// The stream gets to a packing or unpacking, or to the word that says that this was done; false where it may not be
// made at all.
bool check_moves(World& world, const StepItem& item);
// It has packed or unpacked.
void check_moved(World& world, uint32_t request);
// The program was told that all that it started has completed.
void check_seen_complete(World& world, uint32_t request);
// After something happened to a counter of the process's NIC.
void check_counter(World& world, const Process& process, uint32_t counter);
// MPIX_Queue_wait goes on waiting though the stream has run all: some start of that queue has not completed.
void check_unsettled(World& world, const Process& process, uint32_t queue);
// The program goes on because this request is matched.
void check_matched(World& world, uint32_t request);
// Its match has failed, as it must.
void check_unmatched(World& world, uint32_t request);
// The process's matcher has dealt with its mail: it keeps what nobody matches until it is withdrawn, and no longer.
void check_offers(World& world, const Process& process);

}  // namespace lanyard::nicsim::oracle

#endif  // LANYARD_NICSIM_DETERMINISTIC_ORACLES_ORDER_H_
