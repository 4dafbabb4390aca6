// Exploring: visits every reachable state of a world once (stateful search, 128-bit fingerprints).
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
  // Takes a step alone if it commutes with all that may come before it. This misses no finding if
  // nothing is scarce and nothing fails: see allows_reduction().
  bool reduced = false;
  bool breadth_first = false;  // finds the shortest schedule to a finding; takes far more memory
  uint64_t max_states = 200'000'000;
  // Called from time to time with the number of states so far. May be empty.
  std::function<void(uint64_t states)> progress = nullptr;
};

struct Exploration {
  uint64_t states = 0;       // distinct states
  uint64_t transitions = 0;  // steps taken from them
  uint64_t ends = 0;         // distinct states without an enabled step
  // Equal if two explorations have found the same ends.
  World::Fingerprint ends_digest;
  bool complete = false;  // false: max_states or a finding stopped it
  Report report;          // the first finding
  Schedule schedule;      // leads to the finding
};

// True if ExploreOptions::reduced is right for worlds with these options.
bool allows_reduction(const WorldOptions& options);

// Explores all schedules from the world's present state, with all faults that its options allow.
// Stops at the first finding. Leaves the world in some state. kUnsupported: fingerprints do not
// cover the options (an overflow in use, a driver, mail by card), or `reduced` is not allowed.
Result<Exploration> explore(World& world, const ExploreOptions& options);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_EXPLORE_H_
