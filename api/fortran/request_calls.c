/* MPI's calls on requests and error codes. If no request concerns Lanyard, the MPI
 * gets the call. */

#include "api/followed_calls.h"
#include "api/fortran/routine.h"

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
