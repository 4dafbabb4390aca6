// The steps of lanes (gpu/lane.h). One source serves devices, the tests' devices in software, and
// the engine that explores interleavings.
//
// A Team runs the steps: the threads of a block, or one thread. It offers
//  - load(word), acquire(word), store(word, value) and fence(), on words that every device reaches.
//    Writes before a fence are visible to whoever acquires a value stored after it;
//  - exchange(word, expected, value): compare and swap; returns the old value. It acquires and
//    releases among the teams of one device;
//  - add(word, value): atomic; returns the old value;
//  - leads(): whether the calling thread does the work that is done once;
//  - share(value): returns the leading thread's value to all threads, which must all call it;
//  - copy(to, from, bytes): all threads together; complete once every thread is
//    in the next share().
#ifndef LANYARD_GPU_LANE_PROTOCOL_H_
#define LANYARD_GPU_LANE_PROTOCOL_H_

#include <stddef.h>
#include <stdint.h>

#include "gpu/host_and_device.h"

#if LANYARD_FOR_DEVICES
#define LANYARD_LANE_STEP __device__ inline
#else
#define LANYARD_LANE_STEP inline
#endif

namespace lanyard::gpu {

// One side of a lane in memory of its device. The host, this device and the peer's device use it.
// Addresses are valid on this side's device. Each group of words has 128 bytes of its own, as the
// writers differ.
struct LaneEnd {
  // Written when the lane connects.
  uint64_t buffer;
  uint64_t peer_buffer;
  uint64_t peer;  // the other side's LaneEnd
  uint64_t bytes;
  uint64_t chunk_bytes;  // of each chunk but the last
  uint64_t chunks;       // at least 1; an empty message is one chunk of 0 bytes
  uint64_t sends;        // 1: this side sends
  uint64_t ready;        // 1: the send is a ready send
  uint64_t begun;        // a host word: a start sets it to begun_base + the start's number
  uint64_t begun_base;
  uint64_t done;  // a host word: a wait that passes sets it to done_base + the start's number
  uint64_t done_base;
  uint64_t gone;  // a host word: once it exceeds gone_base, waits pass
  uint64_t gone_base;
  uint64_t reserved[2];

  // Used by this device only.
  uint64_t started;  // number of starts
  // How many blocks of a kernel that lists this end first are through. 0 between kernels.
  uint64_t arrivals;
  uint64_t decided;  // at a sender: 2 * the last start, + 1 if that start copied the message itself
  uint64_t padding[13];

  // Written by the peer. At a sender: the number of the receiver's last start. At a receiver: the
  // number of the last send that was left open (gpu/lane.h).
  uint64_t opened;
  uint64_t opened_padding[15];

  // The last iteration that is copied. The side that copies the last chunk writes it.
  uint64_t completed;
  uint64_t completed_padding[15];

  // At a sender, for an open message: chunks claimed and copied. Index: the start's number % 2.
  uint64_t claimed[2];
  uint64_t copied[2];
  uint64_t claims_padding[12];
};
static_assert(sizeof(LaneEnd) == 640);

// The address of a word of a LaneEnd.
#define LANYARD_LANE_WORD(end, word) ((end) + offsetof(LaneEnd, word))

// The parts of a LaneEnd that a step uses. They do not change during the step.
struct LaneView {
  uint64_t end;  // its address
  uint64_t buffer, peer_buffer, peer, bytes, chunk_bytes, chunks, sends, ready;
  uint64_t iteration;  // the number of the start that begins, or is waited for
  uint64_t decided;    // as read by view_lane()
  uint64_t opened;     // likewise
  uint64_t told;       // the host word that this start or wait sets to told_base + iteration
  uint64_t told_base;

  // The sender's counts of chunks claimed and copied, if it left the message open. Two sets take
  // turns. The set of two iterations ago is free, as the peer has started since. The set of the
  // previous iteration may still be in use.
  LANYARD_LANE_STEP uint64_t claimed() const { return claims(offsetof(LaneEnd, claimed)); }
  LANYARD_LANE_STEP uint64_t copied() const { return claims(offsetof(LaneEnd, copied)); }

 private:
  LANYARD_LANE_STEP uint64_t claims(uint64_t offset) const {
    return (sends != 0 ? end : peer) + offset + iteration % 2 * sizeof(uint64_t);
  }
};

template <typename Team>
LANYARD_LANE_STEP LaneView view_lane(Team& team, uint64_t end, bool start) {
  LaneView view;
  view.end = end;
  view.buffer = team.load(LANYARD_LANE_WORD(end, buffer));
  view.peer_buffer = team.load(LANYARD_LANE_WORD(end, peer_buffer));
  view.peer = team.load(LANYARD_LANE_WORD(end, peer));
  view.bytes = team.load(LANYARD_LANE_WORD(end, bytes));
  view.chunk_bytes = team.load(LANYARD_LANE_WORD(end, chunk_bytes));
  view.chunks = team.load(LANYARD_LANE_WORD(end, chunks));
  view.sends = team.load(LANYARD_LANE_WORD(end, sends));
  view.ready = team.load(LANYARD_LANE_WORD(end, ready));
  view.iteration = team.load(LANYARD_LANE_WORD(end, started)) + (start ? 1 : 0);
  view.told = team.load(start ? LANYARD_LANE_WORD(end, begun) : LANYARD_LANE_WORD(end, done));
  view.told_base = team.load(start ? LANYARD_LANE_WORD(end, begun_base) : LANYARD_LANE_WORD(end, done_base));
  view.decided = team.acquire(LANYARD_LANE_WORD(end, decided));
  view.opened = team.acquire(LANYARD_LANE_WORD(end, opened));
  return view;
}

// Whether this side may copy: the peer has started and, if the peer sends, has left the message
// open. With ready sends the sender need not check: its user knows. If the peer is one start ahead,
// this iteration is complete and its claims may be old; hence == and not >=.
template <typename Team>
LANYARD_LANE_STEP bool is_open(Team& team, const LaneView& lane) {
  return (lane.sends != 0 && lane.ready != 0) || team.acquire(LANYARD_LANE_WORD(lane.end, opened)) == lane.iteration;
}

template <typename Team>
LANYARD_LANE_STEP void copy_chunk(Team& team, const LaneView& lane, uint64_t chunk) {
  const uint64_t at = chunk * lane.chunk_bytes;
  const uint64_t left = lane.bytes - at;
  const uint64_t bytes = left < lane.chunk_bytes ? left : lane.chunk_bytes;
  if (lane.sends != 0)
    team.copy(lane.peer_buffer + at, lane.buffer + at, bytes);
  else
    team.copy(lane.buffer + at, lane.peer_buffer + at, bytes);
}

// Tells both ends that the iteration is copied. Called by the leading thread.
template <typename Team>
LANYARD_LANE_STEP void tell_both(Team& team, const LaneView& lane) {
  team.fence();  // publishes the message
  team.store(LANYARD_LANE_WORD(lane.peer, completed), lane.iteration);
  team.store(LANYARD_LANE_WORD(lane.end, completed), lane.iteration);
}

// Claims and copies chunks of an open message until all are claimed. Requires is_open(). Returns
// whether it copied any.
template <typename Team>
LANYARD_LANE_STEP bool copy_chunks(Team& team, const LaneView& lane) {
  for (bool any = false;; any = true) {
    const uint64_t chunk = team.share(team.leads() ? team.add(lane.claimed(), 1) : 0);
    if (chunk >= lane.chunks)
      return any;
    copy_chunk(team, lane, chunk);
    (void)team.share(0);
    if (!team.leads())
      continue;
    team.fence();  // publishes the chunk
    if (team.add(lane.copied(), 1) + 1 == lane.chunks)
      tell_both(team, lane);
  }
}

// Decides whether a send's start copies the message itself or leaves it open. All teams of the
// start get the same answer. Called by the leading thread.
template <typename Team>
LANYARD_LANE_STEP bool decide(Team& team, const LaneView& lane, uint32_t teams) {
  const uint64_t word = LANYARD_LANE_WORD(lane.end, decided);
  const bool open = lane.ready != 0 || lane.opened == lane.iteration;
  const uint64_t mine = 2 * lane.iteration + (open ? 1 : 0);
  if (teams == 1) {
    team.store(word, mine);
    return mine % 2 != 0;
  }
  if (lane.decided / 2 == lane.iteration)  // another team has decided
    return lane.decided % 2 != 0;
  const uint64_t there = team.exchange(word, lane.decided, mine);
  return (there == lane.decided ? mine : there) % 2 != 0;
}

// Starts a lane. All `teams` teams of the start call it, with `which` = 0, 1, ...
template <typename Team>
LANYARD_LANE_STEP void start_lane(Team& team, const LaneView& lane, uint32_t which, uint32_t teams) {
  if (lane.sends == 0) {
    if (which == 0 && team.leads()) {
      team.fence();  // earlier reads of the buffer by this stream are done
      team.store(LANYARD_LANE_WORD(lane.peer, opened), lane.iteration);
    }
    if (team.share(team.leads() && is_open(team, lane) ? 1 : 0) != 0)
      (void)copy_chunks(team, lane);
    return;
  }
  if (team.share(team.leads() && decide(team, lane, teams) ? 1 : 0) == 0)
    return;
  for (uint64_t chunk = which; chunk < lane.chunks; chunk += teams)
    copy_chunk(team, lane, chunk);
  if (teams > 1)
    return;
  (void)team.share(0);
  if (team.leads())
    tell_both(team, lane);
}

// Tells the host that a start has begun, or that a wait has passed because the iteration is copied.
// Called by one thread.
template <typename Team>
LANYARD_LANE_STEP void tell_host(Team& team, const LaneView& lane) {
  team.store(lane.told, lane.told_base + lane.iteration);
}

// Ends a start. Called by one thread after all teams have returned from start_lane().
template <typename Team>
LANYARD_LANE_STEP void end_start(Team& team, const LaneView& lane, uint32_t teams) {
  team.store(LANYARD_LANE_WORD(lane.end, started), lane.iteration);
  if (lane.sends == 0)
    return;
  if (team.load(LANYARD_LANE_WORD(lane.end, decided)) % 2 != 0) {
    if (teams > 1)
      tell_both(team, lane);
    return;
  }
  // Leave the message open.
  team.store(lane.claimed(), 0);
  team.store(lane.copied(), 0);
  team.fence();  // publishes the buffer
  team.store(LANYARD_LANE_WORD(lane.peer, opened), lane.iteration);
}

// One check of a wait, called by one thread. Acquiring again and again disturbs other kernels. So
// without `eager` plain loads come first.
enum class LaneLook : uint8_t { kNothing, kMayCopy, kComplete };
template <typename Team>
LANYARD_LANE_STEP LaneLook look_at_lane(Team& team, const LaneView& lane, bool eager) {
  if (!eager && team.load(LANYARD_LANE_WORD(lane.end, completed)) < lane.iteration &&
      team.load(LANYARD_LANE_WORD(lane.end, opened)) < lane.iteration && (lane.sends == 0 || lane.ready == 0))
    return LaneLook::kNothing;
  if (team.acquire(LANYARD_LANE_WORD(lane.end, completed)) >= lane.iteration)
    return LaneLook::kComplete;
  return is_open(team, lane) ? LaneLook::kMayCopy : LaneLook::kNothing;
}

// Whether the lane was abandoned. Ask rarely: the word is in host memory.
template <typename Team>
LANYARD_LANE_STEP bool is_gone(Team& team, const LaneView& lane) {
  return team.load(team.load(LANYARD_LANE_WORD(lane.end, gone))) > team.load(LANYARD_LANE_WORD(lane.end, gone_base));
}

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_LANE_PROTOCOL_H_
