// What must hold: at each step what has to come before what (order.cc), and what must be true when nothing moves any
// more (ending.cc, stall.cc). All of it is said by comparing the books of a Side, which these checks also write.
//
// Kills: clear-to-sends that are early, doubled or credited to another send; writes that do not wait for them; triggers
// that fire before the stream has got to the start; done words that grow before the data is there; waits that pass too
// early; data that is overwritten before it was read; whatever is done twice, lost or hushed up. design: Bridges et
// al., section V; MPI 4.0 section 3.7 (buffers of operations under way).
#ifndef LANYARD_NICSIM_DETERMINISTIC_ORACLES_ORACLES_H_
#define LANYARD_NICSIM_DETERMINISTIC_ORACLES_ORACLES_H_

#include <boost/algorithm/cxx11/any_of.hpp>
#include <boost/range/adaptor/filtered.hpp>
#include <boost/range/adaptor/transformed.hpp>
#include <boost/range/irange.hpp>
#include <cstddef>
#include <cstdint>

#include "nicsim/deterministic/process.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim::oracle {

using boost::algorithm::any_of;

// Both sides of every message; of those the ones of one process.
inline auto requests_of(const World& world) {
  return boost::irange(uint32_t{0}, static_cast<uint32_t>(2 * world.scenario().messages().size())) |
         boost::adaptors::transformed([](uint32_t index) { return RequestName{index}; });
}
inline auto requests_of(const World& world, const Process& process) {
  return requests_of(world) | boost::adaptors::filtered([&world, rank = process.rank](RequestName each) {
           return world.side(each).rank == rank;
         });
}
// The processes that were not killed, of a World or a const World.
template <typename AnyWorld>
auto living(AnyWorld& world) {
  return boost::irange(uint32_t{0}, world.scenario().ranks()) |
         boost::adaptors::filtered([&world](uint32_t rank) { return !world.is_killed(rank); }) |
         boost::adaptors::transformed([&world](uint32_t rank) -> auto& { return world.process(rank); });
}
// The next action of its program; null at its end.
inline const Action* next_action(const Process& process) {
  return process.next_action == process.program.size() ? nullptr : &process.program[process.next_action];
}
inline bool is_matching(const Side& side) {
  return side.core != nullptr && side.core->state == core::Request::State::kMatching;
}

// ---- At each step. Each of these writes its step into the request's books. A finding ends the run.

// Whether the receive was told by its sender's flag, and a write of that iteration or an earlier one has failed.
bool is_told_falsely(const World& world, uint32_t request, uint64_t iteration);

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

// ---- When nothing moves any more

// Every program has ended: every counter and word has the value that the starts ask for, no entry and no operation is
// left, and every failure was reported.
void judge_quiescence(World& world);
// Something waits for ever. A finding with the stall reports of the core, unless failed operations explain it.
void judge_stall(World& world);
// The part of it that says why: a cause in a line, then the stall reports of the core, by rank. kDeadlock: both sides
// of a message have started an iteration, and it does not complete; or entries are missing. kUser: a start or a match
// is missing that the program never makes. Nothing where failures or deaths explain it.
void explain_stall(World& world);

}  // namespace lanyard::nicsim::oracle

#endif  // LANYARD_NICSIM_DETERMINISTIC_ORACLES_ORACLES_H_
