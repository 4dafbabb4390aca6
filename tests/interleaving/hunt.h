// A hunt runs schedules of one workload, of rising seeds, until one has a fault.
//
// It runs them in a child process: a fault may end it, and what a fault leaves standing goes with it.
#ifndef LANYARD_TESTS_INTERLEAVING_HUNT_H_
#define LANYARD_TESTS_INTERLEAVING_HUNT_H_

#include <cstdint>
#include <string>

#include "tests/interleaving/scheduler.h"
#include "tests/interleaving/workloads.h"

namespace lanyard::interleaving {

struct Prey {
  const Workload* workload = nullptr;
  uint64_t seed = 0;  // of the first schedule
  uint64_t schedules = 1;
};

struct Find {
  std::string fault;  // none where empty
  std::string tail;   // the last steps before it
  std::string word;   // the schedule, for replay()
  uint64_t schedules = 0;
  uint64_t steps = 0;  // of all schedules
};
Find hunt(const Prey& prey);

// One schedule, in this process, every step of it printed where it `tells`.
Outcome replay(const Prey& prey, bool tells);
// A word of a Find: WORKLOAD:SEED. False where it is none.
bool parse(const std::string& word, Prey& prey);

}  // namespace lanyard::interleaving

#endif  // LANYARD_TESTS_INTERLEAVING_HUNT_H_
