/* For wrappers of other languages: report calls that do not go through MPI's C functions. Fortran
 * routines call the MPI directly, so their wrappers (api/fortran) make the call and report it here.
 * Report only calls that succeeded. Before MPI_Init and after MPI_Finalize these do nothing. */
#ifndef LANYARD_API_FOLLOWED_CALLS_H_
#define LANYARD_API_FOLLOWED_CALLS_H_

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* MPI_Init or MPI_Init_thread. Collective. */
void lanyard_follow_init(void);

typedef enum lanyard_request_kind {
  LANYARD_SEND, /* regular or synchronous */
  LANYARD_READY_SEND,
  LANYARD_BUFFERED_SEND,
  LANYARD_RECEIVE
} lanyard_request_kind;

/* MPI_Send_init and its like, with the arguments and the new request. */
void lanyard_follow_request(lanyard_request_kind kind, const void* buffer, int count, MPI_Datatype datatype, int peer,
                            int tag, MPI_Comm communicator, MPI_Request request);

/* Any constructor of communicators, including MPI_Comm_idup; and MPI_Comm_create_group. */
void lanyard_follow_child(MPI_Comm parent, MPI_Comm child);
void lanyard_follow_group_child(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm child);

/* If lanyard_watches() is 0, calls that start, test, wait for or cancel the request may bypass
 * Lanyard. If it is 1, they must use MPI's C functions. It may be 1 without need. It is 0 for all
 * requests while lanyard_watches_any() is 0. */
int lanyard_watches_any(void);
int lanyard_watches(MPI_Request request);

#ifdef __cplusplus
}
#endif

#endif /* LANYARD_API_FOLLOWED_CALLS_H_ */
