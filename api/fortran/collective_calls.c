/* Persistent collectives: Lanyard_Barrier_init and its like of the module lanyard_f08, and the
 * MPI's own routines that would bypass Lanyard. All processes must count the same collectives of a
 * communicator (api/communicators.h), in any language and binding. So every routine calls Lanyard's
 * function of C. */

#include <stdlib.h>

#include "api/fortran/handles.h"
#include "api/fortran/routine.h"
#include "lanyard/lanyard.h"

typedef const MPI_Fint* f_in;

/* C's constants, for the module, which has only Fortran's. */
void* lanyard_f_in_place(void) { return MPI_IN_PLACE; }
void* lanyard_f_bottom(void) { return MPI_BOTTOM; }

/* The error for a buffer with gaps: a collective needs the address of the program's own buffer. */
int lanyard_f_refuse_section(f_in communicator) {
  PMPI_Comm_call_errhandler(PMPI_Comm_f2c(*communicator), MPI_ERR_BUFFER);
  return MPI_ERR_BUFFER;
}

/* Passes on the code of a call, and its new request if it succeeded. */
static int made(int code, const MPI_Request* request, MPI_Fint* f_request) {
  if (code == MPI_SUCCESS)
    *f_request = PMPI_Request_c2f(*request);
  return code;
}

int lanyard_f_barrier_init(f_in communicator, f_in info, MPI_Fint* request) {
  MPI_Request r = MPI_REQUEST_NULL;
  return made(Lanyard_Barrier_init(PMPI_Comm_f2c(*communicator), PMPI_Info_f2c(*info), &r), &r, request);
}

int lanyard_f_bcast_init(void* buffer, int count, f_in datatype, int root, f_in communicator, f_in info,
                         MPI_Fint* request) {
  MPI_Request r = MPI_REQUEST_NULL;
  return made(Lanyard_Bcast_init(buffer, count, PMPI_Type_f2c(*datatype), root, PMPI_Comm_f2c(*communicator),
                                 PMPI_Info_f2c(*info), &r),
              &r, request);
}

int lanyard_f_allreduce_init(void* from, void* to, int count, f_in datatype, f_in operation, f_in communicator,
                             f_in info, MPI_Fint* request) {
  MPI_Request r = MPI_REQUEST_NULL;
  return made(Lanyard_Allreduce_init(from, to, count, PMPI_Type_f2c(*datatype), PMPI_Op_f2c(*operation),
                                     PMPI_Comm_f2c(*communicator), PMPI_Info_f2c(*info), &r),
              &r, request);
}

int lanyard_f_allgather_init(void* from, int from_count, f_in from_type, void* to, int to_count, f_in to_type,
                             f_in communicator, f_in info, MPI_Fint* request) {
  MPI_Request r = MPI_REQUEST_NULL;
  return made(Lanyard_Allgather_init(from, from_count, PMPI_Type_f2c(*from_type), to, to_count, PMPI_Type_f2c(*to_type),
                                     PMPI_Comm_f2c(*communicator), PMPI_Info_f2c(*info), &r),
              &r, request);
}

int lanyard_f_allgatherv_init(void* from, int from_count, f_in from_type, void* to, f_in to_counts, f_in displacements,
                              f_in to_type, f_in communicator, f_in info, MPI_Fint* request) {
  MPI_Request r = MPI_REQUEST_NULL;
  return made(Lanyard_Allgatherv_init(from, from_count, PMPI_Type_f2c(*from_type), to, to_counts, displacements,
                                      PMPI_Type_f2c(*to_type), PMPI_Comm_f2c(*communicator), PMPI_Info_f2c(*info), &r),
              &r, request);
}

int lanyard_f_neighbor_alltoall_init(void* from, int from_count, f_in from_type, void* to, int to_count, f_in to_type,
                                     f_in communicator, f_in info, MPI_Fint* request) {
  MPI_Request r = MPI_REQUEST_NULL;
  return made(
      Lanyard_Neighbor_alltoall_init(from, from_count, PMPI_Type_f2c(*from_type), to, to_count, PMPI_Type_f2c(*to_type),
                                     PMPI_Comm_f2c(*communicator), PMPI_Info_f2c(*info), &r),
      &r, request);
}

int lanyard_f_neighbor_alltoallv_init(void* from, f_in from_counts, f_in from_displacements, f_in from_type, void* to,
                                      f_in to_counts, f_in to_displacements, f_in to_type, f_in communicator, f_in info,
                                      MPI_Fint* request) {
  MPI_Request r = MPI_REQUEST_NULL;
  return made(Lanyard_Neighbor_alltoallv_init(from, from_counts, from_displacements, PMPI_Type_f2c(*from_type), to,
                                              to_counts, to_displacements, PMPI_Type_f2c(*to_type),
                                              PMPI_Comm_f2c(*communicator), PMPI_Info_f2c(*info), &r),
              &r, request);
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

int lanyard_f_neighbor_alltoallw_init(void* from, f_in from_counts, const MPI_Aint from_displacements[],
                                      f_in from_types, void* to, f_in to_counts, const MPI_Aint to_displacements[],
                                      f_in to_types, f_in communicator, f_in info, MPI_Fint* request) {
  const MPI_Comm comm = PMPI_Comm_f2c(*communicator);
  MPI_Request r = MPI_REQUEST_NULL;
  int sources = 0, destinations = 0;
  int code = count_neighbours(comm, &sources, &destinations);
  if (code != MPI_SUCCESS)
    return code;
  MPI_Datatype* const types = malloc((size_t)(destinations + sources + 1) * sizeof *types);
  if (types == NULL) {
    PMPI_Comm_call_errhandler(comm, MPI_ERR_NO_MEM);
    return MPI_ERR_NO_MEM;
  }
  for (int i = 0; i < destinations; ++i)
    types[i] = PMPI_Type_f2c(from_types[i]);
  for (int i = 0; i < sources; ++i)
    types[destinations + i] = PMPI_Type_f2c(to_types[i]);
  code = made(Lanyard_Neighbor_alltoallw_init(from, from_counts, from_displacements, types, to, to_counts,
                                              to_displacements, types + destinations, comm, PMPI_Info_f2c(*info), &r),
              &r, request);
  free(types);
  return code;
}

/* ---- The MPI's own routines that bypass MPI's functions of C */

#ifdef OPEN_MPI

/* Of the modules mpi_ext and mpi_f08_ext, and of mpif-ext.h. All pass buffers by address. */
extern int mpi_fortran_bottom_, mpi_fortran_in_place_;

static void* buffer_of(void* buffer) {
  return buffer == &mpi_fortran_in_place_ ? MPI_IN_PLACE : buffer == &mpi_fortran_bottom_ ? MPI_BOTTOM : buffer;
}

/* In mpi_f08_ext `error` is optional. */
#define EXTENSION(name, PARAMETERS, ...)            \
  void mpix_##name##_ PARAMETERS;                   \
  void mpix_##name##_f08_ PARAMETERS;               \
  void mpix_##name##_ PARAMETERS {                  \
    const int code = lanyard_f_##name(__VA_ARGS__); \
    if (error != NULL)                              \
      *error = code;                                \
  }                                                 \
  void mpix_##name##_f08_ PARAMETERS __attribute__((alias("mpix_" #name "_")));

EXTENSION(barrier_init, (f_in communicator, f_in info, f_ref request, f_ref error), communicator, info, request)
EXTENSION(bcast_init,
          (void* buffer, f_in count, f_in datatype, f_in root, f_in communicator, f_in info, f_ref request,
           f_ref error),
          buffer_of(buffer), *count, datatype, *root, communicator, info, request)
EXTENSION(allreduce_init,
          (void* from, void* to, f_in count, f_in datatype, f_in operation, f_in communicator, f_in info, f_ref request,
           f_ref error),
          buffer_of(from), buffer_of(to), *count, datatype, operation, communicator, info, request)
EXTENSION(allgather_init,
          (void* from, f_in from_count, f_in from_type, void* to, f_in to_count, f_in to_type, f_in communicator,
           f_in info, f_ref request, f_ref error),
          buffer_of(from), *from_count, from_type, buffer_of(to), *to_count, to_type, communicator, info, request)
EXTENSION(allgatherv_init,
          (void* from, f_in from_count, f_in from_type, void* to, f_in to_counts, f_in displacements, f_in to_type,
           f_in communicator, f_in info, f_ref request, f_ref error),
          buffer_of(from), *from_count, from_type, buffer_of(to), to_counts, displacements, to_type, communicator, info,
          request)
EXTENSION(neighbor_alltoall_init,
          (void* from, f_in from_count, f_in from_type, void* to, f_in to_count, f_in to_type, f_in communicator,
           f_in info, f_ref request, f_ref error),
          buffer_of(from), *from_count, from_type, buffer_of(to), *to_count, to_type, communicator, info, request)
EXTENSION(neighbor_alltoallv_init,
          (void* from, f_in from_counts, f_in from_displacements, f_in from_type, void* to, f_in to_counts,
           f_in to_displacements, f_in to_type, f_in communicator, f_in info, f_ref request, f_ref error),
          buffer_of(from), from_counts, from_displacements, from_type, buffer_of(to), to_counts, to_displacements,
          to_type, communicator, info, request)
EXTENSION(neighbor_alltoallw_init,
          (void* from, f_in from_counts, const MPI_Aint from_displacements[], f_in from_types, void* to, f_in to_counts,
           const MPI_Aint to_displacements[], f_in to_types, f_in communicator, f_in info, f_ref request, f_ref error),
          buffer_of(from), from_counts, from_displacements, from_types, buffer_of(to), to_counts, to_displacements,
          to_types, communicator, info, request)

#elif MPI_VERSION >= 4

/* Routines of mpi_f08 with buffers call MPI_Bcast_init and so on, but this one
 * PMPI_Barrier_init. */
LANYARD_F_ROUTINE(barrier_init, (f_ref communicator, f_ref info, f_ref request, f_ref error),
                  (communicator, info, request, error)) {
  (void)actual;
  *error = lanyard_f_barrier_init(communicator, info, request);
}

#endif
