// Starts of several lanes, and waits for them, by kernels that do something else besides: one source for devices, hosts
// and the engine that tries the orders of their steps (lane_protocol.h).
//
// Besides what the steps want a Team has
//  - kEagerLooks: so many looks acquire (look_at_lane);
//  - barrier(): each comes to it; what they wrote before all see then;
//  - pause(): before the next look.
#ifndef LANYARD_DETAIL_LANE_LIST_H_
#define LANYARD_DETAIL_LANE_LIST_H_

#include "lanyard/detail/lane_protocol.h"

namespace lanyard::gpu {

// Addresses of different LaneEnds of this device; 0: none.
struct LaneList {
  const uint64_t* first;
  uint64_t stride;  // from one to the next, in words
  uint64_t count;
  uint64_t given_up = 0;  // the address of a word: once it is not 0 nothing is done any more; 0: there is none

  LANYARD_LANE_STEP uint64_t operator[](uint64_t i) const { return first[i * stride]; }
};

// What a team knows of the lanes that it has in hand at a time, in memory of all its threads.
template <uint32_t kMost>
struct LaneGroup {
  static constexpr uint32_t kLanes = kMost;
  static_assert(kLanes <= 32, "bits of a word");
  // From kNone on there is nothing to wait for (any more).
  enum State : uint8_t { kWaits, kCopies, kIsCopied, kNone, kPassed, kGone };

  LaneView views[kLanes];
  State states[kLanes];
  uint64_t given_up;
};

// A message of one chunk is one team's alone, which tells that it is there at once.
LANYARD_LANE_STEP uint32_t teams_of(const LaneView& lane, uint32_t teams) { return lane.chunks > 1 ? teams : 1; }

// Takes the lanes from `first` on in hand; returns how many. Of those that are one team's alone every one of the
// `teams` has its own, the first of them is 0; the others' are kNone to it.
template <typename Team, typename Group>
LANYARD_LANE_STEP uint32_t take_lanes(Team& team, Group& group, const LaneList& lanes, uint64_t first, bool start,
                                      uint32_t which, uint32_t teams) {
  const uint64_t left = lanes.count - first;
  const uint32_t count = left < Group::kLanes ? static_cast<uint32_t>(left) : Group::kLanes;
  team.barrier();  // those before are done with
  for (uint32_t i = team.member(); i < count; i += team.members()) {
    const uint64_t end = lanes[first + i];
    group.states[i] = Group::kNone;
    const bool listed = i % teams == which;
    if (end == 0)
      continue;
    group.views[i] = view_lane(team, end, start);
    if (listed || teams_of(group.views[i], teams) > 1)
      group.states[i] = Group::kWaits;
  }
  if (team.leads())
    group.given_up = lanes.given_up != 0 ? team.load(lanes.given_up) : 0;
  team.barrier();
  return count;
}

// One of the `teams` that start the lanes together; the first of them is 0. Those that several of them start are left
// to end_starts(). Whether they have been started: else they are given up.
template <typename Team, typename Group>
LANYARD_LANE_STEP bool start_lanes(Team& team, Group& group, const LaneList& lanes, uint32_t which, uint32_t teams) {
  for (uint64_t first = 0; first < lanes.count; first += Group::kLanes) {
    const uint32_t count = take_lanes(team, group, lanes, first, true, which, teams);
    if (group.given_up != 0)
      return false;
    // What is not waited for by fences first.
    for (uint32_t turn = 0; turn < 2; ++turn)
      for (uint32_t i = 0; i < count; ++i) {
        // Not all with the same one first.
        const uint32_t lane = (i + which) % count;
        const LaneView& view = group.views[lane];
        if (group.states[lane] == Group::kNone || goes_by_slot(view) != (turn == 0))
          continue;
        const uint32_t together = teams_of(view, teams);
        start_lane(team, view, together > 1 ? which : 0, together);
      }
    team.barrier();
    for (uint32_t i = team.member(); i < count; i += team.members())
      if (group.states[i] != Group::kNone && teams_of(group.views[i], teams) == 1)
        end_start(team, group.views[i], 1);
  }
  return true;
}

// Once all the teams have started them, by one of them, which has in hand what it has started last.
template <typename Team, typename Group>
LANYARD_LANE_STEP void end_starts(Team& team, Group& group, const LaneList& lanes, uint32_t teams) {
  const bool in_hand = lanes.count <= Group::kLanes;
  for (uint64_t first = 0; first < lanes.count; first += Group::kLanes) {
    const uint32_t count =
        in_hand ? static_cast<uint32_t>(lanes.count) : take_lanes(team, group, lanes, first, true, 0, 1);
    for (uint32_t i = team.member(); i < count; i += team.members())
      if (group.states[i] != Group::kNone && teams_of(group.views[i], teams) > 1)
        end_start(team, group.views[i], teams);
  }
}

// Starts sends whose messages the teams have stored themselves, and receives. By one team.
template <typename Team, typename Group>
LANYARD_LANE_STEP void raise_lanes(Team& team, Group& group, const LaneList& lanes) {
  const auto is_stored = [](const LaneView& lane) { return lane.sends != 0 && lane.slots == 0; };
  for (uint64_t first = 0; first < lanes.count; first += Group::kLanes) {
    const uint32_t count = take_lanes(team, group, lanes, first, true, 0, 1);
    for (uint32_t i = team.member(); i < count; i += team.members())
      if (group.states[i] != Group::kNone && is_stored(group.views[i]))
        raise_lane(team, group.views[i]);
    for (uint32_t i = 0; i < count; ++i)
      if (group.states[i] != Group::kNone && !is_stored(group.views[i]))
        start_lane(team, group.views[i], 0, 1);
    team.barrier();
    for (uint32_t i = team.member(); i < count; i += team.members())
      if (group.states[i] != Group::kNone && !is_stored(group.views[i]))
        end_start(team, group.views[i], 1);
  }
}

// What the looks of a wait have come to, each thread for itself.
struct LaneLooks {
  uint32_t emptied = 0;  // a bit for each lane in hand whose slot has been
  bool others = true;    // there may be lanes left that are not waited for in their slots alone
};

// One look of a wait at the lanes in hand, and what it may copy; where there is a slot messages hardly ever come
// another way: there it looks `elsewhere`, too, or not. Whether there is nothing to wait for any more.
template <typename Team, typename Group>
LANYARD_LANE_STEP bool look_at_group(Team& team, Group& group, uint32_t count, bool eager, bool elsewhere,
                                     LaneLooks& looks) {
  const bool each = looks.others || elsewhere;
  for (uint32_t i = team.member(); each && i < count; i += team.members()) {
    typename Group::State& state = group.states[i];
    if ((looks.emptied >> i & 1) != 0) {
      state = Group::kPassed;  // for who asks the states
      continue;
    }
    if ((state != Group::kWaits && state != Group::kIsCopied) ||
        (!elsewhere && state == Group::kWaits && looks_in_slot(group.views[i])))
      continue;
    const LaneLook look = look_at_lane(team, group.views[i], eager);
    if (look == LaneLook::kComplete)
      state = Group::kPassed;
    else if (look == LaneLook::kMayCopy && state == Group::kWaits)
      state = Group::kCopies;
  }
  if (each)
    team.barrier();
  bool all = true;
  looks.others = false;
  for (uint32_t i = 0; i < count; ++i) {
    if ((looks.emptied >> i & 1) != 0)
      continue;
    const typename Group::State state = group.states[i];
    if (state >= Group::kNone)
      continue;
    const bool in_slot = looks_in_slot(group.views[i]);
    if (state == Group::kCopies)
      (void)copy_chunks(team, group.views[i]);
    if (state == Group::kWaits && in_slot && empty_slot(team, group.views[i])) {
      looks.emptied |= uint32_t{1} << i;
      continue;
    }
    all = false;
    looks.others = looks.others || !in_slot || state != Group::kWaits;
  }
  if (!each)
    return all;
  team.barrier();
  for (uint32_t i = team.member(); i < count; i += team.members())
    if (group.states[i] == Group::kCopies)
      group.states[i] = Group::kIsCopied;
  return all;
}

// Whether all lanes have been copied that were started last.
template <typename Team, typename Group>
LANYARD_LANE_STEP bool test_lanes(Team& team, Group& group, const LaneList& lanes) {
  for (uint64_t first = 0; first < lanes.count; first += Group::kLanes) {
    const uint32_t count = take_lanes(team, group, lanes, first, false, 0, 1);
    LaneLooks looks;
    // Again for what it has copied itself.
    if (!look_at_group(team, group, count, true, true, looks) && !look_at_group(team, group, count, true, true, looks))
      return false;
  }
  return true;
}

// Of the lanes in hand, from `first` on, those that so many of the `teams` have waited for together.
template <typename Team, typename Group>
LANYARD_LANE_STEP void end_waits_in_hand(Team& team, Group& group, uint32_t first, uint32_t count, uint32_t together,
                                         uint32_t teams) {
  for (uint32_t i = team.member(); i < count; i += team.members())
    if (i >= first && group.states[i] != Group::kNone && group.states[i] != Group::kGone &&
        teams_of(group.views[i], teams) == together)
      end_wait(team, group.views[i]);
}

// Once all have been waited for, by one team: of those lanes that all the `teams` have.
template <typename Team, typename Group>
LANYARD_LANE_STEP void end_waits(Team& team, Group& group, const LaneList& lanes, uint32_t teams) {
  if (lanes.count <= Group::kLanes)
    return end_waits_in_hand(team, group, 0, static_cast<uint32_t>(lanes.count), teams, teams);
  for (uint64_t first = 0; first < lanes.count; first += Group::kLanes) {
    const uint32_t count = take_lanes(team, group, lanes, first, false, 0, 1);
    end_waits_in_hand(team, group, 0, count, teams, teams);
  }
}

// A wait that goes on looks once in so many looks at what it finds there hardly ever: whether it is let pass (the words
// are the host's), and whether a message that a slot is for comes another way.
constexpr uint32_t kLooksPerGone = 64;
constexpr uint32_t kLooksPerOther = 8;

// Waits for a lane that the team has for itself: blocks until it has been copied. Whether it was so: else
// `is_let_pass`, which all threads come to now and then.
template <typename Team, typename IsLetPass>
LANYARD_LANE_STEP bool wait_for_lane(Team& team, const LaneView& lane, IsLetPass is_let_pass) {
  const bool in_slot = looks_in_slot(lane);
  bool elsewhere = !in_slot;
  for (uint32_t i = 1;; ++i) {
    if (in_slot && empty_slot(team, lane))
      return true;
    if (elsewhere || i % kLooksPerOther == 0) {
      const LaneLook look = static_cast<LaneLook>(
          team.share(team.leads() ? static_cast<uint64_t>(look_at_lane(team, lane, i <= Team::kEagerLooks)) : 0));
      if (look == LaneLook::kComplete)  // by whomever
        return true;
      elsewhere = elsewhere || look == LaneLook::kMayCopy;
      if (look == LaneLook::kMayCopy && copy_chunks(team, lane))
        continue;
    }
    if (i % kLooksPerGone == 0 && is_let_pass())
      return false;
    team.pause();
  }
}

// One of the `teams` that wait for the lanes together: blocks until those have been copied that it has in hand, as
// take_lanes() says. All threads come to has_passed() with those in hand, to end their waits, but for what several
// have: that waits for end_waits(). Whether it was so: else they are given up, or `is_let_pass`, which all threads come
// to now and then, and which may make lanes kGone.
template <typename Team, typename Group, typename IsLetPass, typename HasPassed>
LANYARD_LANE_STEP bool wait_for_lanes(Team& team, Group& group, const LaneList& lanes, uint32_t which, uint32_t teams,
                                      IsLetPass is_let_pass, HasPassed has_passed) {
  for (uint64_t first = 0; first < lanes.count; first += Group::kLanes) {
    const uint32_t count = take_lanes(team, group, lanes, first, false, which, teams);
    if (group.given_up != 0)
      return false;
    LaneLooks looks;
    for (uint32_t i = 1; !look_at_group(team, group, count, i <= Team::kEagerLooks, i % kLooksPerOther == 0, looks);
         ++i) {
      if (i % kLooksPerGone == 0 && is_let_pass(count))
        return false;
      team.pause();
    }
    has_passed(count);
  }
  return true;
}

}  // namespace lanyard::gpu

#endif  // LANYARD_DETAIL_LANE_LIST_H_
