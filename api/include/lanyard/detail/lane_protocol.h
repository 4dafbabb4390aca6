// The steps of lanes (gpu/lane.h), one source for devices, for the devices in software of the tests, and for the engine
// that tries their orders.
//
// A Team is who runs them together: the threads of a block, or one thread. It offers
//  - load(word), acquire(word), store(word, value) and fence(), of words that everybody reaches; what was written
//  before
//    a fence is visible to who has acquired what is stored behind it;
//  - exchange(word, expected, value): stores where it is as expected; returns what was there. What a team of this
//  device
//    saw before one is visible to its others behind theirs;
//  - claim(word, expected, value): whether it was as expected, and is the value now; of all devices' teams;
//  - add(word, value): returns what was there before; likewise;
//  - members() and member(): how many threads there are, and which of them the calling one is, from 0;
//  - leads(): whether the calling thread is the one that does for all what is done once;
//  - share(value): what the leading one has given, to all; all(whether): whether all have said so; each comes to it;
//  - copy(to, from, bytes): together; once each comes to the next share(), all is written;
//  - load_bytes(from, bytes) and store_bytes(to, value, bytes): 8 at most, in the order of memory, by one thread;
//  - load_unit(address, first, second) and store_unit(): two words, each indivisible, in any order.
#ifndef LANYARD_DETAIL_LANE_PROTOCOL_H_
#define LANYARD_DETAIL_LANE_PROTOCOL_H_

#include <stddef.h>
#include <stdint.h>

#include "lanyard/detail/host_and_device.h"
#include "lanyard/detail/lane_end.h"

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
  uint64_t buffer, peer_buffer, peer, bytes, chunk_bytes, chunks, sends, ready, slots;
  uint64_t iteration;  // that is started, or waited for
  // Of a send that is started, as the team came to it:
  uint64_t decided;  // where several teams may start it
  uint64_t opened;

  // Of a send's end: which chunks of an iteration that was left have been claimed, and how many are copied. Two of each
  // in turn: who begins with one of them knows that nobody is left who has it from two iterations ago, as the other
  // side has started since; of the last one somebody may be. But where there are slots the other side need not have:
  // so a message of one chunk is claimed by its number.
  LANYARD_LANE_STEP uint64_t claimed() const { return claims(offsetof(LaneEnd, claimed)); }
  LANYARD_LANE_STEP uint64_t copied() const { return claims(offsetof(LaneEnd, copied)); }
  LANYARD_LANE_STEP uint64_t slot() const { return slots + iteration % 2 * slot_bytes(bytes); }

 private:
  LANYARD_LANE_STEP uint64_t claims(uint64_t offset) const {
    return (sends != 0 ? end : peer) + offset + (chunks > 1 ? iteration % 2 : 0) * sizeof(uint64_t);
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
  view.slots = team.load(LANYARD_LANE_WORD(end, slots));
  view.iteration = team.load(start ? LANYARD_LANE_WORD(end, started) : LANYARD_LANE_WORD(end, waited)) + 1;
  // Of a receive nobody asks: but so it does not wait for the loads above.
  view.opened = start ? team.acquire(LANYARD_LANE_WORD(end, opened)) : 0;
  view.decided = start && view.sends != 0 && view.chunks > 1 ? team.acquire(LANYARD_LANE_WORD(end, decided)) : 0;
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

// A chunk of a message that was left, which is the caller's to copy; as many as there are: none. By the leading one.
template <typename Team>
LANYARD_LANE_STEP uint64_t claim_chunk(Team& team, const LaneView& lane) {
  if (lane.chunks > 1)
    return team.add(lane.claimed(), 1);
  const uint64_t unclaimed = 2 * lane.iteration;
  return team.claim(lane.claimed(), unclaimed, unclaimed + 1) ? 0 : 1;
}

// Whether the chunk, whose copy is written, was the last one. By the leading one.
template <typename Team>
LANYARD_LANE_STEP bool is_last_chunk(Team& team, const LaneView& lane) {
  if (lane.chunks == 1)
    return true;
  team.fence();  // the chunk
  return team.add(lane.copied(), 1) + 1 == lane.chunks;
}

// Copies chunks of a message that was left as long as there are any that nobody has claimed. Requires is_open().
// Whether there was one.
template <typename Team>
LANYARD_LANE_STEP bool copy_chunks(Team& team, const LaneView& lane) {
  for (bool any = false;; any = true) {
    const uint64_t chunk = team.share(team.leads() ? claim_chunk(team, lane) : 0);
    if (chunk >= lane.chunks)
      return any;
    copy_chunk(team, lane, chunk);
    (void)team.share(0);
    if (team.leads() && is_last_chunk(team, lane))
      tell_both(team, lane);
  }
}

// Whether the message of a send that is started goes by a slot: it is free. (The receive has been started since its
// wait for the start before the last one.)
LANYARD_LANE_STEP bool has_slot(const LaneView& lane) {
  return lane.slots != 0 && (lane.ready != 0 || lane.opened + 1 >= lane.iteration);
}

LANYARD_LANE_STEP bool goes_by_slot(const LaneView& lane) { return lane.sends != 0 && has_slot(lane); }

LANYARD_LANE_STEP uint64_t tag_of(const LaneView& lane) { return lane.iteration << 32; }

// By all of the team.
template <typename Team>
LANYARD_LANE_STEP void fill_slot(Team& team, const LaneView& lane) {
  const uint64_t low_half = 0xffffffff;
  const uint64_t slot = lane.slot(), from = lane.buffer, tag = tag_of(lane);
  const auto bytes = static_cast<uint32_t>(lane.bytes), units = static_cast<uint32_t>(slot_units(bytes));
  for (uint32_t unit = team.member(); unit < units; unit += team.members()) {
    const uint64_t payload = team.load_bytes(from + slot_payload_at(unit), slot_payload(unit, bytes));
    team.store_unit(slot + unit * kSlotUnitBytes, tag | (payload & low_half), tag | payload >> 32);
  }
}

// Whether the message of a receive has come to its slot: it is in the buffer then, and parts of it may be before. By
// all of the team.
template <typename Team>
LANYARD_LANE_STEP bool empty_slot(Team& team, const LaneView& lane) {
  bool is_there = true;
  const uint64_t slot = lane.slot(), to = lane.buffer, tag = tag_of(lane) >> 32;
  const auto bytes = static_cast<uint32_t>(lane.bytes), units = static_cast<uint32_t>(slot_units(bytes));
  for (uint32_t unit = team.member(); is_there && unit < units; unit += team.members()) {
    uint64_t low = 0, high = 0;
    team.load_unit(slot + unit * kSlotUnitBytes, low, high);
    is_there = low >> 32 == tag && high >> 32 == tag;
    if (is_there)
      team.store_bytes(to + slot_payload_at(unit), high << 32 | (low & 0xffffffff), slot_payload(unit, bytes));
  }
  return team.all(is_there);
}

// Whether a start of a send stores its message at the receiver: it may. All of its teams come to the same. By the
// leading one.
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
    // Where there are slots it has hardly ever been left: that is for waits to find.
    if (lane.slots == 0 && team.share(team.leads() && is_open(team, lane) ? 1 : 0) != 0)
      (void)copy_chunks(team, lane);
    return;
  }
  if (has_slot(lane))
    return fill_slot(team, lane);
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

// Once all teams have done theirs, by one thread; of the same view where one team has.
template <typename Team>
LANYARD_LANE_STEP void end_start(Team& team, const LaneView& lane, uint32_t teams) {
  const uint64_t started = LANYARD_LANE_WORD(lane.end, started);
  if (lane.sends == 0)
    return team.store(started, lane.iteration);
  if (has_slot(lane)) {
    team.store(LANYARD_LANE_WORD(lane.end, completed), lane.iteration);
    return team.store(started, lane.iteration);
  }
  if (team.load(LANYARD_LANE_WORD(lane.end, decided)) % 2 != 0) {
    if (teams > 1)
      tell_both(team, lane);
    return team.store(started, lane.iteration);
  }
  // It is whoever's that comes first.
  team.store(lane.claimed(), lane.chunks > 1 ? 0 : 2 * lane.iteration);
  team.store(lane.copied(), 0);
  team.fence();  // the buffer
  team.store(started, lane.iteration);
  team.store(LANYARD_LANE_WORD(lane.peer, opened), lane.iteration);
}

// What a wait finds, but in a slot. By one thread. The start may not have ended. To acquire with each look disturbs
// others where it goes on for long: unless `eager` words are looked at by plain loads first.
enum class LaneLook : uint8_t { kNothing, kMayCopy, kComplete };
template <typename Team>
LANYARD_LANE_STEP LaneLook look_at_lane(Team& team, const LaneView& lane, bool eager) {
  if (!eager && team.load(LANYARD_LANE_WORD(lane.end, completed)) < lane.iteration &&
      team.load(LANYARD_LANE_WORD(lane.end, opened)) < lane.iteration && (lane.sends == 0 || lane.ready == 0))
    return LaneLook::kNothing;
  // Before the start of a send has ended nobody may claim anything of it; then it has said so where it has copied it.
  const bool has_ended = lane.sends == 0 || team.acquire(LANYARD_LANE_WORD(lane.end, started)) >= lane.iteration;
  if (team.acquire(LANYARD_LANE_WORD(lane.end, completed)) >= lane.iteration)
    return LaneLook::kComplete;
  return has_ended && is_open(team, lane) ? LaneLook::kMayCopy : LaneLook::kNothing;
}

// Whether a wait has to look in a slot, too (empty_slot()).
LANYARD_LANE_STEP bool looks_in_slot(const LaneView& lane) { return lane.slots != 0 && lane.sends == 0; }

// Once a wait has passed, by one thread.
template <typename Team>
LANYARD_LANE_STEP void end_wait(Team& team, const LaneView& lane) {
  team.store(LANYARD_LANE_WORD(lane.end, waited), lane.iteration);
}

// Whether the lane was let go of, which is asked seldom: the word is the host's.
template <typename Team>
LANYARD_LANE_STEP bool is_gone(Team& team, const LaneView& lane) {
  return team.load(team.load(LANYARD_LANE_WORD(lane.end, gone))) > team.load(LANYARD_LANE_WORD(lane.end, gone_base));
}

// Where the receive's buffer is to those who may_store() the message of a send; 0: nobody may. Where there are slots a
// start is faster: it need not have been told that the receive has been started, nor say that the message is there.
template <typename Team>
LANYARD_LANE_STEP uint64_t remote_buffer(Team& team, uint64_t end) {
  const bool may = team.load(LANYARD_LANE_WORD(end, sends)) != 0 && team.load(LANYARD_LANE_WORD(end, slots)) == 0;
  return may ? team.load(LANYARD_LANE_WORD(end, peer_buffer)) : 0;
}

// Whether the message of the next start of a send may be stored in the receive's buffer before that start, as
// raise_lane() wants it. By any thread.
template <typename Team>
LANYARD_LANE_STEP bool may_store(Team& team, uint64_t end) {
  if (remote_buffer(team, end) == 0)
    return false;
  const uint64_t started = team.load(LANYARD_LANE_WORD(end, started));
  return team.load(LANYARD_LANE_WORD(end, ready)) != 0 || team.acquire(LANYARD_LANE_WORD(end, opened)) == started + 1;
}

// The same for several teams, each of which will store a part: all of them come to the same until the next start, which
// is raise_lane() then, or start_lane(). By the leading one.
template <typename Team>
LANYARD_LANE_STEP bool agree_to_store(Team& team, uint64_t end) {
  if (remote_buffer(team, end) == 0)
    return false;
  LaneView lane = view_lane(team, end, true);
  lane.decided = team.acquire(LANYARD_LANE_WORD(end, decided));
  return decide(team, lane, 2);
}

// A start of a send whose message has been stored already, which may_store() or agree_to_store() has allowed. By one
// thread, which comes behind those that stored it.
template <typename Team>
LANYARD_LANE_STEP void raise_lane(Team& team, const LaneView& lane) {
  const uint64_t raised = LANYARD_LANE_WORD(lane.end, started);
  tell_both(team, lane);
  team.store(raised, lane.iteration);
}

}  // namespace lanyard::gpu

#endif  // LANYARD_DETAIL_LANE_PROTOCOL_H_
