/* MPI's calls on requests and error codes. If no request concerns Lanyard, the MPI
 * gets the call. */

#include "api/followed_calls.h"
#include "api/fortran/handles.h"
#include "api/fortran/routine.h"

static int are_plain(int count, const MPI_Fint* requests) {
  if (!lanyard_watches_any())
    return 1;
  for (int i = 0; i < count; ++i)
    if (lanyard_watches(PMPI_Request_f2c(requests[i])))
      return 0;
  return 1;
}

/* A call: the MPI's own routine, or a C statement on `taken`, the requests and statuses in C. */
#define CALL(count, requests, status_count, statuses, ARGUMENTS, statement)                                 \
  do {                                                                                                      \
    lanyard_f_requests taken;                                                                               \
    if (are_plain(count, requests)) {                                                                       \
      actual ARGUMENTS;                                                                                     \
    } else if ((*error = lanyard_f_take(&taken, count, requests, status_count, statuses)) == MPI_SUCCESS) { \
      statement;                                                                                            \
      lanyard_f_give_back(&taken);                                                                          \
    }                                                                                                       \
  } while (0)

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

LANYARD_F_ROUTINE(start, (f_ref request, f_ref error), (request, error)) {
  CALL(1, request, 0, NULL, (request, error), *error = MPI_Start(taken.requests));
}

LANYARD_F_ROUTINE(startall, (f_ref count, f_ref requests, f_ref error), (count, requests, error)) {
  CALL(*count, requests, 0, NULL, (count, requests, error), *error = MPI_Startall(*count, taken.requests));
}

LANYARD_F_ROUTINE(wait, (f_ref request, f_ref status, f_ref error), (request, status, error)) {
  CALL(1, request, 1, status, (request, status, error), *error = MPI_Wait(taken.requests, taken.statuses));
}

LANYARD_F_ROUTINE(waitall, (f_ref count, f_ref requests, f_ref statuses, f_ref error),
                  (count, requests, statuses, error)) {
  CALL(*count, requests, *count, statuses, (count, requests, statuses, error),
       *error = MPI_Waitall(*count, taken.requests, taken.statuses));
}

LANYARD_F_ROUTINE(waitany, (f_ref count, f_ref requests, f_ref index, f_ref status, f_ref error),
                  (count, requests, index, status, error)) {
  CALL(*count, requests, 1, status, (count, requests, index, status, error), {
    *error = MPI_Waitany(*count, taken.requests, index, taken.statuses);
    if (*error == MPI_SUCCESS)
      count_from_one(index);
  });
}

LANYARD_F_ROUTINE(waitsome, (f_ref count, f_ref requests, f_ref done, f_ref indices, f_ref statuses, f_ref error),
                  (count, requests, done, indices, statuses, error)) {
  CALL(*count, requests, *count, statuses, (count, requests, done, indices, statuses, error), {
    *error = MPI_Waitsome(*count, taken.requests, done, indices, taken.statuses);
    if (some_are_done(*error))
      count_all_from_one(*done, indices);
  });
}

LANYARD_F_ROUTINE(test, (f_ref request, f_ref flag, f_ref status, f_ref error), (request, flag, status, error)) {
  CALL(1, request, 1, status, (request, flag, status, error), {
    int done = 0;
    *error = MPI_Test(taken.requests, &done, taken.statuses);
    *flag = lanyard_f_logical(done);
  });
}

LANYARD_F_ROUTINE(testall, (f_ref count, f_ref requests, f_ref flag, f_ref statuses, f_ref error),
                  (count, requests, flag, statuses, error)) {
  CALL(*count, requests, *count, statuses, (count, requests, flag, statuses, error), {
    int done = 0;
    *error = MPI_Testall(*count, taken.requests, &done, taken.statuses);
    *flag = lanyard_f_logical(done);
  });
}

LANYARD_F_ROUTINE(testany, (f_ref count, f_ref requests, f_ref index, f_ref flag, f_ref status, f_ref error),
                  (count, requests, index, flag, status, error)) {
  CALL(*count, requests, 1, status, (count, requests, index, flag, status, error), {
    int done = 0;
    *error = MPI_Testany(*count, taken.requests, index, &done, taken.statuses);
    *flag = lanyard_f_logical(done);
    if (*error == MPI_SUCCESS)
      count_from_one(index);
  });
}

LANYARD_F_ROUTINE(testsome, (f_ref count, f_ref requests, f_ref done, f_ref indices, f_ref statuses, f_ref error),
                  (count, requests, done, indices, statuses, error)) {
  CALL(*count, requests, *count, statuses, (count, requests, done, indices, statuses, error), {
    *error = MPI_Testsome(*count, taken.requests, done, indices, taken.statuses);
    if (some_are_done(*error))
      count_all_from_one(*done, indices);
  });
}

LANYARD_F_ROUTINE(cancel, (f_ref request, f_ref error), (request, error)) {
  CALL(1, request, 0, NULL, (request, error), *error = MPI_Cancel(taken.requests));
}

LANYARD_F_ROUTINE(request_get_status, (f_ref request, f_ref flag, f_ref status, f_ref error),
                  (request, flag, status, error)) {
  CALL(1, request, 1, status, (request, flag, status, error), {
    int done = 0;
    *error = MPI_Request_get_status(taken.requests[0], &done, taken.statuses);
    *flag = lanyard_f_logical(done);
  });
}

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
