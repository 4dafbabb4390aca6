/* Converts MPI objects of Fortran to C: requests and statuses in arrays of default integers, and
 * logicals, whose values depend on the compiler. Fortran passes everything by address. */
#ifndef LANYARD_API_FORTRAN_HANDLES_H_
#define LANYARD_API_FORTRAN_HANDLES_H_

#include <mpi.h>

_Static_assert(sizeof(MPI_Fint) == sizeof(int), "default integers of Fortran must be C's int");

/* The requests and statuses of a call, converted to C. */
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

/* Converts requests and statuses to C. A negative count is taken as 0. `statuses` may be one of
 * Fortran's constants that ignore statuses. Returns MPI_SUCCESS. Or MPI_ERR_NO_MEM: then it has
 * invoked the error handler of MPI_COMM_WORLD, and `taken` needs no lanyard_f_give_back. */
int lanyard_f_take(lanyard_f_requests* taken, int count, MPI_Fint* requests, int status_count, MPI_Fint* statuses);
/* Converts requests and statuses back to Fortran, and frees the memory of `taken`. */
void lanyard_f_give_back(lanyard_f_requests* taken);

/* .true. or .false. Requires that MPI is initialised. */
MPI_Fint lanyard_f_logical(int value);

#endif /* LANYARD_API_FORTRAN_HANDLES_H_ */
