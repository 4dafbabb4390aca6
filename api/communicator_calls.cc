// The constructors of communicators, followed so that communicators have names (see communicators.h). Each is
// collective over its first argument. MPI_Comm_create_group is collective over its group alone, so it may not count as
// a child of the parent on the members only: its tag and group tell such calls apart.

#include <mpi.h>

#include "api/context.h"

namespace {

using lanyard::api::Context;

uint64_t place_of_next(MPI_Comm parent) {
  Context* context = Context::get();
  if (context == nullptr)
    return 0;
  const auto lock = context->lock();
  return context->communicators().next_child(parent);
}

int name(int code, uint64_t place, MPI_Comm* child) {
  Context* context = Context::get();
  if (context != nullptr && code == MPI_SUCCESS && place != 0) {
    const auto lock = context->lock();
    context->communicators().name_child(place, *child);
  }
  return code;
}

void forget(const MPI_Comm* communicator) {
  Context* context = Context::get();
  if (context == nullptr || communicator == nullptr)
    return;
  const auto lock = context->lock();
  context->requests().communicator_freed(*communicator);
  context->communicators().forget(*communicator);
}

}  // namespace

extern "C" {

int MPI_Comm_dup(MPI_Comm parent, MPI_Comm* child) {
  const uint64_t place = place_of_next(parent);
  return name(PMPI_Comm_dup(parent, child), place, child);
}

int MPI_Comm_dup_with_info(MPI_Comm parent, MPI_Info info, MPI_Comm* child) {
  const uint64_t place = place_of_next(parent);
  return name(PMPI_Comm_dup_with_info(parent, info, child), place, child);
}

int MPI_Comm_idup(MPI_Comm parent, MPI_Comm* child, MPI_Request* request) {
  const uint64_t place = place_of_next(parent);
  const int code = PMPI_Comm_idup(parent, child, request);
  Context* context = Context::get();
  if (context != nullptr && code == MPI_SUCCESS && place != 0) {
    const auto lock = context->lock();
    context->communicators().name_child_later(place, *child);
  }
  return code;
}

int MPI_Comm_create(MPI_Comm parent, MPI_Group group, MPI_Comm* child) {
  const uint64_t place = place_of_next(parent);
  return name(PMPI_Comm_create(parent, group, child), place, child);
}

int MPI_Comm_create_group(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm* child) {
  uint64_t place = 0;
  if (Context* context = Context::get()) {
    const auto lock = context->lock();
    place = context->communicators().next_group(parent, group, tag);
  }
  return name(PMPI_Comm_create_group(parent, group, tag, child), place, child);
}

int MPI_Comm_split(MPI_Comm parent, int color, int key, MPI_Comm* child) {
  const uint64_t place = place_of_next(parent);
  return name(PMPI_Comm_split(parent, color, key, child), place, child);
}

int MPI_Comm_split_type(MPI_Comm parent, int type, int key, MPI_Info info, MPI_Comm* child) {
  const uint64_t place = place_of_next(parent);
  return name(PMPI_Comm_split_type(parent, type, key, info, child), place, child);
}

int MPI_Cart_create(MPI_Comm parent, int dimensions, const int sizes[], const int periods[], int reorder,
                    MPI_Comm* child) {
  const uint64_t place = place_of_next(parent);
  return name(PMPI_Cart_create(parent, dimensions, sizes, periods, reorder, child), place, child);
}

int MPI_Cart_sub(MPI_Comm parent, const int remain[], MPI_Comm* child) {
  const uint64_t place = place_of_next(parent);
  return name(PMPI_Cart_sub(parent, remain, child), place, child);
}

int MPI_Graph_create(MPI_Comm parent, int nodes, const int index[], const int edges[], int reorder, MPI_Comm* child) {
  const uint64_t place = place_of_next(parent);
  return name(PMPI_Graph_create(parent, nodes, index, edges, reorder, child), place, child);
}

int MPI_Dist_graph_create(MPI_Comm parent, int count, const int sources[], const int degrees[],
                          const int destinations[], const int weights[], MPI_Info info, int reorder, MPI_Comm* child) {
  const uint64_t place = place_of_next(parent);
  return name(PMPI_Dist_graph_create(parent, count, sources, degrees, destinations, weights, info, reorder, child),
              place, child);
}

int MPI_Dist_graph_create_adjacent(MPI_Comm parent, int indegree, const int sources[], const int source_weights[],
                                   int outdegree, const int destinations[], const int destination_weights[],
                                   MPI_Info info, int reorder, MPI_Comm* child) {
  const uint64_t place = place_of_next(parent);
  return name(PMPI_Dist_graph_create_adjacent(parent, indegree, sources, source_weights, outdegree, destinations,
                                              destination_weights, info, reorder, child),
              place, child);
}

int MPI_Comm_free(MPI_Comm* communicator) {
  forget(communicator);
  return PMPI_Comm_free(communicator);
}

int MPI_Comm_disconnect(MPI_Comm* communicator) {
  forget(communicator);
  return PMPI_Comm_disconnect(communicator);
}

}  // extern "C"
