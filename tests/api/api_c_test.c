/* The header and the library from C11, with MPI_Init(NULL, NULL) and MPI's default error handler:
 * one exchange around a ring. Exit status 0 where everything was right. */
#include <mpi.h>
#include <stdio.h>

#include <lanyard/lanyard.h>

#define ITERATIONS 10

static int out_value, in_value, mistakes, left;

static void fill(void* argument) { out_value = 1000 * *(const int*)argument + 7; }

static void check(void* argument) {
  (void)argument;
  if (in_value != 1000 * left + 7)
    ++mistakes;
  in_value = -1;
}

int main(void) {
  int rank, ranks, i;
  MPIX_Host_stream stream = MPIX_HOST_STREAM_NULL;
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MPI_Info info;

  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  left = (rank + ranks - 1) % ranks;
  MPIX_Host_stream_create(&stream);
  MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream);
  MPI_Recv_init(&in_value, 1, MPI_INT, left, LANYARD_VERSION_MINOR, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(&out_value, 1, MPI_INT, (rank + 1) % ranks, LANYARD_VERSION_MINOR, MPI_COMM_WORLD, &requests[1]);
  MPIX_Matchall(2, requests, statuses);
  if (statuses[0].MPI_SOURCE != left)
    ++mistakes;
  for (i = 0; i < ITERATIONS; ++i) {
    MPIX_Host_stream_launch(stream, fill, &rank);
    MPIX_Enqueue_startall(queue, 2, requests);
    MPIX_Enqueue_wait(queue, &requests[0]);
    MPIX_Enqueue_wait(queue, &requests[1]);
    MPIX_Host_stream_launch(stream, check, NULL);
  }
  MPIX_Queue_wait(queue);
  MPIX_Queue_get_info(queue, &info);
  MPI_Info_free(&info);
  if (MPIX_ERR_QUEUE == MPIX_ERR_BUSY)
    ++mistakes;
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  MPIX_Queue_free(&queue);
  MPIX_Host_stream_free(&stream);
  if (queue != MPIX_QUEUE_NULL || stream != MPIX_HOST_STREAM_NULL)
    ++mistakes;
  MPI_Finalize();
  if (mistakes != 0)
    fprintf(stderr, "rank %d: %d mistakes\n", rank, mistakes);
  return mistakes == 0 ? 0 : 1;
}
