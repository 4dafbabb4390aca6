// Workloads: small programs of two NICs and a few threads, each of which meets every promise of the NIC's and the
// wire's contract that it looks at (nic.h, wire.h), in whatever order its threads run; and one of a lock.
#ifndef LANYARD_TESTS_INTERLEAVING_WORKLOADS_H_
#define LANYARD_TESTS_INTERLEAVING_WORKLOADS_H_

#include <span>
#include <string>

namespace lanyard::interleaving {

struct Workload {
  const char* name;
  // Whether it may need a nap of the NIC's own thread: doorbell words and work that is due when posted wake nobody who
  // naps. Elsewhere whoever does something sees to it, or wakes who does.
  bool naps;
  void (*run)();  // as the first thread of a schedule
};

std::span<const Workload> workloads();
// Null where there is none of that name.
const Workload* find_workload(const std::string& name);

}  // namespace lanyard::interleaving

#endif  // LANYARD_TESTS_INTERLEAVING_WORKLOADS_H_
