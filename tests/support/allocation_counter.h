// Counts the allocations of a test program. Linking allocation_counter.cc replaces every operator
// new and delete, unless a sanitizer has replaced them already.
#ifndef LANYARD_TESTS_ALLOCATION_COUNTER_H_
#define LANYARD_TESTS_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace lanyard {

bool allocations_are_counted();

// Calls of any form of operator new so far, by all threads.
uint64_t allocation_count();

}  // namespace lanyard

#endif  // LANYARD_TESTS_ALLOCATION_COUNTER_H_
