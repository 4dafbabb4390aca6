/* MPI's objects as Fortran has them: requests and statuses in arrays of default integers, logicals of the compiler's
 * own values. Fortran passes everything by address. */
#ifndef LANYARD_API_FORTRAN_HANDLES_H_
#define LANYARD_API_FORTRAN_HANDLES_H_

#include <mpi.h>

_Static_assert(sizeof(MPI_Fint) == sizeof(int), "default integers of Fortran must be C's int");

/* The requests of a call, and its statuses, while C has them. */
enum { LANYARD_F_FEW = 8 };
typedef struct lanyard_f_requests {
  int count;
  int status_count;
  MPI_Fint* f_requests;
  MPI_Fint* f_statuses;
  MPI_Request* requests;
  MPI_Status* statuses; /* may be MPI_STATUSES_IGNORE */
  MPI_Request few_requests[LANYARD_F_FEW];
  MPI_Status few_statuses[LANYARD_F_FEW];
} lanyard_f_requests;

/* Numbers below zero count as none, `statuses` may be one of Fortran's constants to ignore them. Returns MPI_SUCCESS;
 * MPI_ERR_NO_MEM, of which MPI_COMM_WORLD's error handler has been told: there is nothing to give back then. */
int lanyard_f_take(lanyard_f_requests* taken, int count, MPI_Fint* requests, int status_count, MPI_Fint* statuses);
/* Gives back what the call has made of them. */
void lanyard_f_give_back(lanyard_f_requests* taken);

/* .true. or .false. Requires that MPI has been initialised. */
MPI_Fint lanyard_f_logical(int value);

#endif /* LANYARD_API_FORTRAN_HANDLES_H_ */
