/* MPI_Init, and constructors and destructors of requests and communicators. The MPI makes the call,
 * and Lanyard follows it. */

#include "api/followed_calls.h"
#include "api/fortran/routine.h"

LANYARD_F_ROUTINE(init, (f_ref error), (error)) {
  actual(error);
  if (*error == MPI_SUCCESS)
    lanyard_follow_init();
}

LANYARD_F_ROUTINE(init_thread, (f_ref required, f_ref provided, f_ref error), (required, provided, error)) {
  actual(required, provided, error);
  if (*error == MPI_SUCCESS)
    lanyard_follow_init();
}

/* ---- Persistent requests */

#ifdef OPEN_MPI

#define REQUEST_INIT(name, kind)                                                                            \
  LANYARD_F_ROUTINE(name,                                                                                   \
                    (void* buffer, f_ref count, f_ref datatype, f_ref peer, f_ref tag, f_ref communicator,  \
                     f_ref request, f_ref error),                                                           \
                    (buffer, count, datatype, peer, tag, communicator, request, error)) {                   \
    actual(buffer, count, datatype, peer, tag, communicator, request, error);                               \
    if (*error == MPI_SUCCESS)                                                                              \
      lanyard_follow_request(kind, lanyard_f_buffer(buffer), *count, PMPI_Type_f2c(*datatype), *peer, *tag, \
                             PMPI_Comm_f2c(*communicator), PMPI_Request_f2c(*request));                     \
  }

REQUEST_INIT(send_init, LANYARD_SEND)
REQUEST_INIT(ssend_init, LANYARD_SEND)
REQUEST_INIT(rsend_init, LANYARD_READY_SEND)
REQUEST_INIT(bsend_init, LANYARD_BUFFERED_SEND)
REQUEST_INIT(recv_init, LANYARD_RECEIVE)

#endif

/* ---- Communicators (see api/communicators.h) */

/* Reads the parent first: a program may pass the same variable as parent and child. */
#define CONSTRUCTOR(name, PARAMETERS, ARGUMENTS)          \
  LANYARD_F_ROUTINE(name, PARAMETERS, ARGUMENTS) {        \
    const MPI_Comm whose = PMPI_Comm_f2c(*parent);        \
    actual ARGUMENTS;                                     \
    if (*error == MPI_SUCCESS)                            \
      lanyard_follow_child(whose, PMPI_Comm_f2c(*child)); \
  }

CONSTRUCTOR(comm_dup, (f_ref parent, f_ref child, f_ref error), (parent, child, error))
CONSTRUCTOR(comm_dup_with_info, (f_ref parent, f_ref info, f_ref child, f_ref error), (parent, info, child, error))
CONSTRUCTOR(comm_create, (f_ref parent, f_ref group, f_ref child, f_ref error), (parent, group, child, error))
CONSTRUCTOR(comm_split, (f_ref parent, f_ref color, f_ref key, f_ref child, f_ref error),
            (parent, color, key, child, error))
CONSTRUCTOR(comm_split_type, (f_ref parent, f_ref type, f_ref key, f_ref info, f_ref child, f_ref error),
            (parent, type, key, info, child, error))
CONSTRUCTOR(cart_create,
            (f_ref parent, f_ref dimensions, f_ref sizes, f_ref periods, f_ref reorder, f_ref child, f_ref error),
            (parent, dimensions, sizes, periods, reorder, child, error))
CONSTRUCTOR(cart_sub, (f_ref parent, f_ref remain, f_ref child, f_ref error), (parent, remain, child, error))
CONSTRUCTOR(graph_create,
            (f_ref parent, f_ref nodes, f_ref index, f_ref edges, f_ref reorder, f_ref child, f_ref error),
            (parent, nodes, index, edges, reorder, child, error))
CONSTRUCTOR(dist_graph_create,
            (f_ref parent, f_ref count, f_ref sources, f_ref degrees, f_ref destinations, f_ref weights, f_ref info,
             f_ref reorder, f_ref child, f_ref error),
            (parent, count, sources, degrees, destinations, weights, info, reorder, child, error))
CONSTRUCTOR(dist_graph_create_adjacent,
            (f_ref parent, f_ref indegree, f_ref sources, f_ref source_weights, f_ref outdegree, f_ref destinations,
             f_ref destination_weights, f_ref info, f_ref reorder, f_ref child, f_ref error),
            (parent, indegree, sources, source_weights, outdegree, destinations, destination_weights, info, reorder,
             child, error))

CONSTRUCTOR(comm_idup, (f_ref parent, f_ref child, f_ref request, f_ref error), (parent, child, request, error))
#if MPI_VERSION >= 4 || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)
CONSTRUCTOR(comm_idup_with_info, (f_ref parent, f_ref info, f_ref child, f_ref request, f_ref error),
            (parent, info, child, request, error))
#endif

LANYARD_F_ROUTINE(comm_create_group, (f_ref parent, f_ref group, f_ref tag, f_ref child, f_ref error),
                  (parent, group, tag, child, error)) {
  const MPI_Comm whose = PMPI_Comm_f2c(*parent);
  actual(parent, group, tag, child, error);
  if (*error == MPI_SUCCESS)
    lanyard_follow_group_child(whose, PMPI_Group_f2c(*group), *tag, PMPI_Comm_f2c(*child));
}

/* These have only a handle to convert, so they call C's function. */
#define DESTRUCTOR(name, function)                                                    \
  LANYARD_F_ROUTINE(name, (f_ref communicator, f_ref error), (communicator, error)) { \
    (void)actual;                                                                     \
    MPI_Comm handle = PMPI_Comm_f2c(*communicator);                                   \
    *error = function(&handle);                                                       \
    if (*error == MPI_SUCCESS)                                                        \
      *communicator = PMPI_Comm_c2f(handle);                                          \
  }

DESTRUCTOR(comm_free, MPI_Comm_free)
DESTRUCTOR(comm_disconnect, MPI_Comm_disconnect)
