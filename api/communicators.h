// Communicators: a name for each communicator that all its members know without talking.
//
// Matching must keep communicators apart, but is local to two processes, and MPI shows no context id. So every
// constructor is followed through the profiling interface: it is collective over a parent, all members see the
// parent's children in the same order, and a child's name is made of its parent's name, its place among the children,
// and its first member. Intra-communicators that descend from MPI_COMM_WORLD or MPI_COMM_SELF have names; others
// (inter-communicators, spawned processes) have none and are refused where matching would need one.
#ifndef LANYARD_API_COMMUNICATORS_H_
#define LANYARD_API_COMMUNICATORS_H_

#include <mpi.h>

#include <cstdint>
#include <map>
#include <vector>

#include "transport/base/status.h"

namespace lanyard::api {

struct CommunicatorName {
  uint64_t id = 0;
  uint64_t children = 0;
  std::vector<uint32_t> world_ranks;  // of its members, made when first asked for
};

class Communicators {
 public:
  // Names MPI_COMM_WORLD and MPI_COMM_SELF.
  Communicators();
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // Before a constructor that is collective over `parent`: the place of its child. 0 where the parent has no name.
  uint64_t next_child(MPI_Comm parent);
  // The same for MPI_Comm_create_group, which only the group's members call.
  uint64_t next_group(MPI_Comm parent, MPI_Group group, int tag);
  // After it: names the child. Does nothing where `place` is 0, or the child is MPI_COMM_NULL or an
  // inter-communicator.
  void name_child(uint64_t place, MPI_Comm child);
  // The same for one that is not to be touched before a request has completed.
  void name_child_later(uint64_t place, MPI_Comm child) { later_[child] = place; }
  // The communicator is about to be freed.
  void forget(MPI_Comm communicator) { later_.erase(communicator); }
  // The name, with world_ranks. kUnsupported where there is none.
  Result<const CommunicatorName*> name_of(MPI_Comm communicator);

 private:
  CommunicatorName* find(MPI_Comm communicator);
  void set(MPI_Comm communicator, uint64_t id);

  int keyval_ = MPI_KEYVAL_INVALID;
  std::map<MPI_Comm, uint64_t> later_;
  std::map<uint64_t, uint64_t> groups_;  // how often MPI_Comm_create_group made a child of this parent, tag and group
};

}  // namespace lanyard::api

#endif  // LANYARD_API_COMMUNICATORS_H_
