/* LANYARD_F_ROUTINE: a routine of MPI's that Fortran programs call, and that stands in front of the MPI's own.
 *
 *                      mpif.h, module mpi                  module mpi_f08
 *   Open MPI           mpi_wait_ -> PMPI_Wait              mpi_wait_f08_ -> PMPI_Wait
 *   MPICH              mpi_wait_ -> MPI_Wait               mpi_wait_f08_ -> PMPI_Wait
 *   MPICH, buffers     mpi_send_init_ -> MPI_Send_init     mpi_send_init_f08ts_ -> MPI_Send_init
 *
 * What goes to an MPI_ function of C is Lanyard's already. For the rest there are these, whose names are those of MPI
 * 4.0 section 19.1.5, so that tools can do what we do. Each lets the MPI's own routine have the call, by its profiling
 * name, with the arguments as they came, wherever Lanyard has no part in it: the MPI's constants, descriptors and
 * logicals are then none of our business. */
#ifndef LANYARD_API_FORTRAN_ROUTINE_H_
#define LANYARD_API_FORTRAN_ROUTINE_H_

#include <mpi.h>
#include <stddef.h>

typedef MPI_Fint* f_ref; /* Fortran passes by address */

#define LANYARD_F_LIST(...) __VA_ARGS__

/* Open MPI's mpi_f08 passes buffers by address, as mpif.h does: one function serves all bindings. `error` is optional
 * in mpi_f08. */
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

/* Followed by the body of what the routine does, in which `actual` is the MPI's own. PARAMETERS and ARGUMENTS are in
 * parentheses and end with `error`, which is never NULL there. */
#define LANYARD_F_ROUTINE(name, PARAMETERS, ARGUMENTS)                         \
  typedef void actual_##name(LANYARD_F_LIST PARAMETERS);                       \
  static void follow_##name(actual_##name* actual, LANYARD_F_LIST PARAMETERS); \
  LANYARD_F_SYMBOLS(name, PARAMETERS, ARGUMENTS)                               \
  static void follow_##name(actual_##name* actual, LANYARD_F_LIST PARAMETERS)

#endif /* LANYARD_API_FORTRAN_ROUTINE_H_ */
