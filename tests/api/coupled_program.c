// One of two programs of a job. Ranks 0 and 1 run this one, which uses Lanyard. Rank 2 runs
// plain_program.c, which does not.
//
//   coupled_program none      matches nothing
//   coupled_program own       rank 0 sends to rank 1 on this program's communicator
//   coupled_program imatch    the same; rank 1's match completes while it waits in MPI_Barrier
//   coupled_program any       the same as imatch; rank 1 receives from any source
//   coupled_program stranger  rank 0 matches a send to rank 2
//   coupled_program received  rank 0 matches a receive from rank 2
#include <lanyard/lanyard.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void check(int code, const char* call) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (code == MPI_SUCCESS)
    return;
  MPI_Error_string(code, text, &length);
  printf("%s: %s\n", call, text);
  ++failures;
}

static void exchange(MPI_Comm own, int rank, int source, int early) {
  int sent = 4711, got = -1;
  MPI_Request request, match;
  MPIX_Host_stream stream;
  MPIX_Queue queue;
  if (rank == 0)
    MPI_Send_init(&sent, 1, MPI_INT, 1, 5, own, &request);
  else
    MPI_Recv_init(&got, 1, MPI_INT, source, 5, own, &request);
  if (rank == 1 && early) {
    check(MPIX_Imatch(&request, &match), "MPIX_Imatch");
    MPI_Barrier(own);
    check(MPI_Wait(&match, MPI_STATUS_IGNORE), "MPI_Wait");
  } else {
    check(MPIX_Match(&request, MPI_STATUS_IGNORE), "MPIX_Match");
    if (early)
      MPI_Barrier(own);
  }
  check(MPIX_Host_stream_create(&stream), "MPIX_Host_stream_create");
  check(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream), "MPIX_Queue_init");
  check(MPIX_Enqueue_start(queue, &request), "MPIX_Enqueue_start");
  check(MPIX_Enqueue_wait(queue, &request), "MPIX_Enqueue_wait");
  check(MPIX_Queue_wait(queue), "MPIX_Queue_wait");
  check(MPI_Request_free(&request), "MPI_Request_free");
  check(MPIX_Queue_free(&queue), "MPIX_Queue_free");
  check(MPIX_Host_stream_free(&stream), "MPIX_Host_stream_free");
  if (rank == 1 && got != sent) {
    printf("rank 1 received %d, not %d\n", got, sent);
    ++failures;
  }
}

static void match_stranger(int receive) {
  int value = 0, length = 0;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Request request;
  if (receive)
    MPI_Recv_init(&value, 1, MPI_INT, 2, 5, MPI_COMM_WORLD, &request);
  else
    MPI_Send_init(&value, 1, MPI_INT, 2, 5, MPI_COMM_WORLD, &request);
  const int code = MPIX_Match(&request, MPI_STATUS_IGNORE);
  MPI_Error_string(code, text, &length);
  if (code == MPI_SUCCESS || strstr(text, "rank 2") == NULL || strstr(text, "not linked with Lanyard") == NULL) {
    printf("the match with rank 2 does not report that it is not linked with Lanyard: %s\n", text);
    ++failures;
  }
  check(MPI_Request_free(&request), "MPI_Request_free");
}

int main(int argc, char** argv) {
  int rank = 0, sum = 0;
  const char* what = argc > 1 ? argv[1] : "none";
  MPI_Comm own;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &own);
  if (strcmp(what, "own") == 0)
    exchange(own, rank, 0, 0);
  else if (strcmp(what, "imatch") == 0)
    exchange(own, rank, 0, 1);
  else if (strcmp(what, "any") == 0)
    exchange(own, rank, MPI_ANY_SOURCE, 1);
  else if (rank == 0 && strcmp(what, "none") != 0)
    match_stranger(strcmp(what, "received") == 0);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_free(&own);
  printf("coupled: sum %d, %d failures\n", sum, failures);
  MPI_Finalize();
  return failures != 0;
}
