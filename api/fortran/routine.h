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

typedef MPI_Fint* f_ref; /* Fortran passes by address */

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

#endif /* LANYARD_API_FORTRAN_ROUTINE_H_ */
