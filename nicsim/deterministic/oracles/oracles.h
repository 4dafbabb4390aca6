// The conditions that must hold: the order of operations in each step (order.cc), and the end
// (ending.cc, stall.cc). The checks compare counts of a Side; some also write them.
//
// They find clear-to-sends that are early, doubled or for another send, and writes that do not wait
// for them. They find triggers that fire before the stream reaches the start, done words that grow
// before the data is there, and waits that pass too early. They find data overwritten before it is
// read, and operations done twice, lost or not reported. Bridges et al., section V; MPI 4.0
// section 3.7 (buffers in use).
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

// Both sides of every message, or only those of one process.
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
// The next action of the program; null at its end.
inline const Action* next_action(const Process& process) {
  return process.next_action == process.program.size() ? nullptr : &process.program[process.next_action];
}
inline bool is_matching(const Side& side) {
  return side.core != nullptr && side.core->state == core::Request::State::kMatching;
}

// ---- At each step. A finding ends the run.

// True if the flag of the receive hides a failed write of that iteration or an earlier one (P3).
bool is_told_falsely(const World& world, uint32_t request, uint64_t iteration);

void check_fired(World& world, const Transit& transit);
void check_read(World& world, const Transit& transit);
// Its first bytes land.
void check_landing(World& world, const Transit& transit);
void check_landed(World& world, const Transit& transit);
void check_counted(World& world, const Transit& transit);
// The target's NIC has refused it: its region is gone, or the memory is outside of it.
void check_refused(World& world, const Transit& transit);
// A ring of a request's own trigger is in flight.
void check_rung(World& world, const Process& process, const StepItem& item);
// The stream reaches a start's last ring, a wait, a kernel.
void check_started(World& world, uint32_t request);
void check_waited(World& world, uint32_t request, uint64_t iteration);
void check_packed(World& world, uint32_t request);
void check_unpacked(World& world, uint32_t request);
// True if the stream has done all packing or unpacking that was enqueued for the request.
bool has_moved(const World& world, RequestName request);
// The stream reaches a packing or unpacking, or the write that reports it. False: it is a finding.
bool check_moves(World& world, const StepItem& item);
// The stream has packed or unpacked.
void check_moved(World& world, uint32_t request);
// The program was told that all its starts have completed.
void check_seen_complete(World& world, uint32_t request);
// A counter of the process's NIC may have changed.
void check_counter(World& world, const Process& process, uint32_t counter);
// MPIX_Queue_wait waits, but the stream is empty: a start of that queue must be incomplete.
void check_unsettled(World& world, const Process& process, uint32_t queue);
// The program continues because this request is matched.
void check_matched(World& world, uint32_t request);
// The match of the request has failed, as it must.
void check_unmatched(World& world, uint32_t request);
// The matcher has handled its mail. It keeps an unmatched offer until it is withdrawn, no longer.
void check_offers(World& world, const Process& process);

// ---- When nothing moves any more

// Every program has ended. Every counter and word must have the value that the starts ask for, no
// entry or operation may be left, and every failure must have been reported.
void judge_quiescence(World& world);
// Something waits for ever. A finding with the core's stall reports, unless failures explain it.
void judge_stall(World& world);
// The part of judge_stall() that finds the cause: one line, then the stall reports by rank.
// kDeadlock: an iteration that both sides started does not complete, or entries are missing. kUser:
// the program never makes a start or a match. No finding if failures or deaths explain it.
void explain_stall(World& world);

}  // namespace lanyard::nicsim::oracle

#endif  // LANYARD_NICSIM_DETERMINISTIC_ORACLES_ORACLES_H_
