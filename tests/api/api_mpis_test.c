/* The prototype's names over Lanyard (lanyard/mpis.h), from C11 and in two files of one program: rings and ready halos
 * on queues of two kinds of use, and what the prototype ended in an exception for. Exit status 0 where all was right.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include <lanyard/mpis.h>

#define ROUNDS 20
#define LENGTH 64

#define EXPECT(condition)                                                    \
  do {                                                                       \
    if (!(condition)) {                                                      \
      ++mistakes;                                                            \
      fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition); \
    }                                                                        \
  } while (0)
#define OK(call) EXPECT((call) == MPIS_SUCCESS)

/* api_mpis_cpp.cc */
int* allocated_in_cpp(int count);
int free_in_cpp(void* address);

static int rank, ranks, mistakes;
static int errors_handled; /* how often the communicator's error handler was invoked */

static void count_error(MPI_Comm* communicator, int* code, ...) {
  (void)communicator, (void)code;
  ++errors_handled;
}

/* Starts in all three ways, with two waits, one or none before the queue's. */
static void pass_around_the_ring(void) {
  MPIS_Queue queue = MPIS_QUEUE_NULL;
  MPIS_Request pair[2];
  MPI_Status statuses[2];
  const int left = (rank + ranks - 1) % ranks;
  int round, in = -1, out;
  OK(MPIS_Recv_init(&in, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &pair[0]));
  OK(MPIS_Send_init(&out, 1, MPI_INT, (rank + 1) % ranks, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &pair[1]));
  OK(MPIS_Matchall(2, pair, statuses)); /* before there is a queue */
  EXPECT(statuses[0].MPI_SOURCE == left && statuses[0].MPI_TAG == 3);
  OK(MPIS_Queue_init(&queue, THREAD, NULL));
  EXPECT(queue != MPIS_QUEUE_NULL);
  for (round = 0; round < ROUNDS; ++round) {
    out = 100 * rank + round;
    if (round % 3 == 0) {
      OK(MPIS_Enqueue_startall(queue, 2, pair));
    } else {
      OK(MPIS_Enqueue_start(queue, &pair[0]));
      if (round % 3 == 1 && rank != 0)
        OK(MPIS_Enqueue_waitall(queue)); /* one rank after the other, by their streams */
      OK(MPIS_Enqueue_start(queue, &pair[1]));
    }
    if (round % 2 == 0) {
      OK(MPIS_Enqueue_waitall(queue));
      OK(MPIS_Enqueue_waitall(queue)); /* nothing is left to wait for */
    }
    OK(MPIS_Queue_wait(queue)); /* where there was no waitall, it is one */
    EXPECT(in == 100 * left + round);
  }
  OK(MPIS_Request_freeall(2, pair));
  EXPECT(pair[0] == MPIS_REQUEST_NULL && pair[1] == MPIS_REQUEST_NULL);
  OK(MPIS_Request_freeall(2, pair)); /* null ones are free */
  OK(MPIS_Queue_free(&queue));
  EXPECT(queue == MPIS_QUEUE_NULL);
  OK(MPIS_Queue_free(&queue));
}

static int halo_out[LENGTH], halo_in[LENGTH], halo_round, halo_peer;

static void pack(void* unused) {
  int i;
  (void)unused;
  for (i = 0; i < LENGTH; ++i)
    halo_out[i] = 1000 * rank + 10 * halo_round + i % 10;
}

static void check_halo(void* unused) {
  int i;
  (void)unused;
  for (i = 0; i < LENGTH; ++i)
    EXPECT(halo_in[i] == 1000 * halo_peer + 10 * halo_round + i % 10);
  ++halo_round;
}

/* Ready sends between neighbours. That a receive was started is told by a message the other way, by a second queue. */
static void exchange_ready_halos(void) {
  MPIS_Queue queue, telling;
  MPIS_Request halo[2], ready[2], matches[4];
  MPI_Status statuses[4];
  MPI_Comm pairs;
  int round, flag = 0, told = 0, heard = 0;
  halo_peer = rank ^ 1;
  /* A communicator of the same ranks, with the same tag: the prototype took one for the other. */
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pairs);
  if (halo_peer >= ranks) {
    MPI_Comm_free(&pairs);
    return;
  }
  OK(MPIS_Queue_init(&queue, THREAD, &flag)); /* an address that is not of Lanyard's, as the prototype's programs' */
  OK(MPIS_Queue_init(&telling, THREAD, NULL));
  OK(MPIS_Recv_init(halo_in, LENGTH, MPI_INT, halo_peer, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &halo[0]));
  OK(MPIS_Rsend_init(halo_out, LENGTH, MPI_INT, halo_peer, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &halo[1]));
  OK(MPIS_Recv_init(&heard, 1, MPI_INT, 1 - rank % 2, 5, pairs, MPI_INFO_NULL, &ready[0]));
  OK(MPIS_Send_init(&told, 1, MPI_INT, 1 - rank % 2, 5, pairs, MPI_INFO_NULL, &ready[1]));
  OK(MPIS_Imatch(&ready[0], &matches[0]));
  OK(MPIS_Imatch(&ready[1], &matches[1]));
  OK(MPIS_Imatch(&halo[0], &matches[2]));
  matches[3] = MPIS_REQUEST_NULL;
  OK(MPIS_Queue_match(queue, &halo[1], MPI_STATUS_IGNORE));
  OK(MPIS_Waitall(4, matches, statuses));
  EXPECT(matches[0] == MPIS_REQUEST_NULL && matches[2] == MPIS_REQUEST_NULL);
  EXPECT(statuses[2].MPI_SOURCE == halo_peer && statuses[0].MPI_SOURCE == 1 - rank % 2);
  OK(MPIS_Wait(&matches[3], NULL));
  OK(MPIS_Is_matched(&halo[0], &flag));
  EXPECT(flag);
  for (round = 0; round < ROUNDS; ++round) {
    OK(MPIS_Enqueue_start(queue, &halo[0]));
    MPIX_Host_stream_synchronize(queue->host_stream); /* it has started the receive */
    OK(MPIS_Enqueue_startall(telling, 2, ready));
    MPIX_Host_stream_launch(queue->host_stream, pack, NULL);
    OK(MPIS_Queue_wait(telling));
    OK(MPIS_Enqueue_start(queue, &halo[1]));
    OK(MPIS_Enqueue_waitall(queue));
    MPIX_Host_stream_launch(queue->host_stream, check_halo, NULL);
    OK(MPIS_Queue_wait(queue));
  }
  EXPECT(halo_round == ROUNDS);
  OK(MPIS_Request_freeall(2, halo));
  OK(MPIS_Request_freeall(2, ready));
  OK(MPIS_Queue_free(&telling));
  OK(MPIS_Queue_free(&queue));
  MPI_Comm_free(&pairs);
}

#define EXPECT_CODE(call, code)                                            \
  do {                                                                     \
    const int handled = errors_handled;                                    \
    EXPECT((call) == (code));                                              \
    EXPECT(errors_handled == handled + 1); /* MPI's handler hears of it */ \
  } while (0)
#define EXPECT_INVALID(call) EXPECT_CODE(call, MPIS_INVALID_REQUEST_STATE)
#define EXPECT_UNSUPPORTED(call) EXPECT_CODE(call, MPIS_UNSUPPORTED_BEHAVIOR)

/* Each of these is a code, changes nothing, and leaves the process and the queue to go on. */
static void misuse(void) {
  MPIS_Queue queue = MPIS_QUEUE_NULL, none = MPIS_QUEUE_NULL;
  MPIS_Request pair[3], both[2], match = MPIS_REQUEST_NULL;
  MPI_Status statuses[2];
  int in = -1, out = 7, flag = 1;
  OK(MPIS_Queue_init(&queue, THREAD, NULL));
  OK(MPIS_Recv_init(&in, 1, MPI_INT, rank, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &pair[0]));
  OK(MPIS_Send_init(&out, 1, MPI_INT, rank, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &pair[1]));
  pair[2] = MPIS_REQUEST_NULL;
  EXPECT_INVALID(MPIS_Enqueue_start(queue, &pair[0])); /* without a match */
  EXPECT_INVALID(MPIS_Enqueue_startall(queue, 2, pair));
  OK(MPIS_Is_matched(&pair[0], &flag));
  EXPECT(!flag);
  OK(MPIS_Imatch(&pair[0], &match));
  EXPECT_INVALID(MPIS_Enqueue_start(queue, &pair[0])); /* the peer has not matched yet */
  EXPECT_INVALID(MPIS_Request_free(&pair[0]));
  EXPECT_INVALID(MPIS_Match(&match, MPI_STATUS_IGNORE));
  OK(MPIS_Match(&pair[1], NULL));
  OK(MPIS_Wait(&match, &statuses[0]));
  EXPECT(statuses[0].MPI_SOURCE == rank);
  EXPECT_INVALID(MPIS_Match(&pair[0], MPI_STATUS_IGNORE)); /* a second match */
  EXPECT_UNSUPPORTED(MPIS_Wait(&pair[0], MPI_STATUS_IGNORE));
  EXPECT_INVALID(MPIS_Enqueue_startall(queue, 3, pair));
  EXPECT_INVALID(MPIS_Enqueue_start(none, &pair[0]));
  EXPECT_INVALID(MPIS_Enqueue_waitall(none));
  EXPECT_INVALID(MPIS_Queue_wait(none));
  OK(MPIS_Enqueue_startall(queue, 2, pair));
  EXPECT_INVALID(MPIS_Enqueue_start(queue, &pair[0])); /* a second start before the wait */
  EXPECT_INVALID(MPIS_Request_free(&pair[0]));
  OK(MPIS_Enqueue_waitall(queue));
  OK(MPIS_Queue_wait(queue));
  EXPECT(in == out);
  out = 8;
  OK(MPIS_Enqueue_startall(queue, 2, pair));
  OK(MPIS_Queue_free(&queue)); /* with work outstanding: it is done, and not lost */
  EXPECT(in == out);
  OK(MPIS_Request_freeall(2, pair));

  OK(MPIS_Recv_init(&in, 1, MPI_INT, rank, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]));
  OK(MPIS_Send_init(statuses, 2, MPI_INT, rank, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]));
  EXPECT_INVALID(MPIS_Matchall(2, both, MPI_STATUSES_IGNORE)); /* longer than the receive */
  OK(MPIS_Request_freeall(2, both));
  EXPECT_INVALID(MPIS_Recv_init(&in, 1, MPI_INT, ranks, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]));
  EXPECT(both[0] == MPIS_REQUEST_NULL);
  EXPECT_UNSUPPORTED(
      MPIS_Recv_init(&in, (MPI_Count)INT_MAX + 1, MPI_CHAR, rank, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]));
  EXPECT_UNSUPPORTED(MPIS_Queue_init(&queue, (MPIS_Queue_type)77, NULL));
  EXPECT(queue == MPIS_QUEUE_NULL);
}

static int passed; /* barriers */
static void pass(void* unused) {
  (void)unused;
  ++passed;
}

static void count_bits(void* in, void* out, int* length, MPI_Datatype* datatype) {
  (void)datatype;
  for (int i = 0; i < *length; ++i)
    ((int*)out)[i] += __builtin_popcount(((int*)in)[i]);
}

/* On a stream, beside transfers; what cannot be combined is refused by the match. */
static void collectives(void) {
  MPIS_Queue queue;
  MPIS_Request all[4], barrier, sum, ring[2], refused;
  MPI_Op own;
  int in[2], out[2], hop_in = -1, hop_out, all_passed[64], round, i;
  const int left = (rank + ranks - 1) % ranks;
  OK(MPIS_Queue_init(&queue, THREAD, NULL));
  OK(MPIS_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &barrier));
  OK(MPIS_Allreduce_init(in, out, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &sum));
  OK(MPIS_Recv_init(&hop_in, 1, MPI_INT, left, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &ring[0]));
  OK(MPIS_Send_init(&hop_out, 1, MPI_INT, (rank + 1) % ranks, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &ring[1]));
  EXPECT_INVALID(MPIS_Enqueue_start(queue, &barrier)); /* without a match */
  all[0] = sum, all[1] = ring[0], all[2] = barrier, all[3] = ring[1];
  OK(MPIS_Matchall(4, all, MPI_STATUSES_IGNORE));
  for (round = 0; round < ROUNDS; ++round) {
    in[0] = rank + round, in[1] = -rank;
    hop_out = 100 * rank + round;
    OK(MPIS_Enqueue_start(queue, &sum));
    OK(MPIS_Enqueue_startall(queue, 2, ring));
    OK(MPIS_Enqueue_waitall(queue));
    OK(MPIS_Queue_wait(queue));
    EXPECT(out[0] == ranks * (ranks - 1) / 2 + ranks * round && out[1] == -ranks * (ranks - 1) / 2);
    EXPECT(hop_in == 100 * left + round);
    for (i = 0; i < 2; ++i) { /* rank 0 comes last, and nobody has passed before */
      if ((rank == 0) == (i == 1)) {
        OK(MPIS_Enqueue_start(queue, &barrier));
        OK(MPIS_Enqueue_waitall(queue));
        MPIX_Host_stream_launch(queue->host_stream, pass, NULL);
      }
      if (i == 0)
        MPI_Gather(&passed, 1, MPI_INT, all_passed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (i = 0; rank == 0 && i < ranks; ++i)
      EXPECT(all_passed[i] == round);
    OK(MPIS_Queue_wait(queue));
    EXPECT(passed == round + 1);
  }
  OK(MPIS_Request_free(&barrier));
  OK(MPIS_Request_free(&sum));
  OK(MPIS_Request_freeall(2, ring));
  MPI_Op_create(count_bits, 1, &own);
  OK(MPIS_Allreduce_init(in, out, 1, MPI_INT, own, MPI_COMM_WORLD, MPI_INFO_NULL, &refused));
  EXPECT_UNSUPPORTED(MPIS_Match(&refused, MPI_STATUS_IGNORE));
  OK(MPIS_Request_free(&refused));
  EXPECT_INVALID(MPIS_Allreduce_init(in, out, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &refused));
  EXPECT(refused == MPIS_REQUEST_NULL);
  EXPECT_INVALID(MPIS_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, NULL));
  MPI_Op_free(&own);
  OK(MPIS_Queue_free(&queue));
}

static void memory(void) {
  MPI_Info info;
  void* address = NULL;
  int* from_cpp = allocated_in_cpp(LENGTH);
  EXPECT(from_cpp != NULL);
  memset(from_cpp, 0, LENGTH * sizeof(int));
  OK(MPIS_Free_mem(from_cpp));
  MPI_Info_create(&info);
  OK(MPIS_Alloc_mem(LENGTH, info, &address)); /* no kind is named */
  memset(address, 0, LENGTH);
  OK(free_in_cpp(address));
  OK(MPIS_Free_mem(NULL));
  MPI_Info_set(info, "mpi_memory_alloc_kinds", "rocm:device:fine");
  EXPECT_UNSUPPORTED(MPIS_Alloc_mem(LENGTH, info, &address));
  MPI_Info_free(&info);
}

int main(void) {
  MPI_Errhandler handler;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  pass_around_the_ring();
  exchange_ready_halos();
  MPI_Comm_create_errhandler(count_error, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  misuse();
  collectives();
  memory();
  MPI_Errhandler_free(&handler);
  MPI_Finalize();
  if (mistakes == 0 && rank == 0)
    printf("verified\n");
  return mistakes == 0 ? 0 : 1;
}
