// Exploring: every reachable state of a world, once (stateful search with 128-bit fingerprints).
#ifndef LANYARD_NICSIM_DETERMINISTIC_EXPLORE_H_
#define LANYARD_NICSIM_DETERMINISTIC_EXPLORE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/world.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

struct ExploreOptions {
  // Takes a step that commutes with all that may come before it at once, and no other beside it. That leaves no finding
  // out where nothing is scarce and nothing fails: allows_reduction().
  bool reduced = false;
  bool breadth_first = false;  // finds the shortest way to trouble first; takes memory for every state
  uint64_t max_states = 200'000'000;
  // Called now and then with the number of states so far, if set.
  std::function<void(uint64_t states)> progress = nullptr;
};

struct Exploration {
  uint64_t states = 0;       // different ones
  uint64_t transitions = 0;  // steps taken from them
  uint64_t ends = 0;         // different states in which nothing is left to do
  // Of the ends: equal where two explorations found the same ones.
  World::Fingerprint ends_digest;
  bool complete = false;  // else max_states stopped it, or a finding
  Report report;          // the first finding
  Schedule schedule;      // that leads to it
};

// Whether ExploreOptions::reduced is right for such worlds.
bool allows_reduction(const WorldOptions& options);

// Explores all schedules of the world from its present state, all faults that its options allow included; stops at the
// first finding. Leaves the world in some state. kUnsupported: the options hold what fingerprints do not tell apart (an
// overflow that is needed, a driver, mail by card).
Result<Exploration> explore(World& world, const ExploreOptions& options);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_EXPLORE_H_
