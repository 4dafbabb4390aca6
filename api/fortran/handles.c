#include "api/fortran/routine.h"

#include <stdlib.h>

/* MPI_STATUS_SIZE: both MPIs copy the bytes of a status. */
enum { STATUS_INTEGERS = sizeof(MPI_Status) / sizeof(MPI_Fint) };

static int is_ignored(const MPI_Fint* status) {
#ifndef OPEN_MPI /* Open MPI's mpi_f08 has the constants of mpif.h */
  if (status == (const MPI_Fint*)MPI_F08_STATUS_IGNORE || status == (const MPI_Fint*)MPI_F08_STATUSES_IGNORE)
    return 1;
#endif
  return status == MPI_F_STATUS_IGNORE || status == MPI_F_STATUSES_IGNORE;
}

static void release(lanyard_f_requests* taken) {
  if (taken->requests != taken->few_requests)
    free(taken->requests);
  if (taken->statuses != taken->few_statuses && taken->statuses != MPI_STATUSES_IGNORE)
    free(taken->statuses);
}

int lanyard_f_take(lanyard_f_requests* taken, int count, MPI_Fint* requests, int status_count, MPI_Fint* statuses) {
  const int ignored = status_count > 0 && is_ignored(statuses);
  taken->count = count > 0 ? count : 0;
  taken->status_count = status_count > 0 && !ignored ? status_count : 0;
  taken->f_requests = requests;
  taken->f_statuses = statuses;
  taken->requests = taken->few_requests;
  taken->statuses = ignored ? MPI_STATUSES_IGNORE : taken->few_statuses;
  if (taken->count > LANYARD_F_FEW)
    taken->requests = malloc((size_t)count * sizeof(MPI_Request));
  if (taken->status_count > LANYARD_F_FEW)
    taken->statuses = malloc((size_t)status_count * sizeof(MPI_Status));
  if (taken->requests == NULL || (taken->statuses == NULL && !ignored)) {
    release(taken);
    PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    return MPI_ERR_NO_MEM;
  }
  for (int i = 0; i < taken->count; ++i)
    taken->requests[i] = PMPI_Request_f2c(requests[i]);
  /* A call may leave fields unchanged, usually MPI_ERROR: keep their old values. */
  for (int i = 0; i < taken->status_count; ++i)
    PMPI_Status_f2c(&statuses[i * STATUS_INTEGERS], &taken->statuses[i]);
  return MPI_SUCCESS;
}

void lanyard_f_give_back(lanyard_f_requests* taken) {
  for (int i = 0; i < taken->count; ++i)
    taken->f_requests[i] = PMPI_Request_c2f(taken->requests[i]);
  for (int i = 0; i < taken->status_count; ++i)
    PMPI_Status_c2f(&taken->statuses[i], &taken->f_statuses[i * STATUS_INTEGERS]);
  release(taken);
}

/* The value of .true. depends on the compiler: ask the MPI a question with that answer. */
void pmpi_initialized_(MPI_Fint* flag, MPI_Fint* error);

MPI_Fint lanyard_f_logical(int value) {
  MPI_Fint flag = 0;
  MPI_Fint error;
  if (value)
    pmpi_initialized_(&flag, &error);
  return flag;
}

void* lanyard_f_buffer(void* buffer) {
#ifdef OPEN_MPI
  extern int mpi_fortran_bottom_, mpi_fortran_in_place_;
  if (buffer == &mpi_fortran_in_place_)
    return MPI_IN_PLACE;
  if (buffer == &mpi_fortran_bottom_)
    return MPI_BOTTOM;
#endif
  return buffer;
}
