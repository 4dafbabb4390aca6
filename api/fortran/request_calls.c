/* Requests and statuses in C, and MPI's calls on requests and error codes. If no request concerns
 * Lanyard, the MPI gets the call. */

#include <stdlib.h>

#include "api/followed_calls.h"
#include "api/fortran/routine.h"

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

/* ---- The calls */

static int are_plain(int count, const MPI_Fint* requests) {
  if (!lanyard_watches_any())
    return 1;
  for (int i = 0; i < count; ++i)
    if (lanyard_watches(PMPI_Request_f2c(requests[i])))
      return 0;
  return 1;
}

/* Intercepts a call: the MPI's own routine gets it, or a C statement on `taken`, the requests and
 * statuses in C. */
#define REQUEST_CALL(name, PARAMETERS, ARGUMENTS, count, requests, status_count, statuses, statement) \
  LANYARD_F_ROUTINE(name, PARAMETERS, ARGUMENTS) {                                                    \
    if (are_plain(count, requests))                                                                   \
      actual ARGUMENTS;                                                                               \
    else                                                                                              \
      LANYARD_F_TAKE(*error, count, requests, status_count, statuses, statement);                     \
  }

/* Fortran's arrays begin at index 1. */
static void count_from_one(MPI_Fint* index) {
  if (*index != MPI_UNDEFINED)
    ++*index;
}

static void count_all_from_one(int count, MPI_Fint indices[]) {
  for (int i = 0; count != MPI_UNDEFINED && i < count; ++i)
    ++indices[i];
}

/* True if a call on several requests has completed some of them. */
static int some_are_done(int code) {
  int error_class = MPI_ERR_OTHER;
  return code == MPI_SUCCESS ||
         (MPI_Error_class(code, &error_class) == MPI_SUCCESS && error_class == MPI_ERR_IN_STATUS);
}

REQUEST_CALL(start, (f_ref request, f_ref error), (request, error), 1, request, 0, NULL,
             *error = MPI_Start(taken.requests))

REQUEST_CALL(startall, (f_ref count, f_ref requests, f_ref error), (count, requests, error), *count, requests, 0, NULL,
             *error = MPI_Startall(*count, taken.requests))

REQUEST_CALL(wait, (f_ref request, f_ref status, f_ref error), (request, status, error), 1, request, 1, status,
             *error = MPI_Wait(taken.requests, taken.statuses))

REQUEST_CALL(waitall, (f_ref count, f_ref requests, f_ref statuses, f_ref error), (count, requests, statuses, error),
             *count, requests, *count, statuses, *error = MPI_Waitall(*count, taken.requests, taken.statuses))

REQUEST_CALL(waitany, (f_ref count, f_ref requests, f_ref index, f_ref status, f_ref error),
             (count, requests, index, status, error), *count, requests, 1, status, {
               *error = MPI_Waitany(*count, taken.requests, index, taken.statuses);
               if (*error == MPI_SUCCESS)
                 count_from_one(index);
             })

REQUEST_CALL(waitsome, (f_ref count, f_ref requests, f_ref done, f_ref indices, f_ref statuses, f_ref error),
             (count, requests, done, indices, statuses, error), *count, requests, *count, statuses, {
               *error = MPI_Waitsome(*count, taken.requests, done, indices, taken.statuses);
               if (some_are_done(*error))
                 count_all_from_one(*done, indices);
             })

REQUEST_CALL(test, (f_ref request, f_ref flag, f_ref status, f_ref error), (request, flag, status, error), 1, request,
             1, status, {
               int done = 0;
               *error = MPI_Test(taken.requests, &done, taken.statuses);
               *flag = lanyard_f_logical(done);
             })

REQUEST_CALL(testall, (f_ref count, f_ref requests, f_ref flag, f_ref statuses, f_ref error),
             (count, requests, flag, statuses, error), *count, requests, *count, statuses, {
               int done = 0;
               *error = MPI_Testall(*count, taken.requests, &done, taken.statuses);
               *flag = lanyard_f_logical(done);
             })

REQUEST_CALL(testany, (f_ref count, f_ref requests, f_ref index, f_ref flag, f_ref status, f_ref error),
             (count, requests, index, flag, status, error), *count, requests, 1, status, {
               int done = 0;
               *error = MPI_Testany(*count, taken.requests, index, &done, taken.statuses);
               *flag = lanyard_f_logical(done);
               if (*error == MPI_SUCCESS)
                 count_from_one(index);
             })

REQUEST_CALL(testsome, (f_ref count, f_ref requests, f_ref done, f_ref indices, f_ref statuses, f_ref error),
             (count, requests, done, indices, statuses, error), *count, requests, *count, statuses, {
               *error = MPI_Testsome(*count, taken.requests, done, indices, taken.statuses);
               if (some_are_done(*error))
                 count_all_from_one(*done, indices);
             })

REQUEST_CALL(cancel, (f_ref request, f_ref error), (request, error), 1, request, 0, NULL,
             *error = MPI_Cancel(taken.requests))

REQUEST_CALL(request_get_status, (f_ref request, f_ref flag, f_ref status, f_ref error), (request, flag, status, error),
             1, request, 1, status, {
               int done = 0;
               *error = MPI_Request_get_status(taken.requests[0], &done, taken.statuses);
               *flag = lanyard_f_logical(done);
             })

/* These have only integers to convert, so they call C's functions. */

LANYARD_F_ROUTINE(request_free, (f_ref request, f_ref error), (request, error)) {
  (void)actual;
  MPI_Request handle = PMPI_Request_f2c(*request);
  *error = MPI_Request_free(&handle);
  if (*error == MPI_SUCCESS)
    *request = PMPI_Request_c2f(handle);
}

LANYARD_F_ROUTINE(error_class, (f_ref number, f_ref class_of_it, f_ref error), (number, class_of_it, error)) {
  (void)actual;
  *error = MPI_Error_class(*number, class_of_it);
}
