// Exchanges with two sets, of double-buffered codes: each set has requests and buffers of its own, and starts go to the
// sets in turn. Then a message of the other set that has come says what a clear-to-send would: a halo step of 8 sends
// and 8 receives takes 9 entries in place of 17.
//
// States, after i starts, the next of which is of set i mod 2:
//
//   waited(i) --start of set i mod 2--> started(i+1) --wait--> waited(i+1)
//
// Any other start is refused, and changes nothing. A failure of a member of either set lets go of both, and one that is
// freed ends both: then there is no start any more.
//
// Start i = 1, 2, ... is start k of set p, i = 2k-1+p. A set is an exchange (exchange.h) with a trigger T, a counter C
// and a done word of its own; N messages; n regular sends with clear-to-sends, which it has where the other side does
// not take part in this (Clearance), m = n+1:
//
//   stream --(m+1)--> T_p >= (2m+1)(k-1) + m+1 --> clear-to-sends; ready sends that are not implied
//   clear-to-sends of the others --1 each--> T_p
//   the done word of the other set, raised for start i-1 --1--> T_p >= (2m+1)k - (p = 0 ? 1 : 0) --> all other writes
//   own writes' completions, and what lands in the receives' buffers --1 each--> C_p
//   C_p >= N k --> done word of p += 1 <-- stream waits for k
//
// A trigger counts the other set's done word as it counts clear-to-sends: by what lands there. So it is the NIC, not
// the stream alone, that lets no write go before all of the start before has come: where the stream is let past a wait
// because something failed, the ring behind it lets nothing go by itself. (Before start 1 there is none.) Rings of
// later starts would add up to what is missing: by then what waits for the triggers has been taken back, or waits for
// what no ring gets to any more (Endpoint::stop()).
//
// Why the thresholds are exact. Of a pair that is implied let q be the other side: its request is of an exchange with
// two sets as well, of the same set p, and in set 1-p of the same two exchanges something goes the other way.
//  - The buffer that write i goes to is free. For i = 1 and 2 nobody has used it: receive buffers are the exchange's
//    from the match on. Else T_p has counted the done word of start i-1, so all its messages have come, one of q's
//    among them; q wrote it at its start i-1, which came after its wait i-2 and all that reads what i-2 had brought
//    there.
//  - C_p >= N k means all N of each of the first k starts of the set. Own writes k+1 need ring k+1, after wait k. q's
//    write i+2 needs, by the same argument, our message i+1, written at our start i+1, after our wait i. So a neighbour
//    is one start ahead at most, and that one counts elsewhere: with one counter for both sets its message i+1 would
//    stand in for what is missing of i. Those with clear-to-sends: exchange.h.
//  - Until our writes k have gone T_p has counted k rings at most, k clear-to-sends for each send, as the next needs
//    our write k, and k-1+p times that the other set's done word grew, as it does not before start i+1. So (2m+1)k, or
//    one less in set 0, whose first start has none before it, means all of these. And (2m+1)(k-1) + m+1 means k rings:
//    with k-1 of them there are at most n clear-to-sends and one done word besides what went before, and m+1 is more.
//  - With strategy B it is flags that C_p counts, in place of what lands and of own writes' completions
//    (exchange.h). Where a message is meant above, its flag has come, which its write went before; of a write that
//    failed it says as much: q had started i-1.
//  - Both sides decide alike: each knows both numbers of all pairs between the two exchanges once its own members are
//    all matched, before which it starts nothing. What one rank decides with another is no matter of third ones, so an
//    exchange may have implied pairs and others. Without any its sets are two exchanges that know nothing of each
//    other.
#ifndef LANYARD_TRANSPORT_CORE_EXCHANGE_SETS_H_
#define LANYARD_TRANSPORT_CORE_EXCHANGE_SETS_H_

#include <cstdint>
#include <span>
#include <string>

#include "transport/core/exchange.h"

namespace lanyard::core {

// Decides for each member of both sets, which have all been matched, whether its clear-to-sends are implied, and sets
// the thresholds. Where none is the sets are parted.
void bind_sets(Exchange& first, Exchange& second, const PlanContext& context);

// Whether the sets among the requests may be started on that queue. Requires check_exchanges(). kInvalidState: it is
// the other set's turn; or its last start was not waited for, or is on another queue and has not completed; kFailed: an
// operation of the other set has failed.
Status check_turns(std::span<Request* const> requests, uint64_t queue);

// Why the clear-to-sends of a member are not implied, in words; "" where they are, or it was not to be.
std::string why_not_implied(const Request& request);

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_EXCHANGE_SETS_H_
