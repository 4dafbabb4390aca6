/* A profiling tool that counts calls, and then calls the PMPI_ function.
 * -DBY_NEXT: calls the next library's function instead.
 * -DONLY_MESSAGES: intercepts only functions that Lanyard does not.
 * -DWITHOUT_INIT: does not intercept MPI_Init. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

static int sends, requests, waits;

#ifdef BY_NEXT
#define NEXT(name) ((__typeof__(&P##name))dlsym(RTLD_NEXT, #name))
#else
#define NEXT(name) P##name
#endif

int MPI_Send(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm communicator) {
  ++sends;
  return NEXT(MPI_Send)(buffer, count, type, peer, tag, communicator);
}
#ifndef ONLY_MESSAGES
#ifndef WITHOUT_INIT
int MPI_Init(int* argc, char*** argv) { return NEXT(MPI_Init)(argc, argv); }
#endif
int MPI_Send_init(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm communicator,
                  MPI_Request* request) {
  ++requests;
  return NEXT(MPI_Send_init)(buffer, count, type, peer, tag, communicator, request);
}
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  ++waits;
  return NEXT(MPI_Wait)(request, status);
}
#endif
int MPI_Finalize(void) {
  printf("profiler: %d sends, %d requests, %d waits\n", sends, requests, waits);
  fflush(stdout);
  return NEXT(MPI_Finalize)();
}
