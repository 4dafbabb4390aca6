// The steps of lanes (gpu/lane.h), one source for devices, for the devices in software of the tests, and for the engine
// that tries their orders.
//
// A Team is who runs them together: the threads of a block, or one thread. It offers
//  - load(word), acquire(word), store(word, value) and fence(), of words that everybody reaches; what was written
//    before a fence is visible to who has acquired what is stored behind it;
//  - exchange(word, expected, value): stores where it is as expected; returns what was there. What a team of this
//    device saw before one is visible to its others behind theirs;
//  - add(word, value): returns what was there before;
//  - leads(): whether the calling thread is the one that does for all what is done once;
//  - share(value): what the leading one has given, to all; each comes to it;
//  - copy(to, from, bytes): together; once each comes to the next share(), all is written.
#ifndef LANYARD_GPU_LANE_PROTOCOL_H_
#define LANYARD_GPU_LANE_PROTOCOL_H_

#include <stddef.h>
#include <stdint.h>

#include "gpu/host_and_device.h"
#include "gpu/lane_end.h"

#if LANYARD_FOR_DEVICES
#define LANYARD_LANE_STEP __device__ inline
#else
#define LANYARD_LANE_STEP inline
#endif

namespace lanyard::gpu {

// The address of a word of an end.
#define LANYARD_LANE_WORD(end, word) ((end) + offsetof(LaneEnd, word))

// What a step needs of an end: what does not change while it runs.
struct LaneView {
  uint64_t end;  // its address
  uint64_t buffer, peer_buffer, peer, bytes, chunk_bytes, chunks, sends, ready;
  uint64_t iteration;  // that is started, or waited for
  uint64_t decided;    // as the team came to it
  uint64_t opened;     // likewise
  uint64_t told;       // the host's word that this start, or wait, makes told_base and the iteration
  uint64_t told_base;

  // Of a send's end: which chunks of an iteration that was left have been claimed, and how many are copied. Two of each
  // in turn: who begins with one of them knows that nobody is left who has it from two iterations ago, as the other
  // side has started since; of the last one somebody may be.
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

// Whether the other side has started, and a receive's has left the message. (Nobody tells a ready send: its user
// knows.) Where it is a start ahead this one is complete, and its claims may be old ones.
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

// By the leading one: the iteration is copied, and who is told of it sees so.
template <typename Team>
LANYARD_LANE_STEP void tell_both(Team& team, const LaneView& lane) {
  team.fence();  // the message
  team.store(LANYARD_LANE_WORD(lane.peer, completed), lane.iteration);
  team.store(LANYARD_LANE_WORD(lane.end, completed), lane.iteration);
}

// Copies chunks of a message that was left as long as there are any that nobody has claimed. Requires is_open().
// Whether there was one.
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
    team.fence();  // the chunk
    if (team.add(lane.copied(), 1) + 1 == lane.chunks)
      tell_both(team, lane);
  }
}

// Whether a start of a send copies its message. All of its teams come to the same. By the leading one.
template <typename Team>
LANYARD_LANE_STEP bool decide(Team& team, const LaneView& lane, uint32_t teams) {
  const uint64_t word = LANYARD_LANE_WORD(lane.end, decided);
  const bool open = lane.ready != 0 || lane.opened == lane.iteration;
  const uint64_t mine = 2 * lane.iteration + (open ? 1 : 0);
  if (teams == 1) {
    team.store(word, mine);
    return mine % 2 != 0;
  }
  if (lane.decided / 2 == lane.iteration)  // another has
    return lane.decided % 2 != 0;
  const uint64_t there = team.exchange(word, lane.decided, mine);
  return (there == lane.decided ? mine : there) % 2 != 0;
}

// One of the `teams` that start a lane together; the first of them is 0.
template <typename Team>
LANYARD_LANE_STEP void start_lane(Team& team, const LaneView& lane, uint32_t which, uint32_t teams) {
  if (lane.sends == 0) {
    if (which == 0 && team.leads()) {
      team.fence();  // what the stream has read of the buffer before is read
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

// What the host is told when a start begins, and when a wait has passed because the iteration is copied. By one thread.
template <typename Team>
LANYARD_LANE_STEP void tell_host(Team& team, const LaneView& lane) {
  team.store(lane.told, lane.told_base + lane.iteration);
}

// Once all teams have done theirs, by one thread.
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
  // It is whoever's that comes first.
  team.store(lane.claimed(), 0);
  team.store(lane.copied(), 0);
  team.fence();  // the buffer
  team.store(LANYARD_LANE_WORD(lane.peer, opened), lane.iteration);
}

// What a wait finds. By one thread. To acquire with each look disturbs others where it goes on for long: unless `eager`
// words are looked at by plain loads first.
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

// Whether the lane was let go of, which is asked seldom: the word is the host's.
template <typename Team>
LANYARD_LANE_STEP bool is_gone(Team& team, const LaneView& lane) {
  return team.load(team.load(LANYARD_LANE_WORD(lane.end, gone))) > team.load(LANYARD_LANE_WORD(lane.end, gone_base));
}

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_LANE_PROTOCOL_H_
