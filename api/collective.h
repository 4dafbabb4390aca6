// Collective: a persistent collective of MPI's as a stream sees it: point-to-point requests between its processes,
// under a name of their own, that are matched, started and waited for together, as an exchange where the card can merge
// (transport/core/exchange.h).
//
// Every algorithm is flat: each process sends to each that wants something of it, itself included where that is a copy.
// So a start is one trigger, a wait one wait, whatever the number of processes, and nothing of the host's lies between:
//
//   barrier       an empty message to each other process
//   broadcast     the root's buffer to each other
//   allgather(v)  the own block to each
//   allreduce     the own contribution to each other, which keeps all of them, and combines them on the stream behind
//                 the wait, in the order of ranks: all processes get the same bits, and every run gets them again
//   neighbour alltoall(v,w)  a message an edge
//
// Barriers and allreduces have two sets of messages for starts in turn (transport/core/exchange.h), as what comes
// goes to memory of the collective's own, or nowhere: so no clear-to-sends go with them, and a start takes half the
// time.
//
// A rank of P has up to P-1 messages each way, so 2(P-1)+1 entries at the card where they are merged, with two sets P,
// and P-1 more where senders raise flags (protocol.md, P3); for dozens of processes and more trees take fewer.
#ifndef LANYARD_API_COLLECTIVE_H_
#define LANYARD_API_COLLECTIVE_H_

#include <mpi.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/context.h"
#include "api/request_table.h"
#include "gpu/combination.h"

namespace lanyard::api {

struct Collective {
  std::shared_ptr<const std::string> name;  // "MPI_Allreduce of 4 processes"
  // At least one. Where there are two sets the first half are those of set 0, and the others in the same order.
  std::vector<std::unique_ptr<RequestRecord>> members;
  bool two_sets = false;
  // What the last of the receives is followed by, in an allreduce; of each set.
  struct Arithmetic {
    gpu::Combination combination;  // the contributions of others have no places
    const void* own = nullptr;
    void* into = nullptr;
    uint64_t bytes = 0;
  };
  std::optional<Arithmetic> arithmetic;

  using Members = std::span<const std::unique_ptr<RequestRecord>>;
  size_t sets() const { return two_sets ? 2 : 1; }
  Members members_of(size_t set) const {
    const size_t each = members.size() / sets();
    return Members(members).subspan(set * each, each);
  }
  // Those whose turn it is: of the next start, and then of its wait. Requires that they have been given to a match.
  Members next() const {
    return members_of(two_sets && members_of(0).front()->core->waits > members_of(1).front()->core->waits ? 1 : 0);
  }
};

// What goes to, or comes from, one process.
struct Block {
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype datatype = MPI_DATATYPE_NULL;
};

// Whose messages a collective's are: the processes of a communicator, under a name that the messages of other
// collectives do not have (Communicators::next_collective).
struct CollectiveScope {
  MPI_Comm communicator;
  uint64_t name;
};

// Each of these writes down, in an empty record, what the call with these arguments made; where it cannot be matched,
// why. The MPI has had the call before, and found nothing wrong with it.
void follow_barrier(Context& context, const CollectiveScope& scope, RequestRecord& record)
    LANYARD_REQUIRES(context_locked);
void follow_broadcast(Context& context, const Block& block, int root, const CollectiveScope& scope,
                      RequestRecord& record) LANYARD_REQUIRES(context_locked);
// `from` may be MPI_IN_PLACE.
void follow_allreduce(Context& context, const void* from, const Block& into, MPI_Op operation,
                      const CollectiveScope& scope, RequestRecord& record) LANYARD_REQUIRES(context_locked);
// `to` has a block for each rank. `from` is not looked at where its buffer is MPI_IN_PLACE.
void follow_allgather(Context& context, const char* name, const Block& from, const std::vector<Block>& to,
                      const CollectiveScope& scope, RequestRecord& record) LANYARD_REQUIRES(context_locked);

// One end of an edge of a communicator's topology: a process, and what tells messages between the same two apart.
struct Edge {
  int peer;
  int tag;
};
struct Neighbourhood {
  std::vector<Edge> sources;
  std::vector<Edge> destinations;
};
// In the order of the blocks in the buffers (MPI 4.0 section 8.6). Empty where the communicator has no topology.
Neighbourhood neighbourhood_of(MPI_Comm communicator);
// `from` has a block for each destination, `to` for each source.
void follow_neighbor_alltoall(Context& context, const char* name, const Neighbourhood& neighbours,
                              const std::vector<Block>& from, const std::vector<Block>& to,
                              const CollectiveScope& scope, RequestRecord& record) LANYARD_REQUIRES(context_locked);

// One of MPI's own operations on one of MPI's own datatypes, as a stream combines contributions: it calls no MPI, and
// runs by whichever thread or device runs the stream.
struct Reduction {
  gpu::Operation operation = gpu::Operation::kSum;
  gpu::Element element = gpu::Element::kInt8;
  size_t size = 0;  // of an element in memory, in bytes

  int error_class = MPI_SUCCESS;  // MPI_ERR_OP, MPI_ERR_TYPE: why there is none
  std::string error;
};

// By MPI 4.0 section 6.9.2: predefined operations on the datatypes that they are defined for; also MINLOC and MAXLOC
// (section 6.9.4), of which equal values give the lower index.
Reduction reduction_of(MPI_Op operation, MPI_Datatype datatype);

// A request that is matched by itself: a point-to-point one, or a member of a collective.
template <typename Record, typename Visit>
void for_each_part(Record& record, Visit visit) {
  if (record.collective == nullptr)
    return visit(record);
  for (const auto& member : record.collective->members)
    visit(*member);
}
std::vector<RequestRecord*> parts_of(const std::vector<RequestRecord*>& records);
// "recv, peer 2, tag 7, 16384 B"; "MPI_Barrier of 4 processes".
std::string describe(const RequestRecord& record);
// Why the match of it, which is over, failed, and what it is.
Status match_error(const RequestRecord& record);
// Gives the contributions of others their memory, where the program's own is, if there is arithmetic and they have none
// yet. kUnsupported: the own one and the result are not of the same device or both the host's, or the device has no
// such elements; kExhausted.
Status give_arithmetic(Context& context, RequestRecord& record) LANYARD_REQUIRES(context_locked);

}  // namespace lanyard::api

#endif  // LANYARD_API_COLLECTIVE_H_
