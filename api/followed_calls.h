/* What the bindings of another language tell Lanyard: that a call has been made which came by no MPI_ function of C's.
 * Fortran's routines go to the MPI by ways of their own, so their wrappers (api/fortran) let them, and tell what came
 * of it. Each of these is for a call that has succeeded, and does nothing between MPI_Finalize and MPI_Init. */
#ifndef LANYARD_API_FOLLOWED_CALLS_H_
#define LANYARD_API_FOLLOWED_CALLS_H_

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* MPI_Init or MPI_Init_thread. Collective. */
void lanyard_follow_init(void);

typedef enum lanyard_request_kind {
  LANYARD_SEND,
  LANYARD_READY_SEND,
  LANYARD_BUFFERED_SEND,
  LANYARD_RECEIVE,
  LANYARD_SYNCHRONOUS_SEND /* differs from a regular one where short messages of those go by lanes */
} lanyard_request_kind;

/* MPI_Send_init and its like, with the call's arguments and the request that it has made. */
void lanyard_follow_request(lanyard_request_kind kind, const void* buffer, int count, MPI_Datatype datatype, int peer,
                            int tag, MPI_Comm communicator, MPI_Request request);

/* A constructor of communicators: of any kind, MPI_Comm_idup too; MPI_Comm_create_group. */
void lanyard_follow_child(MPI_Comm parent, MPI_Comm child);
void lanyard_follow_group_child(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm child);

/* Calls that start, test, wait for or cancel a request for which this is 0 may be made without Lanyard; others must be
 * made by the MPI_ functions of C. May say 1 where 0 would do; is 0 for all requests while the first one says 0. */
int lanyard_watches_any(void);
int lanyard_watches(MPI_Request request);

#ifdef __cplusplus
}
#endif

#endif /* LANYARD_API_FOLLOWED_CALLS_H_ */
