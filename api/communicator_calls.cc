// Intercepts the constructors of communicators, to give communicators names (see communicators.h).
// Each is collective over its first argument, except MPI_Comm_create_group: other ranks of the
// parent do not call it. So its child is not counted among the children of the parent; tag and
// group identify it.

#include <mpi.h>

#include <utility>

#include "api/context.h"
#include "api/followed_calls.h"

namespace {

using lanyard::api::Communicators;
using lanyard::api::Context;
using lanyard::api::ContextLock;

// Counts the new communicator if the constructor succeeded. Returns its code.
int follow(int code, MPI_Comm parent, const MPI_Comm* child) {
  if (code == MPI_SUCCESS)
    lanyard_follow_child(parent, *child);
  return code;
}

int free_by(int (*call)(MPI_Comm*), MPI_Comm* communicator) {
  Context* context = Context::get();
  if (context == nullptr || communicator == nullptr)
    return call(communicator);
  const MPI_Comm handle = *communicator;
  Communicators::Leaving leaving;
  {
    const ContextLock lock(*context);
    context->requests().make_collectives_of(handle);
    leaving = context->communicators().leave(handle);
  }
  const int code = call(communicator);
  if (leaving.ref || (leaving.place && code != MPI_SUCCESS)) {
    const ContextLock lock(*context);
    context->communicators().left(handle, std::move(leaving), code == MPI_SUCCESS);
  }
  return code;
}

}  // namespace

extern "C" {

void lanyard_follow_child(MPI_Comm parent, MPI_Comm child) {
  Context* context = Context::get();
  if (context == nullptr)
    return;
  const ContextLock lock(*context);
  context->communicators().add_child(parent, child);
}

void lanyard_follow_group_child(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm child) {
  Context* context = Context::get();
  if (context == nullptr)
    return;
  const ContextLock lock(*context);
  context->communicators().add_group(parent, group, tag, child);
}

int MPI_Comm_create_group(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm* child) {
  const int code = PMPI_Comm_create_group(parent, group, tag, child);
  if (code == MPI_SUCCESS)
    lanyard_follow_group_child(parent, group, tag, *child);
  return code;
}

// `call` is the list of the argument names.
#define LANYARD_CONSTRUCTOR(name, parameters, call) \
  int name parameters { return follow(P##name call, parent, child); }

LANYARD_CONSTRUCTOR(MPI_Comm_dup, (MPI_Comm parent, MPI_Comm* child), (parent, child))
LANYARD_CONSTRUCTOR(MPI_Comm_dup_with_info, (MPI_Comm parent, MPI_Info info, MPI_Comm* child), (parent, info, child))
LANYARD_CONSTRUCTOR(MPI_Comm_idup, (MPI_Comm parent, MPI_Comm* child, MPI_Request* request), (parent, child, request))
#if MPI_VERSION >= 4 || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)
LANYARD_CONSTRUCTOR(MPI_Comm_idup_with_info, (MPI_Comm parent, MPI_Info info, MPI_Comm* child, MPI_Request* request),
                    (parent, info, child, request))
#endif
LANYARD_CONSTRUCTOR(MPI_Comm_create, (MPI_Comm parent, MPI_Group group, MPI_Comm* child), (parent, group, child))
LANYARD_CONSTRUCTOR(MPI_Comm_split, (MPI_Comm parent, int color, int key, MPI_Comm* child), (parent, color, key, child))
LANYARD_CONSTRUCTOR(MPI_Comm_split_type, (MPI_Comm parent, int type, int key, MPI_Info info, MPI_Comm* child),
                    (parent, type, key, info, child))
LANYARD_CONSTRUCTOR(MPI_Cart_create,
                    (MPI_Comm parent, int dimensions, const int sizes[], const int periods[], int reorder,
                     MPI_Comm* child),
                    (parent, dimensions, sizes, periods, reorder, child))
LANYARD_CONSTRUCTOR(MPI_Cart_sub, (MPI_Comm parent, const int remain[], MPI_Comm* child), (parent, remain, child))
LANYARD_CONSTRUCTOR(MPI_Graph_create,
                    (MPI_Comm parent, int nodes, const int index[], const int edges[], int reorder, MPI_Comm* child),
                    (parent, nodes, index, edges, reorder, child))
LANYARD_CONSTRUCTOR(MPI_Dist_graph_create,
                    (MPI_Comm parent, int edges, const int sources[], const int degrees[], const int destinations[],
                     const int weights[], MPI_Info info, int reorder, MPI_Comm* child),
                    (parent, edges, sources, degrees, destinations, weights, info, reorder, child))
LANYARD_CONSTRUCTOR(MPI_Dist_graph_create_adjacent,
                    (MPI_Comm parent, int indegree, const int sources[], const int source_weights[], int outdegree,
                     const int destinations[], const int destination_weights[], MPI_Info info, int reorder,
                     MPI_Comm* child),
                    (parent, indegree, sources, source_weights, outdegree, destinations, destination_weights, info,
                     reorder, child))

int MPI_Comm_free(MPI_Comm* communicator) { return free_by(PMPI_Comm_free, communicator); }

int MPI_Comm_disconnect(MPI_Comm* communicator) { return free_by(PMPI_Comm_disconnect, communicator); }

}  // extern "C"
