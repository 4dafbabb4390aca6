/* The procedures of the module lanyard_f08 whose arguments Fortran passes by address. Each calls
 * the function of lanyard.h of its name. `error` is optional. */

#include "lanyard/lanyard.h"

#include <stdlib.h>

#include "api/fortran/routine.h"

static void give(int code, f_ref error) {
  if (error != NULL)
    *error = code;
}

/* A procedure that is one call of C. */
#define CALL(name, PARAMETERS, call) \
  void lanyard_f_##name PARAMETERS { give(call, error); }

/* The same for a call that makes an info object. */
#define GET_INFO(name, PARAMETERS, function, object) \
  void lanyard_f_##name PARAMETERS {                 \
    MPI_Info made = MPI_INFO_NULL;                   \
    const int code = function(object, &made);        \
    if (code == MPI_SUCCESS)                         \
      *info = PMPI_Info_c2f(made);                   \
    give(code, error);                               \
  }

/* ---- Streams and queues */

CALL(host_stream_create, (Lanyard_Host_stream * stream, f_ref error), Lanyard_Host_stream_create(stream))
CALL(host_stream_launch, (const Lanyard_Host_stream* stream, void (*kernel)(void*), void* const* argument, f_ref error),
     Lanyard_Host_stream_launch(*stream, kernel, *argument))
CALL(host_stream_synchronize, (const Lanyard_Host_stream* stream, f_ref error),
     Lanyard_Host_stream_synchronize(*stream))
CALL(host_stream_free, (Lanyard_Host_stream * stream, f_ref error), Lanyard_Host_stream_free(stream))
CALL(queue_init, (Lanyard_Queue * queue, f_in type, Lanyard_Host_stream* stream, f_ref error),
     Lanyard_Queue_init(queue, (Lanyard_Queue_type)*type, stream))
CALL(queue_init_device, (Lanyard_Queue * queue, f_in type, void* const* stream_address, f_ref error),
     Lanyard_Queue_init(queue, (Lanyard_Queue_type)*type, *stream_address))
CALL(queue_free, (Lanyard_Queue * queue, f_ref error), Lanyard_Queue_free(queue))
CALL(queue_wait, (const Lanyard_Queue* queue, f_ref error), Lanyard_Queue_wait(*queue))
GET_INFO(queue_get_info, (const Lanyard_Queue* queue, f_ref info, f_ref error), Lanyard_Queue_get_info, *queue)

/* LANYARD_ERR_QUEUE and its like. */
#define ERROR_CLASS(name, kind) \
  int lanyard_f_err_##name(void) { return Lanyard_Error_class_of(kind); }

ERROR_CLASS(queue, LANYARD_ERROR_QUEUE)
ERROR_CLASS(busy, LANYARD_ERROR_BUSY)
ERROR_CLASS(no_entries, LANYARD_ERROR_NO_ENTRIES)
ERROR_CLASS(failed, LANYARD_ERROR_FAILED)
ERROR_CLASS(stalled, LANYARD_ERROR_STALLED)
ERROR_CLASS(nic, LANYARD_ERROR_NIC)

/* ---- Requests */

CALL(request_set_info, (f_in request, f_in info, f_ref error),
     Lanyard_Request_set_info(PMPI_Request_f2c(*request), PMPI_Info_f2c(*info)))
CALL(is_matched, (f_in request, int* flag, f_ref error), Lanyard_Is_matched(PMPI_Request_f2c(*request), flag))
GET_INFO(request_get_info, (f_in request, f_ref info, f_ref error), Lanyard_Request_get_info,
         PMPI_Request_f2c(*request))

static int imatchall(int count, MPI_Request requests[], f_ref match_request) {
  MPI_Request match = MPI_REQUEST_NULL;
  const int code = Lanyard_Imatchall(count, requests, &match);
  if (code == MPI_SUCCESS)
    *match_request = PMPI_Request_c2f(match);
  return code;
}

/* A procedure with arrays of requests and statuses: a call of C on `taken`, which has them in C. */
#define ON_REQUESTS(name, PARAMETERS, count, status_count, statuses, call)      \
  void lanyard_f_##name PARAMETERS {                                            \
    int code;                                                                   \
    LANYARD_F_TAKE(code, count, requests, status_count, statuses, code = call); \
    give(code, error);                                                          \
  }

ON_REQUESTS(match, (f_ref requests, f_ref status, f_ref error), 1, 1, status,
            Lanyard_Match(taken.requests, taken.statuses))
ON_REQUESTS(matchall, (f_in count, f_ref requests, f_ref statuses, f_ref error), *count, *count, statuses,
            Lanyard_Matchall(*count, taken.requests, taken.statuses))
ON_REQUESTS(imatch, (f_ref requests, f_ref match_request, f_ref error), 1, 0, NULL,
            imatchall(1, taken.requests, match_request))
ON_REQUESTS(imatchall, (f_in count, f_ref requests, f_ref match_request, f_ref error), *count, 0, NULL,
            imatchall(*count, taken.requests, match_request))
ON_REQUESTS(enqueue_start, (const Lanyard_Queue* queue, f_ref requests, f_ref error), 1, 0, NULL,
            Lanyard_Enqueue_start(*queue, taken.requests))
ON_REQUESTS(enqueue_startall, (const Lanyard_Queue* queue, f_in count, f_ref requests, f_ref error), *count, 0, NULL,
            Lanyard_Enqueue_startall(*queue, *count, taken.requests))
ON_REQUESTS(enqueue_wait, (const Lanyard_Queue* queue, f_ref requests, f_ref error), 1, 0, NULL,
            Lanyard_Enqueue_wait(*queue, taken.requests))
ON_REQUESTS(enqueue_waitall, (const Lanyard_Queue* queue, f_in count, f_ref requests, f_ref error), *count, 0, NULL,
            Lanyard_Enqueue_waitall(*queue, *count, taken.requests))

/* ---- Persistent collectives
 * All processes must count the same collectives of a communicator (api/communicators.h), in any
 * language and binding. So the MPI's own routines that would bypass Lanyard are the same as those
 * of the module. */

/* C's constants, for the module, which has only Fortran's. */
void* lanyard_f_in_place(void) { return MPI_IN_PLACE; }
void* lanyard_f_bottom(void) { return MPI_BOTTOM; }

/* Stands for a buffer with gaps: a collective needs the address of the program's own buffer. */
static char section;
void* lanyard_f_section(void) { return &section; }
static int is_section(const void* buffer) { return buffer == &section; }

static int refuse(MPI_Comm communicator, int code) {
  PMPI_Comm_call_errhandler(communicator, code);
  return code;
}

/* The number of blocks in the buffers of a neighbour collective. 0 without a topology; the call
 * itself then reports the error. */
static int count_neighbours(MPI_Comm communicator, int* sources, int* destinations) {
  int topology = MPI_UNDEFINED, rank = 0, weighted = 0;
  *sources = *destinations = 0;
  int code = PMPI_Topo_test(communicator, &topology);
  if (code != MPI_SUCCESS)
    return code;
  if (topology == MPI_DIST_GRAPH)
    return PMPI_Dist_graph_neighbors_count(communicator, sources, destinations, &weighted);
  if (topology == MPI_GRAPH) {
    PMPI_Comm_rank(communicator, &rank);
    code = PMPI_Graph_neighbors_count(communicator, rank, sources);
  } else if (topology == MPI_CART) {
    code = PMPI_Cartdim_get(communicator, sources);
    *sources *= 2;
  }
  *destinations = *sources;
  return code;
}

/* Converts the datatypes of all blocks. */
static int alltoallw(void* from, f_in from_counts, const MPI_Aint from_displacements[], f_in from_types, void* to,
                     f_in to_counts, const MPI_Aint to_displacements[], f_in to_types, MPI_Comm communicator,
                     MPI_Info info, MPI_Request* request) {
  int sources = 0, destinations = 0;
  int code = count_neighbours(communicator, &sources, &destinations);
  if (code != MPI_SUCCESS)
    return code;
  MPI_Datatype* const types = malloc((size_t)(destinations + sources + 1) * sizeof *types);
  if (types == NULL)
    return refuse(communicator, MPI_ERR_NO_MEM);
  for (int i = 0; i < destinations; ++i)
    types[i] = PMPI_Type_f2c(from_types[i]);
  for (int i = 0; i < sources; ++i)
    types[destinations + i] = PMPI_Type_f2c(to_types[i]);
  code = Lanyard_Neighbor_alltoallw_init(from, from_counts, from_displacements, types, to, to_counts, to_displacements,
                                         types + destinations, communicator, info, request);
  free(types);
  return code;
}

/* In Open MPI also the routines of the modules mpi_ext and mpi_f08_ext, and of mpif-ext.h. */
#ifdef OPEN_MPI
#define EXTENSION(name, PARAMETERS)                                          \
  void mpix_##name##_ PARAMETERS __attribute__((alias("lanyard_f_" #name))); \
  void mpix_##name##_f08_ PARAMETERS __attribute__((alias("lanyard_f_" #name)));
#else
#define EXTENSION(name, PARAMETERS)
#endif

/* A collective with the buffers `from` and `to`: a call of C that ends with MADE. */
#define MADE comm, PMPI_Info_f2c(*info), &made
#define COLLECTIVE(name, PARAMETERS, from, to, call)                                           \
  void lanyard_f_##name PARAMETERS {                                                           \
    const MPI_Comm comm = PMPI_Comm_f2c(*communicator);                                        \
    MPI_Request made = MPI_REQUEST_NULL;                                                       \
    const int code = is_section(from) || is_section(to) ? refuse(comm, MPI_ERR_BUFFER) : call; \
    if (code == MPI_SUCCESS)                                                                   \
      *request = PMPI_Request_c2f(made);                                                       \
    give(code, error);                                                                         \
  }                                                                                            \
  EXTENSION(name, PARAMETERS)

COLLECTIVE(barrier_init, (f_in communicator, f_in info, f_ref request, f_ref error), NULL, NULL,
           Lanyard_Barrier_init(MADE))
COLLECTIVE(bcast_init,
           (void* buffer, f_in count, f_in type, f_in root, f_in communicator, f_in info, f_ref request, f_ref error),
           buffer, buffer, Lanyard_Bcast_init(lanyard_f_buffer(buffer), *count, PMPI_Type_f2c(*type), *root, MADE))
COLLECTIVE(allreduce_init,
           (void* from, void* to, f_in count, f_in type, f_in operation, f_in communicator, f_in info, f_ref request,
            f_ref error),
           from, to,
           Lanyard_Allreduce_init(lanyard_f_buffer(from), lanyard_f_buffer(to), *count, PMPI_Type_f2c(*type),
                                  PMPI_Op_f2c(*operation), MADE))
COLLECTIVE(allgather_init,
           (void* from, f_in from_count, f_in from_type, void* to, f_in to_count, f_in to_type, f_in communicator,
            f_in info, f_ref request, f_ref error),
           from, to,
           Lanyard_Allgather_init(lanyard_f_buffer(from), *from_count, PMPI_Type_f2c(*from_type), lanyard_f_buffer(to),
                                  *to_count, PMPI_Type_f2c(*to_type), MADE))
COLLECTIVE(allgatherv_init,
           (void* from, f_in from_count, f_in from_type, void* to, f_in to_counts, f_in displacements, f_in to_type,
            f_in communicator, f_in info, f_ref request, f_ref error),
           from, to,
           Lanyard_Allgatherv_init(lanyard_f_buffer(from), *from_count, PMPI_Type_f2c(*from_type), lanyard_f_buffer(to),
                                   to_counts, displacements, PMPI_Type_f2c(*to_type), MADE))
COLLECTIVE(neighbor_alltoall_init,
           (void* from, f_in from_count, f_in from_type, void* to, f_in to_count, f_in to_type, f_in communicator,
            f_in info, f_ref request, f_ref error),
           from, to,
           Lanyard_Neighbor_alltoall_init(lanyard_f_buffer(from), *from_count, PMPI_Type_f2c(*from_type),
                                          lanyard_f_buffer(to), *to_count, PMPI_Type_f2c(*to_type), MADE))
COLLECTIVE(neighbor_alltoallv_init,
           (void* from, f_in from_counts, f_in from_displacements, f_in from_type, void* to, f_in to_counts,
            f_in to_displacements, f_in to_type, f_in communicator, f_in info, f_ref request, f_ref error),
           from, to,
           Lanyard_Neighbor_alltoallv_init(lanyard_f_buffer(from), from_counts, from_displacements,
                                           PMPI_Type_f2c(*from_type), lanyard_f_buffer(to), to_counts, to_displacements,
                                           PMPI_Type_f2c(*to_type), MADE))
COLLECTIVE(neighbor_alltoallw_init,
           (void* from, f_in from_counts, const MPI_Aint from_displacements[], f_in from_types, void* to,
            f_in to_counts, const MPI_Aint to_displacements[], f_in to_types, f_in communicator, f_in info,
            f_ref request, f_ref error),
           from, to,
           alltoallw(lanyard_f_buffer(from), from_counts, from_displacements, from_types, lanyard_f_buffer(to),
                     to_counts, to_displacements, to_types, MADE))

#if !defined(OPEN_MPI) && MPI_VERSION >= 4

/* Routines of mpi_f08 with buffers call MPI_Bcast_init and so on, but this one
 * PMPI_Barrier_init. */
LANYARD_F_ROUTINE(barrier_init, (f_ref communicator, f_ref info, f_ref request, f_ref error),
                  (communicator, info, request, error)) {
  (void)actual;
  lanyard_f_barrier_init(communicator, info, request, error);
}

#endif
