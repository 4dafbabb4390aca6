#define _DEFAULT_SOURCE  // setenv(), sleep()
// One of two programs of a job. All ranks but the last run this one, which uses Lanyard. The last
// runs plain_program.c, which does not.
//
//   coupled_program none      matches nothing
//   coupled_program own       rank 0 sends to rank 1 on this program's communicator
// coupled_program any       rank 1 receives from any source, and its match completes while it waits
//                             in MPI_Barrier
//   coupled_program stranger  rank 0 matches a send to the last rank
//   coupled_program received  rank 0 matches a receive from the last rank
//   coupled_program no-card   rank 1 has no card, and rank 0 matches a send to it
//   coupled_program two       as any, but a letter of rank 2 arrives before that of rank 0
//   coupled_program ends      rank 0 gives up matching rank 1 and ends; rank 1 then matches rank 2
#include <lanyard/lanyard.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

// Matches with a rank that cannot match; the error has to name the rank and say why.
static void match_in_vain(int peer, int receive, const char* why) {
  int value = 0, length = 0;
  char text[MPI_MAX_ERROR_STRING], name[32];
  MPI_Request request;
  if (receive)
    MPI_Recv_init(&value, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &request);
  else
    MPI_Send_init(&value, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &request);
  const int code = MPIX_Match(&request, MPI_STATUS_IGNORE);
  MPI_Error_string(code, text, &length);
  snprintf(name, sizeof name, "rank %d", peer);
  if (code == MPI_SUCCESS || strstr(text, name) == NULL || strstr(text, why) == NULL) {
    printf("the match with rank %d: expected an error with '%s', got: %s\n", peer, why, text);
    ++failures;
  }
  check(MPI_Request_free(&request), "MPI_Request_free");
}

static void match_without_card(void) {
  int value = 0;
  MPI_Request request;
  MPI_Recv_init(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request);
  if (MPIX_Match(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
    printf("a match without a card succeeded\n");
    ++failures;
  }
  MPI_Request_free(&request);
}

static void signal_rank(int to, MPI_Comm own) { MPI_Send(NULL, 0, MPI_INT, to, 77, own); }
static void wait_for_rank(int from, MPI_Comm own) { MPI_Recv(NULL, 0, MPI_INT, from, 77, own, MPI_STATUS_IGNORE); }

// Rank 1 receives from any source and waits in a barrier. The letter of rank 2 arrives first, but
// its send has another tag.
static void match_two_writers(MPI_Comm own, int rank) {
  int value = rank;
  MPI_Request request, match;
  if (rank == 1)
    MPI_Recv_init(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, own, &request);
  else
    MPI_Send_init(&value, 1, MPI_INT, 1, rank == 0 ? 5 : 9, own, &request);
  if (rank == 0)
    wait_for_rank(2, own);
  check(MPIX_Imatch(&request, &match), "MPIX_Imatch");
  if (rank == 2)
    signal_rank(0, own);
  if (rank == 0)
    check(MPI_Wait(&match, MPI_STATUS_IGNORE), "MPI_Wait");
  MPI_Barrier(own);
  if (rank == 1) {
    check(MPI_Wait(&match, MPI_STATUS_IGNORE), "MPI_Wait");
    check(MPI_Request_free(&request), "MPI_Request_free");
    MPI_Recv_init(&value, 1, MPI_INT, 2, 9, own, &request);
    check(MPIX_Match(&request, MPI_STATUS_IGNORE), "MPIX_Match");
  } else if (rank == 2) {
    check(MPI_Wait(&match, MPI_STATUS_IGNORE), "MPI_Wait");
  }
  check(MPI_Request_free(&request), "MPI_Request_free");
}

static void match_with(int peer, int send, MPI_Comm own) {
  int value = 0;
  MPI_Request request;
  if (send)
    MPI_Send_init(&value, 1, MPI_INT, peer, 6, own, &request);
  else
    MPI_Recv_init(&value, 1, MPI_INT, peer, 6, own, &request);
  check(MPIX_Match(&request, MPI_STATUS_IGNORE), "MPIX_Match");
  check(MPI_Request_free(&request), "MPI_Request_free");
}

// Rank 2 knows rank 0, and is busy until rank 0 is in MPI_Finalize. Only then does rank 1 read both
// letters of rank 0.
static void end_unanswered(MPI_Comm own, int rank) {
  if (rank == 0) {
    match_with(2, 1, own);
    match_in_vain(1, 0, "not known");
    signal_rank(1, own);
    return;
  }
  if (rank == 1) {
    wait_for_rank(0, own);
    sleep(1);
    signal_rank(2, own);
  } else {
    match_with(0, 0, own);
    wait_for_rank(1, own);
  }
  match_with(3 - rank, rank == 1, own);
}

int main(int argc, char** argv) {
  int rank = 0, size = 0, sum = 0;
  const char* number = getenv("OMPI_COMM_WORLD_RANK") != NULL ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
  const char* what = argc > 1 ? argv[1] : "none";
  MPI_Comm own;
  if (strcmp(what, "no-card") == 0 && number != NULL && strcmp(number, "1") == 0)
    setenv("LANYARD_SIM_INTERFACE", "no-such-interface", 1), setenv("LANYARD_SIM_WIRE", "tcp", 1);
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &own);
  if (strcmp(what, "own") == 0)
    exchange(own, rank, 0, 0);
  else if (strcmp(what, "any") == 0)
    exchange(own, rank, MPI_ANY_SOURCE, 1);
  else if (strcmp(what, "two") == 0)
    match_two_writers(own, rank);
  else if (strcmp(what, "no-card") == 0 && rank == 0)
    match_in_vain(1, 0, "its own matching call says why");
  else if (strcmp(what, "no-card") == 0)
    match_without_card();
  else if (rank == 0 && (strcmp(what, "stranger") == 0 || strcmp(what, "received") == 0))
    match_in_vain(size - 1, strcmp(what, "received") == 0, "not linked with Lanyard");
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (strcmp(what, "ends") == 0)
    end_unanswered(own, rank);
  MPI_Comm_free(&own);
  printf("coupled: sum %d, %d failures\n", sum, failures);
  MPI_Finalize();
  return failures != 0;
}
