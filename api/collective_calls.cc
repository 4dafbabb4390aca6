// The persistent collectives of MPI that can be matched: made by the MPI, remembered by Lanyard. They have MPI 4's
// names where the MPI has those, and MPIX_ names everywhere, as in Open MPI's extension of MPI 3.

#include <mpi.h>

#include <vector>

#include "api/collective.h"
#include "api/context.h"
#include <lanyard/lanyard.h>

#if MPI_VERSION >= 4
#define LANYARD_OF_MPI(name) PMPI_##name
#else
#include <mpi-ext.h>
#define LANYARD_OF_MPI(name) PMPIX_##name
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

// A block of so many elements, so many elements behind the buffer's begin.
Block block_at(const void* buffer, MPI_Aint elements, int count, MPI_Datatype datatype) {
  auto* begin = static_cast<std::byte*>(const_cast<void*>(buffer));
  return {begin + elements * extent_of(datatype), count, datatype};
}

// `count` elements each, one behind the other.
std::vector<Block> equal_blocks(const void* buffer, size_t blocks, int count, MPI_Datatype datatype) {
  std::vector<Block> result;
  for (size_t i = 0; i < blocks; ++i)
    result.push_back(block_at(buffer, static_cast<MPI_Aint>(i) * count, count, datatype));
  return result;
}

std::vector<Block> blocks(const void* buffer, size_t blocks, const int counts[], const int displacements[],
                          MPI_Datatype datatype) {
  std::vector<Block> result;
  for (size_t i = 0; i < blocks; ++i)
    result.push_back(block_at(buffer, displacements[i], counts[i], datatype));
  return result;
}

// With displacements in bytes.
std::vector<Block> blocks(const void* buffer, size_t blocks, const int counts[], const MPI_Aint displacements[],
                          const MPI_Datatype datatypes[]) {
  std::vector<Block> result;
  for (size_t i = 0; i < blocks; ++i)
    result.push_back({static_cast<std::byte*>(const_cast<void*>(buffer)) + displacements[i], counts[i], datatypes[i]});
  return result;
}

int barrier(MPI_Comm communicator, MPI_Info info, MPI_Request* request) {
  return remember(LANYARD_OF_MPI(Barrier_init)(communicator, info, request), communicator, request,
                  [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    follow_barrier(context, communicator, record);
                  });
}

int broadcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm communicator, MPI_Info info,
              MPI_Request* request) {
  return remember(LANYARD_OF_MPI(Bcast_init)(buffer, count, datatype, root, communicator, info, request), communicator,
                  request, [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    follow_broadcast(context, buffer, count, datatype, root, communicator, record);
                  });
}

int allreduce(const void* from, void* to, int count, MPI_Datatype datatype, MPI_Op operation, MPI_Comm communicator,
              MPI_Info info, MPI_Request* request) {
  return remember(LANYARD_OF_MPI(Allreduce_init)(from, to, count, datatype, operation, communicator, info, request),
                  communicator, request,
                  [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    follow_allreduce(context, from, to, count, datatype, operation, communicator, record);
                  });
}

int allgather(const void* from, int from_count, MPI_Datatype from_type, void* to, int to_count, MPI_Datatype to_type,
              MPI_Comm communicator, MPI_Info info, MPI_Request* request) {
  return remember(
      LANYARD_OF_MPI(Allgather_init)(from, from_count, from_type, to, to_count, to_type, communicator, info, request),
      communicator, request,
      [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
        follow_allgather(context, "MPI_Allgather", {const_cast<void*>(from), from_count, from_type},
                         equal_blocks(to, size_of(communicator), to_count, to_type), communicator, record);
      });
}

int allgatherv(const void* from, int from_count, MPI_Datatype from_type, void* to, const int to_counts[],
               const int displacements[], MPI_Datatype to_type, MPI_Comm communicator, MPI_Info info,
               MPI_Request* request) {
  return remember(LANYARD_OF_MPI(Allgatherv_init)(from, from_count, from_type, to, to_counts, displacements, to_type,
                                                  communicator, info, request),
                  communicator, request,
                  [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    follow_allgather(context, "MPI_Allgatherv", {const_cast<void*>(from), from_count, from_type},
                                     blocks(to, size_of(communicator), to_counts, displacements, to_type), communicator,
                                     record);
                  });
}

int neighbor_alltoall(const void* from, int from_count, MPI_Datatype from_type, void* to, int to_count,
                      MPI_Datatype to_type, MPI_Comm communicator, MPI_Info info, MPI_Request* request) {
  return remember(LANYARD_OF_MPI(Neighbor_alltoall_init)(from, from_count, from_type, to, to_count, to_type,
                                                         communicator, info, request),
                  communicator, request,
                  [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
                    const Neighbourhood near = lanyard::api::neighbourhood_of(communicator);
                    follow_neighbor_alltoall(context, "MPI_Neighbor_alltoall", near,
                                             equal_blocks(from, near.destinations.size(), from_count, from_type),
                                             equal_blocks(to, near.sources.size(), to_count, to_type), communicator,
                                             record);
                  });
}

int neighbor_alltoallv(const void* from, const int from_counts[], const int from_displacements[],
                       MPI_Datatype from_type, void* to, const int to_counts[], const int to_displacements[],
                       MPI_Datatype to_type, MPI_Comm communicator, MPI_Info info, MPI_Request* request) {
  return remember(
      LANYARD_OF_MPI(Neighbor_alltoallv_init)(from, from_counts, from_displacements, from_type, to, to_counts,
                                              to_displacements, to_type, communicator, info, request),
      communicator, request,
      [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
        const Neighbourhood near = lanyard::api::neighbourhood_of(communicator);
        follow_neighbor_alltoall(context, "MPI_Neighbor_alltoallv", near,
                                 blocks(from, near.destinations.size(), from_counts, from_displacements, from_type),
                                 blocks(to, near.sources.size(), to_counts, to_displacements, to_type), communicator,
                                 record);
      });
}

int neighbor_alltoallw(const void* from, const int from_counts[], const MPI_Aint from_displacements[],
                       const MPI_Datatype from_types[], void* to, const int to_counts[],
                       const MPI_Aint to_displacements[], const MPI_Datatype to_types[], MPI_Comm communicator,
                       MPI_Info info, MPI_Request* request) {
  return remember(
      LANYARD_OF_MPI(Neighbor_alltoallw_init)(from, from_counts, from_displacements, from_types, to, to_counts,
                                              to_displacements, to_types, communicator, info, request),
      communicator, request,
      [&](Context& context, RequestRecord& record) LANYARD_REQUIRES(lanyard::api::context_locked) {
        const Neighbourhood near = lanyard::api::neighbourhood_of(communicator);
        follow_neighbor_alltoall(context, "MPI_Neighbor_alltoallw", near,
                                 blocks(from, near.destinations.size(), from_counts, from_displacements, from_types),
                                 blocks(to, near.sources.size(), to_counts, to_displacements, to_types), communicator,
                                 record);
      });
}

}  // namespace

extern "C" {

#define LANYARD_COLLECTIVES(prefix)                                                                                    \
  int prefix##_Barrier_init(MPI_Comm communicator, MPI_Info info, MPI_Request* request) {                              \
    return barrier(communicator, info, request);                                                                       \
  }                                                                                                                    \
  int prefix##_Bcast_init(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm communicator,             \
                          MPI_Info info, MPI_Request* request) {                                                       \
    return broadcast(buffer, count, datatype, root, communicator, info, request);                                      \
  }                                                                                                                    \
  int prefix##_Allreduce_init(const void* from, void* to, int count, MPI_Datatype datatype, MPI_Op operation,          \
                              MPI_Comm communicator, MPI_Info info, MPI_Request* request) {                            \
    return allreduce(from, to, count, datatype, operation, communicator, info, request);                               \
  }                                                                                                                    \
  int prefix##_Allgather_init(const void* from, int from_count, MPI_Datatype from_type, void* to, int to_count,        \
                              MPI_Datatype to_type, MPI_Comm communicator, MPI_Info info, MPI_Request* request) {      \
    return allgather(from, from_count, from_type, to, to_count, to_type, communicator, info, request);                 \
  }                                                                                                                    \
  int prefix##_Allgatherv_init(const void* from, int from_count, MPI_Datatype from_type, void* to,                     \
                               const int to_counts[], const int displacements[], MPI_Datatype to_type,                 \
                               MPI_Comm communicator, MPI_Info info, MPI_Request* request) {                           \
    return allgatherv(from, from_count, from_type, to, to_counts, displacements, to_type, communicator, info,          \
                      request);                                                                                        \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoall_init(const void* from, int from_count, MPI_Datatype from_type, void* to,              \
                                      int to_count, MPI_Datatype to_type, MPI_Comm communicator, MPI_Info info,        \
                                      MPI_Request* request) {                                                          \
    return neighbor_alltoall(from, from_count, from_type, to, to_count, to_type, communicator, info, request);         \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoallv_init(const void* from, const int from_counts[], const int from_displacements[],      \
                                       MPI_Datatype from_type, void* to, const int to_counts[],                        \
                                       const int to_displacements[], MPI_Datatype to_type, MPI_Comm communicator,      \
                                       MPI_Info info, MPI_Request* request) {                                          \
    return neighbor_alltoallv(from, from_counts, from_displacements, from_type, to, to_counts, to_displacements,       \
                              to_type, communicator, info, request);                                                   \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoallw_init(const void* from, const int from_counts[], const MPI_Aint from_displacements[], \
                                       const MPI_Datatype from_types[], void* to, const int to_counts[],               \
                                       const MPI_Aint to_displacements[], const MPI_Datatype to_types[],               \
                                       MPI_Comm communicator, MPI_Info info, MPI_Request* request) {                   \
    return neighbor_alltoallw(from, from_counts, from_displacements, from_types, to, to_counts, to_displacements,      \
                              to_types, communicator, info, request);                                                  \
  }

LANYARD_COLLECTIVES(MPIX)
#if MPI_VERSION >= 4
LANYARD_COLLECTIVES(MPI)
#endif

}  // extern "C"
