// Mutants: mistakes in who drives, who sleeps and who wakes, each behind a switch in the copies (mutants.txt), so that
// it is seen that the schedules of a workload find such.
#ifndef LANYARD_TESTS_INTERLEAVING_MUTANTS_H_
#define LANYARD_TESTS_INTERLEAVING_MUTANTS_H_

#include <cstdint>
#include <span>

namespace lanyard::interleaving {

struct Mutant {
  uint32_t number;       // of its switch
  const char* mistake;   // what the code does instead
  const char* place;     // the function
  const char* workload;  // one that finds it
};
std::span<const Mutant> mutants();

}  // namespace lanyard::interleaving

#endif  // LANYARD_TESTS_INTERLEAVING_MUTANTS_H_
