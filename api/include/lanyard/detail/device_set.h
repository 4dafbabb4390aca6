/* What lanyard_device.h's functions do, for requests by the card and by lanes. Lanes are devices' alone, and their code
 * C++: where the code is a host's of a vendor's compiler, or C, a set has requests by the card only. */
#ifndef LANYARD_DETAIL_DEVICE_SET_H_
#define LANYARD_DETAIL_DEVICE_SET_H_

#include "lanyard/detail/device_requests.h"

#if defined(__cplusplus) && LANYARD_ON_DEVICE == LANYARD_FOR_DEVICES

#include "lanyard/detail/lane_list.h"
#include "lanyard/detail/thread_team.h"
#if LANYARD_ON_DEVICE
#include "lanyard/detail/block_team.h"
#endif

namespace lanyard {
namespace gpu {

LANYARD_LANE_STEP LaneList lanes_of(const MPIX_Device_requests* set, uint64_t first, uint64_t end) {
  return {&lanyard_requests(set)[first].lane, sizeof(MPIX_Device_request) / sizeof(uint64_t),
          set->lanes != 0 ? end - first : 0, LANYARD_SET_WORD(set, given_up)};
}
LANYARD_LANE_STEP LaneList lanes_of(const MPIX_Device_requests* set) { return lanes_of(set, 0, set->requests); }

// Whether nothing is done any more. What the team's threads have written before all of them see then.
template <typename Team>
LANYARD_LANE_STEP bool has_given_up(Team& team, const MPIX_Device_requests* set) {
  return team.share(team.leads() ? team.load(LANYARD_SET_WORD(set, given_up)) : 0) != 0;
}

// Whether there is nobody to meet, and no card: the lanes alone say whether they are given up.
LANYARD_LANE_STEP bool is_simple(const MPIX_Device_requests* set, uint32_t teams) {
  return teams == 1 && lanyard_has_lanes_only(set);
}

// Whether the team is the last of `teams` to come here. It sees what the others have seen before, as do those that see
// what it stores behind a fence; and stores 0 in the word once they may come here again.
template <typename Team>
LANYARD_LANE_STEP bool is_last(Team& team, uint64_t arrivals, uint32_t teams) {
  team.barrier();
  uint64_t before = 0;
  if (team.leads()) {
    team.fence();  // what this team has seen
    before = team.add(arrivals, 1);
    team.fence();  // what the others have
  }
  return team.share(before) + 1 == teams;
}

// Blocks until other teams have made the word what it is to be. Whether they have: else the wait is let pass.
template <typename Team, typename Is>
LANYARD_LANE_STEP bool await_teams(Team& team, const MPIX_Device_requests* set, uint64_t word, Is is) {
  bool has_come = true;
  if (team.leads())
    for (uint32_t looks = 1; has_come && !is(team.acquire(word)); ++looks) {
      has_come = looks % LANYARD_LOOKS_PER_RELEASED != 0 ||
                 (!lanyard_is_released(set) && team.load(LANYARD_SET_WORD(set, given_up)) == 0);
      team.pause();
    }
  if (!has_come)
    team.store(LANYARD_SET_WORD(set, given_up), 1);
  return team.share(has_come ? 1 : 0) != 0;
}

// All teams come together; the last one does what is to be done before any of them goes on. Whether they have: else the
// wait is let pass.
template <typename Team, typename Do>
LANYARD_LANE_STEP bool meet(Team& team, const MPIX_Device_requests* set, uint32_t teams, Do what) {
  const uint64_t meetings = LANYARD_SET_WORD(set, meetings);
  const uint64_t before = team.load(meetings);
  if (teams > 1 && !is_last(team, LANYARD_SET_WORD(set, arrived), teams))
    return await_teams(team, set, meetings, [before](uint64_t now) { return now != before; });
  what();
  team.barrier();
  if (teams == 1 || !team.leads())
    return true;
  team.store(LANYARD_SET_WORD(set, arrived), 0);
  team.fence();
  team.store(meetings, before + 1);
  return true;
}

// By the last one of the teams that have started.
template <typename Team>
LANYARD_LANE_STEP void note_started(Team& team, const MPIX_Device_requests* set) {
  team.barrier();
  if (!team.leads())
    return;
  team.fence();
  team.store(LANYARD_SET_WORD(set, starting), 0);
}

// One of the `teams` that start the requests from `first` on, before `end`, together. Several meet, as each may send
// what others have written, and let what others have read be overwritten.
template <typename Team, typename Group>
LANYARD_LANE_STEP void start_set(Team& team, Group& group, const MPIX_Device_requests* set, uint64_t first,
                                 uint64_t end, uint32_t which, uint32_t teams) {
  // The card moves while lanes are copied.
  const auto ring = [&] { lanyard_ring(set, first + team.member(), end, team.members()); };
  if (!is_simple(set, teams) && (has_given_up(team, set) || !meet(team, set, teams, ring)))
    return;
  const LaneList lanes = lanes_of(set, first, end);
  if (!start_lanes(team, group, lanes, which, teams))
    return;
  if (teams == 1 || !is_last(team, LANYARD_SET_WORD(set, starting), teams))
    return;
  end_starts(team, group, lanes, teams);
  note_started(team, set);
}

// The same, but that the messages of sends by lanes have been stored already. The last one does it.
template <typename Team, typename Group>
LANYARD_LANE_STEP void raise_set(Team& team, Group& group, const MPIX_Device_requests* set, uint64_t first,
                                 uint64_t end, uint32_t teams) {
  if (has_given_up(team, set) || (teams > 1 && !is_last(team, LANYARD_SET_WORD(set, starting), teams)))
    return;
  lanyard_ring(set, first + team.member(), end, team.members());
  raise_lanes(team, group, lanes_of(set, first, end));
  if (teams > 1)
    note_started(team, set);
}

// What lets waits pass is looked for by all of a team. Whether it has given up since.
template <typename Team>
LANYARD_LANE_STEP bool is_let_pass(Team& team, const MPIX_Device_requests* set) {
  bool gone = team.leads() && lanyard_is_released(set);
  const LaneList lanes = lanes_of(set);
  for (uint64_t i = team.member(); i < lanes.count; i += team.members()) {
    LaneView lane{};
    lane.end = lanes[i];
    gone = gone || (lane.end != 0 && is_gone(team, lane));
  }
  if (gone)
    team.store(LANYARD_SET_WORD(set, given_up), 1);
  team.barrier();
  return has_given_up(team, set);
}

// Whether every request has completed, which then counts as waited for; or a wait is to be let pass.
template <typename Team, typename Group>
LANYARD_LANE_STEP bool test_set(Team& team, Group& group, const MPIX_Device_requests* set) {
  if (has_given_up(team, set))
    return true;
  const bool all = test_lanes(team, group, lanes_of(set));
  if (team.share(team.leads() && all && lanyard_test_card(set) ? 1 : 0) == 0) {
    const uint64_t tests = team.load(LANYARD_SET_WORD(set, tests)) + 1;
    team.barrier();
    if (team.leads())
      team.store(LANYARD_SET_WORD(set, tests), tests);
    return tests % LANYARD_LOOKS_PER_RELEASED == 0 && is_let_pass(team, set);
  }
  end_waits(team, group, lanes_of(set), 1);
  lanyard_count_on(set, team.member(), team.members());
  team.barrier();
  return true;
}

// One of the `teams` that wait together for every request.
template <typename Team, typename Group>
LANYARD_LANE_STEP void wait_for_set(Team& team, Group& group, const MPIX_Device_requests* set, uint32_t teams) {
  const bool simple = is_simple(set, teams);
  if (!simple && has_given_up(team, set))
    return;
  // What others have not started they may still read.
  const auto is_over = [](uint64_t starting) { return starting == 0; };
  if (teams > 1 && !await_teams(team, set, LANYARD_SET_WORD(set, starting), is_over))
    return;
  const uint64_t waiting = LANYARD_SET_WORD(set, waiting);
  const uint64_t which = teams > 1 ? team.share(team.leads() ? team.add(waiting, 1) : 0) : 0;
  const auto look_around = [&](uint32_t) { return is_let_pass(team, set); };
  const auto end = [&](uint32_t count) { end_waits_in_hand(team, group, 0, count, 1, teams); };
  if (!wait_for_lanes(team, group, lanes_of(set), static_cast<uint32_t>(which), teams, look_around, end) || simple)
    return;
  if (!lanyard_has_lanes_only(set)) {
    if (lanyard_wait_for_card(set, team.member(), team.members()) == 0)
      team.store(LANYARD_SET_WORD(set, given_up), 1);
    team.barrier();
    if (has_given_up(team, set))
      return;
  }
  (void)meet(team, set, teams, [&] {
    if (teams > 1)
      end_waits(team, group, lanes_of(set), teams);
    if (teams > 1 && team.leads())
      team.store(waiting, 0);
    lanyard_count_on(set, team.member(), team.members());
  });
}

}  // namespace gpu
}  // namespace lanyard

// ---- By one thread, which has little memory of its own

#define LANYARD_AS_THREAD          \
  lanyard::gpu::ThreadTeam team{}; \
  lanyard::gpu::LaneGroup<2> group

LANYARD_DEVICE_FUNCTION void lanyard_start(const MPIX_Device_requests* set, uint64_t first, uint64_t end) {
  LANYARD_AS_THREAD;
  start_set(team, group, set, first, end, 0, 1);
}
LANYARD_DEVICE_FUNCTION void lanyard_raise(const MPIX_Device_requests* set, uint64_t first, uint64_t end) {
  LANYARD_AS_THREAD;
  raise_set(team, group, set, first, end, 1);
}
LANYARD_DEVICE_FUNCTION int lanyard_test(const MPIX_Device_requests* set) {
  LANYARD_AS_THREAD;
  return test_set(team, group, set) ? 1 : 0;
}
LANYARD_DEVICE_FUNCTION void lanyard_wait(const MPIX_Device_requests* set) {
  LANYARD_AS_THREAD;
  wait_for_set(team, group, set, 1);
}
LANYARD_DEVICE_FUNCTION void* lanyard_remote(const MPIX_Device_requests* set, uint64_t i) {
  const lanyard::gpu::ThreadTeam team{};
  const uint64_t lane = lanyard_requests(set)[i].lane;
  return lane != 0 ? (void*)(uintptr_t)remote_buffer(team, lane) : nullptr;
}
LANYARD_DEVICE_FUNCTION int lanyard_may_store(const MPIX_Device_requests* set, uint64_t i) {
  const lanyard::gpu::ThreadTeam team{};
  const uint64_t lane = lanyard_requests(set)[i].lane;
  return lane != 0 && may_store(team, lane) ? 1 : 0;
}

LANYARD_DEVICE_FUNCTION int lanyard_agree_to_store(const MPIX_Device_requests* set, uint64_t i) {
  const lanyard::gpu::ThreadTeam team{};
  const uint64_t lane = lanyard_requests(set)[i].lane;
  return lane != 0 && agree_to_store(team, lane) ? 1 : 0;
}

#undef LANYARD_AS_THREAD

#else

LANYARD_DEVICE_FUNCTION int lanyard_has_given_up(const MPIX_Device_requests* set) {
  return lanyard_load(LANYARD_SET_WORD(set, given_up)) != 0;
}
LANYARD_DEVICE_FUNCTION int lanyard_give_up(const MPIX_Device_requests* set) {
  lanyard_store(LANYARD_SET_WORD(set, given_up), 1);
  return 1;
}
LANYARD_DEVICE_FUNCTION void lanyard_start(const MPIX_Device_requests* set, uint64_t first, uint64_t end) {
  if (!lanyard_has_given_up(set))
    lanyard_ring(set, first, end, 1);
}
LANYARD_DEVICE_FUNCTION void lanyard_raise(const MPIX_Device_requests* set, uint64_t first, uint64_t end) {
  lanyard_start(set, first, end);
}
LANYARD_DEVICE_FUNCTION int lanyard_test(const MPIX_Device_requests* set) {
  if (lanyard_has_given_up(set))
    return 1;
  if (!lanyard_test_card(set))
    return lanyard_is_released(set) ? lanyard_give_up(set) : 0;
  lanyard_count_on(set, 0, 1);
  return 1;
}
LANYARD_DEVICE_FUNCTION void lanyard_wait(const MPIX_Device_requests* set) {
  if (lanyard_has_given_up(set))
    return;
  if (lanyard_wait_for_card(set, 0, 1))
    lanyard_count_on(set, 0, 1);
  else
    (void)lanyard_give_up(set);
}
LANYARD_DEVICE_FUNCTION void* lanyard_remote(const MPIX_Device_requests* set, uint64_t i) {
  (void)set, (void)i;
  return 0;
}
LANYARD_DEVICE_FUNCTION int lanyard_may_store(const MPIX_Device_requests* set, uint64_t i) {
  (void)set, (void)i;
  return 0;
}
LANYARD_DEVICE_FUNCTION int lanyard_agree_to_store(const MPIX_Device_requests* set, uint64_t i) {
  return lanyard_may_store(set, i);
}

#endif

/* ---- By blocks. One on a host is a thread. */

#if LANYARD_ON_DEVICE

namespace lanyard {
namespace gpu {

struct BlockMemory {
  LaneGroup<16> group;
  uint64_t slot;
};
// One for all calls.
__device__ inline BlockMemory& block_memory() {
  __shared__ BlockMemory memory;
  return memory;
}

}  // namespace gpu
}  // namespace lanyard

/* Called, not copied into each place of a kernel that communicates: that takes half of the instructions. */
#define LANYARD_BLOCK_FUNCTION static inline __noinline__ LANYARD_HOST_AND_DEVICE

#define LANYARD_AS_BLOCK                                            \
  lanyard::gpu::BlockMemory& memory = lanyard::gpu::block_memory(); \
  lanyard::gpu::BlockTeam team { &memory.slot }

LANYARD_BLOCK_FUNCTION void lanyard_block_start(const MPIX_Device_requests* set, uint64_t first, uint64_t end,
                                                uint32_t which, uint32_t blocks) {
  LANYARD_AS_BLOCK;
  start_set(team, memory.group, set, first, end, which, blocks);
}
LANYARD_BLOCK_FUNCTION void lanyard_block_raise(const MPIX_Device_requests* set, uint32_t blocks) {
  LANYARD_AS_BLOCK;
  raise_set(team, memory.group, set, 0, set->requests, blocks);
}
LANYARD_BLOCK_FUNCTION int lanyard_block_may_store(const MPIX_Device_requests* set, uint64_t i) {
  LANYARD_AS_BLOCK;
  return team.share(team.leads() ? (uint64_t)lanyard_agree_to_store(set, i) : 0) != 0 ? 1 : 0;
}
LANYARD_BLOCK_FUNCTION int lanyard_block_test(const MPIX_Device_requests* set) {
  LANYARD_AS_BLOCK;
  return test_set(team, memory.group, set) ? 1 : 0;
}
LANYARD_BLOCK_FUNCTION void lanyard_block_wait(const MPIX_Device_requests* set, uint32_t blocks) {
  LANYARD_AS_BLOCK;
  wait_for_set(team, memory.group, set, blocks);
}

#undef LANYARD_AS_BLOCK
#undef LANYARD_BLOCK_FUNCTION

#else

LANYARD_DEVICE_FUNCTION void lanyard_block_start(const MPIX_Device_requests* set, uint64_t first, uint64_t end,
                                                 uint32_t which, uint32_t blocks) {
  (void)which, (void)blocks;
  lanyard_start(set, first, end);
}
LANYARD_DEVICE_FUNCTION void lanyard_block_raise(const MPIX_Device_requests* set, uint32_t blocks) {
  (void)blocks;
  lanyard_raise(set, 0, set->requests);
}
LANYARD_DEVICE_FUNCTION int lanyard_block_may_store(const MPIX_Device_requests* set, uint64_t i) {
  return lanyard_agree_to_store(set, i);
}
LANYARD_DEVICE_FUNCTION int lanyard_block_test(const MPIX_Device_requests* set) { return lanyard_test(set); }
LANYARD_DEVICE_FUNCTION void lanyard_block_wait(const MPIX_Device_requests* set, uint32_t blocks) {
  (void)blocks;
  lanyard_wait(set);
}

#endif

#endif /* LANYARD_DETAIL_DEVICE_SET_H_ */
