/* LANYARD_F_ROUTINE: intercepts an MPI routine of Fortran. The MPI's own routines call:
 *
 *                      mpif.h, module mpi                  module mpi_f08
 *   Open MPI           mpi_wait_ -> PMPI_Wait              mpi_wait_f08_ -> PMPI_Wait
 *   MPICH              mpi_wait_ -> MPI_Wait               mpi_wait_f08_ -> PMPI_Wait
 *   MPICH, buffers     mpi_send_init_ -> MPI_Send_init     mpi_send_init_f08ts_ -> MPI_Send_init
 *
 * Lanyard already intercepts routines that call an MPI_ function of C. This macro is for the
 * others. The routines have the names of MPI 4.0 section 19.1.5. If a call does not concern
 * Lanyard, it goes to the MPI's own routine by its profiling name, with unchanged arguments:
 * Lanyard need not understand the MPI's constants, descriptors and logicals. */
#ifndef LANYARD_API_FORTRAN_ROUTINE_H_
#define LANYARD_API_FORTRAN_ROUTINE_H_

#include <mpi.h>
#include <stddef.h>

/* Fortran passes everything by address. */
typedef MPI_Fint* f_ref;
typedef const MPI_Fint* f_in;
_Static_assert(sizeof(MPI_Fint) == sizeof(int), "default integers of Fortran must be C's int");

#define LANYARD_F_LIST(...) __VA_ARGS__

/* Open MPI's mpi_f08 passes buffers by address like mpif.h, so one function serves all bindings. In
 * mpi_f08 `error` is optional. */
#define LANYARD_F_SYMBOL(name, symbol, actual, PARAMETERS, ARGUMENTS) \
  void actual(LANYARD_F_LIST PARAMETERS);                             \
  void symbol(LANYARD_F_LIST PARAMETERS) {                            \
    MPI_Fint unwanted;                                                \
    if (error == NULL)                                                \
      error = &unwanted;                                              \
    follow_##name(actual, LANYARD_F_LIST ARGUMENTS);                  \
  }

#ifdef OPEN_MPI
#define LANYARD_F_SYMBOLS(name, PARAMETERS, ARGUMENTS)                         \
  LANYARD_F_SYMBOL(name, mpi_##name##_, pmpi_##name##_, PARAMETERS, ARGUMENTS) \
  LANYARD_F_SYMBOL(name, mpi_##name##_f08_, pmpi_##name##_f08_, PARAMETERS, ARGUMENTS)
#else
#define LANYARD_F_SYMBOLS(name, PARAMETERS, ARGUMENTS) \
  LANYARD_F_SYMBOL(name, mpi_##name##_f08_, pmpir_##name##_f08_, PARAMETERS, ARGUMENTS)
#endif

/* Write the body of the routine after the macro. There `actual` is the MPI's own routine, and
 * `error` is never NULL. PARAMETERS and ARGUMENTS are in parentheses and end with `error`. */
#define LANYARD_F_ROUTINE(name, PARAMETERS, ARGUMENTS)                         \
  typedef void actual_##name(LANYARD_F_LIST PARAMETERS);                       \
  static void follow_##name(actual_##name* actual, LANYARD_F_LIST PARAMETERS); \
  LANYARD_F_SYMBOLS(name, PARAMETERS, ARGUMENTS)                               \
  static void follow_##name(actual_##name* actual, LANYARD_F_LIST PARAMETERS)

/* ---- Conversions to C. Requests and statuses are in arrays of default integers. */

/* The requests and statuses of a call. */
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

/* Runs a C statement on `taken`, the requests and statuses in C. The statement sets `code`, as
 * lanyard_f_take does if it fails. */
#define LANYARD_F_TAKE(code, count, requests, status_count, statuses, statement)                     \
  do {                                                                                               \
    lanyard_f_requests taken;                                                                        \
    if (((code) = lanyard_f_take(&taken, count, requests, status_count, statuses)) == MPI_SUCCESS) { \
      statement;                                                                                     \
      lanyard_f_give_back(&taken);                                                                   \
    }                                                                                                \
  } while (0)

/* .true. or .false., whose values depend on the compiler. Requires that MPI is initialised. */
MPI_Fint lanyard_f_logical(int value);

/* A buffer of the program. Converts MPI_IN_PLACE and MPI_BOTTOM where they are variables in Fortran
 * that all bindings pass by address. */
void* lanyard_f_buffer(void* buffer);

#endif /* LANYARD_API_FORTRAN_ROUTINE_H_ */
