// Communicators: a name for each communicator that all its members know without talking.
//
// Matching must keep communicators apart, but is local to two processes, and MPI shows no context id. So every
// constructor is followed through the profiling interface: it is collective over a parent, all members see the
// parent's children in the same order, and a child's name is made of its parent's name, its place among the children,
// and its first member. Constructors that fail do not count: they fail in the process that gave the bad argument,
// before it talks to anybody, and the others wait for the call that follows. Intra-communicators that descend from
// MPI_COMM_WORLD or MPI_COMM_SELF have names. Others have none and are refused where matching would need one:
// inter-communicators and what is merged from them, whose two groups have no parent in common; those of other worlds
// (MPI_Comm_spawn, MPI_Comm_accept, ...); and those of MPI_Comm_create_from_group, which have no parent.
#ifndef LANYARD_API_COMMUNICATORS_H_
#define LANYARD_API_COMMUNICATORS_H_

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "api/context_lock.h"
#include "transport/base/status.h"

namespace lanyard::api {

// A communicator for those who outlive it and may have to call its error handler: MPI_COMM_WORLD once it has been
// freed.
class CommunicatorRef {
 public:
  CommunicatorRef() = default;  // of MPI_COMM_WORLD
  explicit CommunicatorRef(MPI_Comm communicator) : handle_(std::make_shared<MPI_Comm>(communicator)) {}
  operator MPI_Comm() const LANYARD_REQUIRES(context_locked) { return handle_ == nullptr ? MPI_COMM_WORLD : *handle_; }
  // For this one and all its copies.
  void freed() LANYARD_REQUIRES(context_locked) { *handle_ = MPI_COMM_WORLD; }
  friend bool same(const CommunicatorRef& a, const CommunicatorRef& b) { return a.handle_ == b.handle_; }

 private:
  std::shared_ptr<MPI_Comm> handle_;
};

// What is known of one communicator.
struct CommunicatorName {
  uint64_t id = 0;  // 0: none
  uint64_t children = 0;
  uint64_t collectives = 0;  // persistent ones
  int rank = 0;              // this process's in it, and its size, once `ref` is there
  int size = 0;
  std::optional<CommunicatorRef> ref;   // made for its first request
  std::map<int, uint32_t> world_ranks;  // of the members that were asked for
};

class Communicators {
 public:
  // Names MPI_COMM_WORLD and MPI_COMM_SELF.
  Communicators();
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // A constructor that is collective over `parent` has succeeded: counts the child, unless the parent has no name. Its
  // own name, which inter-communicators do not get, is made once somebody asks: most never have a persistent request,
  // and the child of MPI_Comm_idup is not to be touched before a request has completed.
  void add_child(MPI_Comm parent, MPI_Comm child);
  // The same for MPI_Comm_create_group, which only the group's members call.
  void add_group(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm child);

  // What has to be kept while MPI_Comm_free runs, without the lock: how others refer to the communicator, and its place
  // where it has no name yet.
  struct Leaving {
    std::optional<CommunicatorRef> ref;
    std::optional<uint64_t> place;
  };
  // Before the communicator is freed, and afterwards, with whether it was.
  Leaving leave(MPI_Comm communicator);
  void left(MPI_Comm communicator, Leaving leaving, bool freed) LANYARD_REQUIRES(context_locked);

  // What is known of a request's communicator: its `id` is 0 where matching cannot use it. Valid until it is freed.
  CommunicatorName& of_request(MPI_Comm communicator);
  // A name for the messages of a persistent collective that has been made on it, as if they had a communicator of their
  // own: the same on all processes. 0 where it has none itself.
  uint64_t next_collective(MPI_Comm communicator);
  // A member's rank in MPI_COMM_WORLD; kUnsupported where it is not there. Requires 0 <= member < the size.
  Result<uint32_t> world_rank(CommunicatorName& name, int member) LANYARD_REQUIRES(context_locked);

 private:
  CommunicatorName* find(MPI_Comm communicator);
  CommunicatorName* set(MPI_Comm communicator, uint64_t id);
  uint64_t next_child(MPI_Comm parent);
  void name_child(uint64_t place, MPI_Comm child);
  // Of a member of a group; MPI_UNDEFINED.
  int translate(MPI_Comm communicator, int member) const;

  int keyval_ = MPI_KEYVAL_INVALID;
  MPI_Group world_ = MPI_GROUP_NULL;
  CommunicatorName self_;  // of MPI_COMM_SELF, whose attributes MPI deletes before everything ends
  std::unordered_map<MPI_Comm, uint64_t> unnamed_;  // the places of children among their siblings
  std::map<uint64_t, uint64_t> groups_;  // how often MPI_Comm_create_group made a child of this parent, tag and group
  std::unordered_map<MPI_Comm, CommunicatorRef> refs_;  // by handle, for leave() to find without asking the MPI
};

}  // namespace lanyard::api

#endif  // LANYARD_API_COMMUNICATORS_H_
