/* MPI_Init, and constructors of persistent requests. */

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

#ifdef OPEN_MPI

/* Fortran's MPI_BOTTOM: a variable of Open MPI, in all its bindings. */
extern int mpi_fortran_bottom_;

static const void* buffer_of(const void* buffer) { return buffer == &mpi_fortran_bottom_ ? MPI_BOTTOM : buffer; }

#define REQUEST_INIT(name, kind)                                                                           \
  LANYARD_F_ROUTINE(name,                                                                                  \
                    (void* buffer, f_ref count, f_ref datatype, f_ref peer, f_ref tag, f_ref communicator, \
                     f_ref request, f_ref error),                                                          \
                    (buffer, count, datatype, peer, tag, communicator, request, error)) {                  \
    actual(buffer, count, datatype, peer, tag, communicator, request, error);                              \
    if (*error == MPI_SUCCESS)                                                                             \
      lanyard_follow_request(kind, buffer_of(buffer), *count, PMPI_Type_f2c(*datatype), *peer, *tag,       \
                             PMPI_Comm_f2c(*communicator), PMPI_Request_f2c(*request));                    \
  }

REQUEST_INIT(send_init, LANYARD_SEND)
REQUEST_INIT(ssend_init, LANYARD_SEND)
REQUEST_INIT(rsend_init, LANYARD_READY_SEND)
REQUEST_INIT(bsend_init, LANYARD_BUFFERED_SEND)
REQUEST_INIT(recv_init, LANYARD_RECEIVE)

#endif
