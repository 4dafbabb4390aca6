// Collective: an MPI persistent collective as point-to-point requests between its processes, its
// members. They are matched, started and waited for together, as an exchange if the card supports
// it (transport/core/exchange.h).
//
// Every algorithm is flat: each process sends directly to each process that needs its data, to
// itself where that is a copy. So a start is one ring and a wait is one wait, for any number of
// processes, and the host does nothing between them:
//
//   barrier       an empty message to each other process
//   broadcast     the root's buffer to each other process
//   allgather(v)  the own block to each process
//   allreduce     the own contribution to each other process. After the wait the stream of each
//                 process combines all contributions in rank order: every process and every run
//                 gets the same bits.
//   neighbour alltoall(v,w)  one message per edge
//
// Barriers and allreduces receive into private memory, or receive nothing. So they use two sets
// of messages in turn (transport/core/exchange.h), which need no clear-to-sends: a start takes
// half the time.
//
// Among P ranks each has up to P-1 messages in each direction. A start of the exchange then takes
// 2(P-1)+1 entries of the card, with two sets P, and P-1 more with sender-flag (protocol.md, P3).
// From dozens of processes on, trees would take fewer.
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
#include "gpu/packing.h"

namespace lanyard::api {

struct Collective {
  std::shared_ptr<const std::string> name;  // "MPI_Allreduce of 4 processes"
  // At least one. With two sets the first half is set 0; set 1 has the same order.
  std::vector<std::unique_ptr<RequestRecord>> members;
  bool two_sets = false;
  // The combination of an allreduce, which follows the wait for each set.
  struct Arithmetic {
    gpu::Combination combination;  // without addresses for contributions of other ranks
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
  // The set of the next start, and then of its wait. Requires that the members have core requests.
  Members next() const {
    return members_of(two_sets && members_of(0).front()->core->waits > members_of(1).front()->core->waits ? 1 : 0);
  }
};

// One end of an edge of a communicator's topology: a process, and a tag that distinguishes edges
// between the same two processes.
struct Edge {
  int peer;
  int tag;
};
struct Neighbourhood {
  std::vector<Edge> sources;
  std::vector<Edge> destinations;
};
// In the order of the blocks in the buffers (MPI 4.0 section 8.6). Empty without a topology.
Neighbourhood neighbourhood_of(MPI_Comm communicator);

// A predefined MPI operation on a predefined datatype, in a form that a stream can run: without
// calls of MPI, on any thread or device that runs the stream.
struct Reduction {
  gpu::Operation operation = gpu::Operation::kSum;
  gpu::Element element = gpu::Element::kInt8;
  size_t size = 0;  // of an element in memory, in bytes

  int error_class = MPI_SUCCESS;  // MPI_ERR_OP or MPI_ERR_TYPE if there is no such reduction
  std::string error;
};

// Follows MPI 4.0 section 6.9.2: predefined operations on the datatypes that they are defined for.
// Also MINLOC and MAXLOC (section 6.9.4), which give the lowest index of equal values.
Reduction reduction_of(MPI_Op operation, MPI_Datatype datatype);

// Visits each request that is matched by itself: a point-to-point request, or a
// collective's members.
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
// After a match has ended: the first error, with a description of the request; or ok().
Status match_error(const RequestRecord& record);
// Before a match: if the collective is an allreduce without memory for the contributions of other
// ranks, allocates it on the device of the program's buffers. kUnsupported: the two buffers are on
// different devices, or the device lacks the element type. kExhausted: no memory.
Status give_arithmetic(Context& context, RequestRecord& record) LANYARD_REQUIRES(context_locked);

}  // namespace lanyard::api

#endif  // LANYARD_API_COLLECTIVE_H_
