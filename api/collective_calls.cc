// The persistent collectives of MPI that can be matched: made by the MPI, remembered by Lanyard. They have MPI 4's
// names where the MPI has those, with large counts too, and MPIX_ names everywhere, as in Open MPI's extension of
// MPI 3.

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "api/collective.h"
#include "api/context.h"
#include <lanyard/lanyard.h>

#if MPI_VERSION < 4
#include <mpi-ext.h>
#endif

namespace {

using lanyard::api::Block;
using lanyard::api::Context;
using lanyard::api::ContextLock;
using lanyard::api::Neighbourhood;
using lanyard::api::RequestRecord;

// Of an inter-communicator the arrays of a call are as long as the other group, and nothing of it is looked at.
template <typename Follow>
int remember(int code, MPI_Comm communicator, const MPI_Request* request, Follow follow) {
  Context* context = Context::get();
  if (code != MPI_SUCCESS || context == nullptr)
    return code;
  int inter = 0;
  PMPI_Comm_test_inter(communicator, &inter);
  const ContextLock lock(*context);
  RequestRecord& record = context->requests().insert(*request);
  if (inter == 0) {
    follow(*context, record);
    return code;
  }
  record.communicator = *context->communicators().of_request(communicator).ref;
  record.unusable_class = MPI_ERR_UNSUPPORTED_OPERATION;
  record.unusable = "collectives of an inter-communicator cannot be matched";
  return code;
}

size_t size_of(MPI_Comm communicator) {
  int size = 0;
  PMPI_Comm_size(communicator, &size);
  return static_cast<size_t>(size);
}

MPI_Aint extent_of(MPI_Datatype datatype) {
  MPI_Aint lower = 0, extent = 0;
  PMPI_Type_get_extent(datatype, &lower, &extent);
  return extent;
}

// A block of so many elements, so many bytes behind the buffer's begin: MPI_BOTTOM is one, so addresses are numbers.
Block block_at(const void* buffer, MPI_Aint bytes, MPI_Count count, MPI_Datatype datatype) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(buffer) + static_cast<uintptr_t>(bytes);
  return {reinterpret_cast<void*>(begin), count, datatype};
}

// `count` elements each, one behind the other.
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

// Each of these has the code that the MPI's call returned, and the call's arguments.

int barrier(int code, MPI_Comm communicator, const MPI_Request* request) {
  return remember(code, communicator, request,
                  [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    follow_barrier(context, communicator, record);
                  });
}

int broadcast(int code, const Block& block, int root, MPI_Comm communicator, const MPI_Request* request) {
  return remember(code, communicator, request,
                  [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    follow_broadcast(context, block, root, communicator, record);
                  });
}

int allreduce(int code, const void* from, const Block& to, MPI_Op operation, MPI_Comm communicator,
              const MPI_Request* request) {
  return remember(code, communicator, request,
                  [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    follow_allreduce(context, from, to, operation, communicator, record);
                  });
}

int allgather(int code, const Block& from, const Block& to, MPI_Comm communicator, const MPI_Request* request) {
  return remember(code, communicator, request,
                  [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    follow_allgather(context, "MPI_Allgather", from,
                                     equal_blocks(to.buffer, size_of(communicator), to.count, to.datatype),
                                     communicator, record);
                  });
}

template <typename Count, typename Displacement>
int allgatherv(int code, const Block& from, const void* to, const Count to_counts[], const Displacement displacements[],
               MPI_Datatype to_type, MPI_Comm communicator, const MPI_Request* request) {
  return remember(code, communicator, request,
                  [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    follow_allgather(context, "MPI_Allgatherv", from,
                                     blocks(to, size_of(communicator), to_counts, displacements, to_type), communicator,
                                     record);
                  });
}

int neighbor_alltoall(int code, const Block& from, const Block& to, MPI_Comm communicator, const MPI_Request* request) {
  return remember(code, communicator, request,
                  [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    const Neighbourhood near = lanyard::api::neighbourhood_of(communicator);
                    follow_neighbor_alltoall(
                        context, "MPI_Neighbor_alltoall", near,
                        equal_blocks(from.buffer, near.destinations.size(), from.count, from.datatype),
                        equal_blocks(to.buffer, near.sources.size(), to.count, to.datatype), communicator, record);
                  });
}

// `Types`: one datatype, or one for each.
template <typename Count, typename Displacement, typename Types>
int neighbor_alltoallv(int code, const char* name, const void* from, const Count from_counts[],
                       const Displacement from_displacements[], Types from_types, const void* to,
                       const Count to_counts[], const Displacement to_displacements[], Types to_types,
                       MPI_Comm communicator, const MPI_Request* request) {
  return remember(code, communicator, request,
                  [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    const Neighbourhood near = lanyard::api::neighbourhood_of(communicator);
                    follow_neighbor_alltoall(
                        context, name, near,
                        blocks(from, near.destinations.size(), from_counts, from_displacements, from_types),
                        blocks(to, near.sources.size(), to_counts, to_displacements, to_types), communicator, record);
                  });
}

}  // namespace

extern "C" {

// `of_mpi` begins the names by which the MPI has the calls; `suffix` ends those with large counts.
#define LANYARD_COLLECTIVES(prefix, of_mpi, suffix, Count, Displacement)                                               \
  int prefix##_Bcast_init##suffix(void* buffer, Count count, MPI_Datatype datatype, int root, MPI_Comm communicator,   \
                                  MPI_Info info, MPI_Request* request) {                                               \
    return broadcast(of_mpi##_Bcast_init##suffix(buffer, count, datatype, root, communicator, info, request),          \
                     {buffer, count, datatype}, root, communicator, request);                                          \
  }                                                                                                                    \
  int prefix##_Allreduce_init##suffix(const void* from, void* to, Count count, MPI_Datatype datatype,                  \
                                      MPI_Op operation, MPI_Comm communicator, MPI_Info info, MPI_Request* request) {  \
    return allreduce(                                                                                                  \
        of_mpi##_Allreduce_init##suffix(from, to, count, datatype, operation, communicator, info, request), from,      \
        {to, count, datatype}, operation, communicator, request);                                                      \
  }                                                                                                                    \
  int prefix##_Allgather_init##suffix(const void* from, Count from_count, MPI_Datatype from_type, void* to,            \
                                      Count to_count, MPI_Datatype to_type, MPI_Comm communicator, MPI_Info info,      \
                                      MPI_Request* request) {                                                          \
    return allgather(of_mpi##_Allgather_init##suffix(from, from_count, from_type, to, to_count, to_type, communicator, \
                                                     info, request),                                                   \
                     {const_cast<void*>(from), from_count, from_type}, {to, to_count, to_type}, communicator,          \
                     request);                                                                                         \
  }                                                                                                                    \
  int prefix##_Allgatherv_init##suffix(const void* from, Count from_count, MPI_Datatype from_type, void* to,           \
                                       const Count to_counts[], const Displacement displacements[],                    \
                                       MPI_Datatype to_type, MPI_Comm communicator, MPI_Info info,                     \
                                       MPI_Request* request) {                                                         \
    return allgatherv(of_mpi##_Allgatherv_init##suffix(from, from_count, from_type, to, to_counts, displacements,      \
                                                       to_type, communicator, info, request),                          \
                      {const_cast<void*>(from), from_count, from_type}, to, to_counts, displacements, to_type,         \
                      communicator, request);                                                                          \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoall_init##suffix(const void* from, Count from_count, MPI_Datatype from_type, void* to,    \
                                              Count to_count, MPI_Datatype to_type, MPI_Comm communicator,             \
                                              MPI_Info info, MPI_Request* request) {                                   \
    return neighbor_alltoall(of_mpi##_Neighbor_alltoall_init##suffix(from, from_count, from_type, to, to_count,        \
                                                                     to_type, communicator, info, request),            \
                             {const_cast<void*>(from), from_count, from_type}, {to, to_count, to_type}, communicator,  \
                             request);                                                                                 \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoallv_init##suffix(                                                                        \
      const void* from, const Count from_counts[], const Displacement from_displacements[], MPI_Datatype from_type,    \
      void* to, const Count to_counts[], const Displacement to_displacements[], MPI_Datatype to_type,                  \
      MPI_Comm communicator, MPI_Info info, MPI_Request* request) {                                                    \
    return neighbor_alltoallv(                                                                                         \
        of_mpi##_Neighbor_alltoallv_init##suffix(from, from_counts, from_displacements, from_type, to, to_counts,      \
                                                 to_displacements, to_type, communicator, info, request),              \
        "MPI_Neighbor_alltoallv", from, from_counts, from_displacements, from_type, to, to_counts, to_displacements,   \
        to_type, communicator, request);                                                                               \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoallw_init##suffix(                                                                        \
      const void* from, const Count from_counts[], const MPI_Aint from_displacements[],                                \
      const MPI_Datatype from_types[], void* to, const Count to_counts[], const MPI_Aint to_displacements[],           \
      const MPI_Datatype to_types[], MPI_Comm communicator, MPI_Info info, MPI_Request* request) {                     \
    return neighbor_alltoallv(                                                                                         \
        of_mpi##_Neighbor_alltoallw_init##suffix(from, from_counts, from_displacements, from_types, to, to_counts,     \
                                                 to_displacements, to_types, communicator, info, request),             \
        "MPI_Neighbor_alltoallw", from, from_counts, from_displacements, from_types, to, to_counts, to_displacements,  \
        to_types, communicator, request);                                                                              \
  }

#define LANYARD_BARRIER(prefix, of_mpi)                                                        \
  int prefix##_Barrier_init(MPI_Comm communicator, MPI_Info info, MPI_Request* request) {      \
    return barrier(of_mpi##_Barrier_init(communicator, info, request), communicator, request); \
  }

#if MPI_VERSION >= 4
LANYARD_BARRIER(MPIX, PMPI)
LANYARD_BARRIER(MPI, PMPI)
LANYARD_COLLECTIVES(MPIX, PMPI, , int, int)
LANYARD_COLLECTIVES(MPI, PMPI, , int, int)
LANYARD_COLLECTIVES(MPI, PMPI, _c, MPI_Count, MPI_Aint)
#else
LANYARD_BARRIER(MPIX, PMPIX)
LANYARD_COLLECTIVES(MPIX, PMPIX, , int, int)
#endif

}  // extern "C"
