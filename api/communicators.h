// Communicators: gives each communicator a name that all its members compute without communication.
//
// Matching needs the name to keep communicators apart: it involves two processes only, and MPI does
// not show its context ids. Lanyard intercepts every constructor of communicators. A constructor is
// collective over a parent, and all members see the parent's children in the same order. A child's
// name is computed from its parent's name, its number among the children, and its first member.
// A constructor that fails is not counted: it fails before it communicates, in the process that
// passed the bad argument, and the other processes wait for the next call.
//
// Intra-communicators that descend from MPI_COMM_WORLD or MPI_COMM_SELF have names. Others have
// none, and requests on them are not matched:
// - inter-communicators, and communicators merged from them: their groups have no common parent
// - communicators with other worlds (MPI_Comm_spawn, MPI_Comm_accept, ...)
// - those of MPI_Comm_create_from_group, which have no parent
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

// A reference to a communicator, to call its error handler. Once the communicator is freed, it
// refers to MPI_COMM_WORLD.
class CommunicatorRef {
 public:
  CommunicatorRef() = default;  // MPI_COMM_WORLD
  explicit CommunicatorRef(MPI_Comm communicator) : handle_(std::make_shared<MPI_Comm>(communicator)) {}
  operator MPI_Comm() const LANYARD_REQUIRES(context_locked) { return handle_ == nullptr ? MPI_COMM_WORLD : *handle_; }
  // Makes this reference and all its copies refer to MPI_COMM_WORLD.
  void freed() LANYARD_REQUIRES(context_locked) { *handle_ = MPI_COMM_WORLD; }
  friend bool same(const CommunicatorRef& a, const CommunicatorRef& b) { return a.handle_ == b.handle_; }

 private:
  std::shared_ptr<MPI_Comm> handle_;
};

// Lanyard's record of one communicator.
struct CommunicatorName {
  uint64_t id = 0;                      // the name; 0: it has none
  uint64_t children = 0;                // how many were made
  uint64_t collectives = 0;             // how many persistent collectives were made
  int rank = 0;                         // of this process in it; valid if `ref` is set
  int size = 0;                         // likewise
  std::optional<CommunicatorRef> ref;   // set for the first request
  std::map<int, uint32_t> world_ranks;  // a cache: member to rank in MPI_COMM_WORLD
};

class Communicators {
 public:
  // Names MPI_COMM_WORLD and MPI_COMM_SELF.
  Communicators();
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // Call it after a constructor that is collective over `parent`. Counts the child, unless the
  // parent has no name. The child's name is computed at first use: most communicators never have a
  // persistent request, and the child of MPI_Comm_idup cannot be used before it is complete.
  void add_child(MPI_Comm parent, MPI_Comm child);
  // The same for MPI_Comm_create_group, which is collective over the group only.
  void add_group(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm child);

  // State of a communicator while MPI_Comm_free runs without the lock.
  struct Leaving {
    std::optional<CommunicatorRef> ref;
    std::optional<uint64_t> place;  // if it has no name yet
  };
  // Call leave() before MPI_Comm_free, and left() after it. `freed`: whether it has succeeded.
  Leaving leave(MPI_Comm communicator);
  void left(MPI_Comm communicator, Leaving leaving, bool freed) LANYARD_REQUIRES(context_locked);

  // The record of a request's communicator, valid until the communicator is freed. Its `id` is 0 if
  // requests on it cannot be matched.
  CommunicatorName& of_request(MPI_Comm communicator);
  // Returns a new name for the messages of a persistent collective on this communicator, as if they
  // had their own. All processes get the same name. 0: the communicator has no name.
  uint64_t next_collective(MPI_Comm communicator);
  // A member's rank in MPI_COMM_WORLD. kUnsupported: it is not a member of that. Requires
  // 0 <= member < name.size.
  Result<uint32_t> world_rank(CommunicatorName& name, int member) LANYARD_REQUIRES(context_locked);

 private:
  CommunicatorName* find(MPI_Comm communicator);
  CommunicatorName* set(MPI_Comm communicator, uint64_t id);
  uint64_t next_child(MPI_Comm parent);
  void name_child(uint64_t place, MPI_Comm child);
  // A member's rank in MPI_COMM_WORLD, or MPI_UNDEFINED.
  int translate(MPI_Comm communicator, int member) const;

  int keyval_ = MPI_KEYVAL_INVALID;
  MPI_Group world_ = MPI_GROUP_NULL;
  CommunicatorName self_;  // MPI_COMM_SELF's: no attribute, as MPI deletes its attributes too early
  // Hashes of the parent's name and the child's number, for children that have no name yet.
  std::unordered_map<MPI_Comm, uint64_t> unnamed_;
  // How many children MPI_Comm_create_group has made, by a hash of parent, tag and group.
  std::map<uint64_t, uint64_t> groups_;
  std::unordered_map<MPI_Comm, CommunicatorRef> refs_;  // for leave(), without a call of the MPI
};

}  // namespace lanyard::api

#endif  // LANYARD_API_COMMUNICATORS_H_
