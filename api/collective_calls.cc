// The persistent collectives that can be matched: the MPI makes the request, and Lanyard
// records the call. They have Lanyard_ names, and MPI 4's names if the MPI has them, also
// with large counts.

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "api/collective.h"
#include "api/context.h"
#include "api/datatype.h"
#include "api/errors.h"
#include <lanyard/lanyard.h>

#if MPI_VERSION < 4 && defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

namespace {

using lanyard::api::Block;
using lanyard::api::CollectiveScope;
using lanyard::api::Context;
using lanyard::api::context_locked;
using lanyard::api::ContextLock;
using lanyard::api::Neighbourhood;
using lanyard::api::neighbourhood_of;
using lanyard::api::RequestRecord;

// The result of the MPI's call: its code, communicator and request.
struct Made {
  int code;
  MPI_Comm communicator;
  const MPI_Request* request;
};

bool all_named(const std::vector<MPI_Datatype>& datatypes) {
  return std::all_of(datatypes.begin(), datatypes.end(), lanyard::api::is_named);
}

// Counts the collective, and fills its record by follow(context, scope, record). That is done only
// when the record is needed, but at once if a datatype is not predefined: the program may free it.
template <typename Follow>
int remember(const Made& made, const std::vector<MPI_Datatype>& datatypes, Follow follow) {
  Context* context = Context::get();
  if (made.code != MPI_SUCCESS || context == nullptr)
    return made.code;
  int inter = 0;
  PMPI_Comm_test_inter(made.communicator, &inter);
  const ContextLock lock(*context);
  RequestRecord& record = context->requests().insert(*made.request);
  if (inter != 0) {
    record.communicator = *context->communicators().of_request(made.communicator).ref;
    record.refuse(MPI_ERR_UNSUPPORTED_OPERATION, "collectives of an inter-communicator cannot be matched");
    return made.code;
  }
  const CollectiveScope scope{made.communicator, context->communicators().next_collective(made.communicator)};
  if (!all_named(datatypes)) {
    follow(*context, scope, record);
    return made.code;
  }
  record.collective_over = made.communicator;
  record.make_collective = [=](RequestRecord& empty)
                               LANYARD_REQUIRES(context_locked) { follow(*context, scope, empty); };
  return made.code;
}

// 0 for an inter-communicator: its arrays have the size of the remote group, and are not read.
size_t size_of(MPI_Comm communicator) {
  int size = 0, inter = 0;
  PMPI_Comm_size(communicator, &size);
  PMPI_Comm_test_inter(communicator, &inter);
  return inter != 0 ? 0 : static_cast<size_t>(size);
}

MPI_Aint extent_of(MPI_Datatype datatype) {
  MPI_Aint lower = 0, extent = 0;
  PMPI_Type_get_extent(datatype, &lower, &extent);
  return extent;
}

// The block at an offset of `bytes` in the buffer. The buffer may be MPI_BOTTOM, so it
// adds integers.
Block block_at(const void* buffer, MPI_Aint bytes, MPI_Count count, MPI_Datatype datatype) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(buffer) + static_cast<uintptr_t>(bytes);
  return {reinterpret_cast<void*>(begin), count, datatype};
}

// Contiguous blocks of `count` elements.
std::vector<Block> equal_blocks(const void* buffer, size_t blocks, MPI_Count count, MPI_Datatype datatype) {
  const MPI_Aint bytes = static_cast<MPI_Aint>(count) * extent_of(datatype);
  std::vector<Block> result;
  for (size_t i = 0; i < blocks; ++i)
    result.push_back(block_at(buffer, static_cast<MPI_Aint>(i) * bytes, count, datatype));
  return result;
}

template <typename Count, typename Displacement>
std::vector<Block> blocks(const void* buffer, size_t blocks, const Count counts[], const Displacement displacements[],
                          MPI_Datatype datatype) {
  const MPI_Aint extent = extent_of(datatype);
  std::vector<Block> result;
  for (size_t i = 0; i < blocks; ++i)
    result.push_back(block_at(buffer, displacements[i] * extent, counts[i], datatype));
  return result;
}

// With displacements in bytes.
template <typename Count>
std::vector<Block> blocks(const void* buffer, size_t blocks, const Count counts[], const MPI_Aint displacements[],
                          const MPI_Datatype datatypes[]) {
  std::vector<Block> result;
  for (size_t i = 0; i < blocks; ++i)
    result.push_back(block_at(buffer, displacements[i], counts[i], datatypes[i]));
  return result;
}

// Rejects communicators without a topology, for which MPICH 4.0 reads uninitialised neighbour
// counts. The MPI reports all other errors.
int check_topology(const char* call, MPI_Comm communicator) {
  if (communicator == MPI_COMM_NULL)
    return MPI_SUCCESS;
  int topology = MPI_UNDEFINED;
  const int code = PMPI_Topo_test(communicator, &topology);
  if (code != MPI_SUCCESS || topology != MPI_UNDEFINED)
    return code;
  return lanyard::api::raise(call, communicator, MPI_ERR_TOPOLOGY,
                             "the communicator has no topology: use one of MPI_Cart_create or its like");
}

// Each of these gets the result of the MPI's call, and its arguments.

int barrier(const Made& made) { return remember(made, {}, lanyard::api::follow_barrier); }

int broadcast(const Made& made, const Block& block, int root) {
  return remember(made, {block.datatype},
                  [=](Context& context, const CollectiveScope& scope, RequestRecord& record)
                      LANYARD_REQUIRES(context_locked) { follow_broadcast(context, block, root, scope, record); });
}

// The program may free its own operation: the record rejects it anyway, even if the
// handle is stale.
int allreduce(const Made& made, const void* from, const Block& to, MPI_Op operation) {
  return remember(made, {to.datatype},
                  [=](Context& context, const CollectiveScope& scope, RequestRecord& record) LANYARD_REQUIRES(
                      context_locked) { follow_allreduce(context, from, to, operation, scope, record); });
}

int allgather(const Made& made, const Block& from, const Block& to) {
  return remember(
      made, {from.buffer == MPI_IN_PLACE ? to.datatype : from.datatype, to.datatype},
      [=](Context& context, const CollectiveScope& scope, RequestRecord& record) LANYARD_REQUIRES(context_locked) {
        const std::vector<Block> all = equal_blocks(to.buffer, size_of(scope.communicator), to.count, to.datatype);
        follow_allgather(context, "MPI_Allgather", from, all, scope, record);
      });
}

template <typename Count, typename Displacement>
int allgatherv(const Made& made, const Block& from, const void* to, const Count to_counts[],
               const Displacement displacements[], MPI_Datatype to_type) {
  if (made.code != MPI_SUCCESS)
    return made.code;
  const std::vector<Block> all = blocks(to, size_of(made.communicator), to_counts, displacements, to_type);
  return remember(made, {from.buffer == MPI_IN_PLACE ? to_type : from.datatype, to_type},
                  [=](Context& context, const CollectiveScope& scope, RequestRecord& record) LANYARD_REQUIRES(
                      context_locked) { follow_allgather(context, "MPI_Allgatherv", from, all, scope, record); });
}

int neighbor_alltoall(const Made& made, const Block& from, const Block& to) {
  return remember(
      made, {from.datatype, to.datatype},
      [=](Context& context, const CollectiveScope& scope, RequestRecord& record) LANYARD_REQUIRES(context_locked) {
        const Neighbourhood near = neighbourhood_of(scope.communicator);
        follow_neighbor_alltoall(context, "MPI_Neighbor_alltoall", near,
                                 equal_blocks(from.buffer, near.destinations.size(), from.count, from.datatype),
                                 equal_blocks(to.buffer, near.sources.size(), to.count, to.datatype), scope, record);
      });
}

// `Types`: one datatype, or an array of one for each block.
template <typename Count, typename Displacement, typename Types>
int neighbor_alltoallv(const Made& made, const char* name, const void* from, const Count from_counts[],
                       const Displacement from_displacements[], Types from_types, const void* to,
                       const Count to_counts[], const Displacement to_displacements[], Types to_types) {
  if (made.code != MPI_SUCCESS)
    return made.code;
  const Neighbourhood near = neighbourhood_of(made.communicator);
  const std::vector<Block> out = blocks(from, near.destinations.size(), from_counts, from_displacements, from_types);
  const std::vector<Block> in = blocks(to, near.sources.size(), to_counts, to_displacements, to_types);
  std::vector<MPI_Datatype> datatypes;
  for (const std::vector<Block>* side : {&out, &in})
    for (const Block& block : *side)
      datatypes.push_back(block.datatype);
  return remember(made, datatypes,
                  [=](Context& context, const CollectiveScope& scope, RequestRecord& record) LANYARD_REQUIRES(
                      context_locked) { follow_neighbor_alltoall(context, name, near, out, in, scope, record); });
}

#if MPI_VERSION < 4 && !defined(OPEN_MPI)
// This MPI has no persistent collectives, so the calls fail.
#define LANYARD_MISSING(name)                                                                        \
  template <typename... Arguments>                                                                   \
  int missing_##name(const Arguments&...) {                                                          \
    return lanyard::api::raise("MPIX_" #name, MPI_COMM_WORLD, MPI_ERR_UNSUPPORTED_OPERATION,         \
                               "this MPI has no persistent collectives: use Open MPI, or an MPI 4"); \
  }
LANYARD_MISSING(Barrier_init)
LANYARD_MISSING(Bcast_init)
LANYARD_MISSING(Allreduce_init)
LANYARD_MISSING(Allgather_init)
LANYARD_MISSING(Allgatherv_init)
LANYARD_MISSING(Neighbor_alltoall_init)
LANYARD_MISSING(Neighbor_alltoallv_init)
LANYARD_MISSING(Neighbor_alltoallw_init)
#endif

}  // namespace

extern "C" {

// `of_mpi` is the prefix of the MPI's own names; `suffix` is that of names with large counts.
#define LANYARD_MADE(call, ...) \
  { call(__VA_ARGS__, communicator, info, request), communicator, request }
#define LANYARD_CHECK_TOPOLOGY(name)                                                    \
  if (const int code = check_topology("MPI_" #name, communicator); code != MPI_SUCCESS) \
  return code
#define LANYARD_COLLECTIVES(prefix, of_mpi, suffix, Count, Displacement)                                               \
  int prefix##_Bcast_init##suffix(void* buffer, Count count, MPI_Datatype datatype, int root, MPI_Comm communicator,   \
                                  MPI_Info info, MPI_Request* request) {                                               \
    return broadcast(LANYARD_MADE(of_mpi##_Bcast_init##suffix, buffer, count, datatype, root),                         \
                     {buffer, count, datatype}, root);                                                                 \
  }                                                                                                                    \
  int prefix##_Allreduce_init##suffix(const void* from, void* to, Count count, MPI_Datatype datatype,                  \
                                      MPI_Op operation, MPI_Comm communicator, MPI_Info info, MPI_Request* request) {  \
    return allreduce(LANYARD_MADE(of_mpi##_Allreduce_init##suffix, from, to, count, datatype, operation), from,        \
                     {to, count, datatype}, operation);                                                                \
  }                                                                                                                    \
  int prefix##_Allgather_init##suffix(const void* from, Count from_count, MPI_Datatype from_type, void* to,            \
                                      Count to_count, MPI_Datatype to_type, MPI_Comm communicator, MPI_Info info,      \
                                      MPI_Request* request) {                                                          \
    return allgather(                                                                                                  \
        LANYARD_MADE(of_mpi##_Allgather_init##suffix, from, from_count, from_type, to, to_count, to_type),             \
        {const_cast<void*>(from), from_count, from_type}, {to, to_count, to_type});                                    \
  }                                                                                                                    \
  int prefix##_Allgatherv_init##suffix(const void* from, Count from_count, MPI_Datatype from_type, void* to,           \
                                       const Count to_counts[], const Displacement displacements[],                    \
                                       MPI_Datatype to_type, MPI_Comm communicator, MPI_Info info,                     \
                                       MPI_Request* request) {                                                         \
    return allgatherv(LANYARD_MADE(of_mpi##_Allgatherv_init##suffix, from, from_count, from_type, to, to_counts,       \
                                   displacements, to_type),                                                            \
                      {const_cast<void*>(from), from_count, from_type}, to, to_counts, displacements, to_type);        \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoall_init##suffix(const void* from, Count from_count, MPI_Datatype from_type, void* to,    \
                                              Count to_count, MPI_Datatype to_type, MPI_Comm communicator,             \
                                              MPI_Info info, MPI_Request* request) {                                   \
    LANYARD_CHECK_TOPOLOGY(Neighbor_alltoall_init##suffix);                                                            \
    return neighbor_alltoall(                                                                                          \
        LANYARD_MADE(of_mpi##_Neighbor_alltoall_init##suffix, from, from_count, from_type, to, to_count, to_type),     \
        {const_cast<void*>(from), from_count, from_type}, {to, to_count, to_type});                                    \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoallv_init##suffix(                                                                        \
      const void* from, const Count from_counts[], const Displacement from_displacements[], MPI_Datatype from_type,    \
      void* to, const Count to_counts[], const Displacement to_displacements[], MPI_Datatype to_type,                  \
      MPI_Comm communicator, MPI_Info info, MPI_Request* request) {                                                    \
    LANYARD_CHECK_TOPOLOGY(Neighbor_alltoallv_init##suffix);                                                           \
    return neighbor_alltoallv(LANYARD_MADE(of_mpi##_Neighbor_alltoallv_init##suffix, from, from_counts,                \
                                           from_displacements, from_type, to, to_counts, to_displacements, to_type),   \
                              "MPI_Neighbor_alltoallv", from, from_counts, from_displacements, from_type, to,          \
                              to_counts, to_displacements, to_type);                                                   \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoallw_init##suffix(                                                                        \
      const void* from, const Count from_counts[], const MPI_Aint from_displacements[],                                \
      const MPI_Datatype from_types[], void* to, const Count to_counts[], const MPI_Aint to_displacements[],           \
      const MPI_Datatype to_types[], MPI_Comm communicator, MPI_Info info, MPI_Request* request) {                     \
    LANYARD_CHECK_TOPOLOGY(Neighbor_alltoallw_init##suffix);                                                           \
    return neighbor_alltoallv(LANYARD_MADE(of_mpi##_Neighbor_alltoallw_init##suffix, from, from_counts,                \
                                           from_displacements, from_types, to, to_counts, to_displacements, to_types), \
                              "MPI_Neighbor_alltoallw", from, from_counts, from_displacements, from_types, to,         \
                              to_counts, to_displacements, to_types);                                                  \
  }

#define LANYARD_BARRIER(prefix, of_mpi)                                                          \
  int prefix##_Barrier_init(MPI_Comm communicator, MPI_Info info, MPI_Request* request) {        \
    return barrier({of_mpi##_Barrier_init(communicator, info, request), communicator, request}); \
  }

#if MPI_VERSION >= 4
LANYARD_BARRIER(Lanyard, PMPI)
LANYARD_BARRIER(MPI, PMPI)
LANYARD_COLLECTIVES(Lanyard, PMPI, , int, int)
LANYARD_COLLECTIVES(MPI, PMPI, , int, int)
LANYARD_COLLECTIVES(MPI, PMPI, _c, MPI_Count, MPI_Aint)
#elif defined(OPEN_MPI)
LANYARD_BARRIER(Lanyard, PMPIX)
LANYARD_COLLECTIVES(Lanyard, PMPIX, , int, int)
#else
LANYARD_BARRIER(Lanyard, missing)
LANYARD_COLLECTIVES(Lanyard, missing, , int, int)
#endif

}  // extern "C"
