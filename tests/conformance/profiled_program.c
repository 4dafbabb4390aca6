/* Makes one send, two requests and two waits. Lanyard matches one request; the MPI runs the other.
 * Prints "verified". Without -DLANYARD it uses only the MPI. */
#include <mpi.h>
#include <stdio.h>
#ifdef LANYARD
#include <lanyard/lanyard.h>

static int say(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  if (code != MPI_SUCCESS)
    printf("refused: %s\n", text), fflush(stdout);
  return code;
}
#endif

#define DO(call)                          \
  do {                                    \
    if ((call) != MPI_SUCCESS) {          \
      printf("%s: call failed\n", #call); \
      fflush(stdout);                     \
      MPI_Abort(MPI_COMM_WORLD, 1);       \
    }                                     \
  } while (0)

int main(int argc, char** argv) {
  int out = 7, in = -1, got = -1, rank = 0;
  MPI_Request plain, receive;
  MPI_Status status;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  DO(MPI_Irecv(&got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &receive));
  DO(MPI_Send(&out, 1, MPI_INT, 0, 1, MPI_COMM_SELF));
  DO(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  DO(MPI_Irecv(&in, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &receive));
  DO(MPI_Send_init(&out, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &plain));
  DO(MPI_Start(&plain));
  DO(MPI_Waitall(1, &receive, &status));
#ifdef LANYARD
  {
    MPI_Request pair[2], match;
    MPIX_Host_stream stream;
    MPIX_Queue queue;
    DO(MPIX_Host_stream_create(&stream));
    DO(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream));
    in = -1;
    DO(MPI_Recv_init(&in, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &pair[0]));
    DO(MPI_Send_init(&out, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &pair[1]));
    if (say(MPIX_Imatchall(2, pair, &match)) != MPI_SUCCESS)
      MPI_Abort(MPI_COMM_WORLD, 1);
    DO(MPI_Wait(&match, MPI_STATUS_IGNORE));
    DO(MPIX_Enqueue_startall(queue, 2, pair));
    DO(MPIX_Enqueue_waitall(queue, 2, pair));
    DO(MPIX_Queue_wait(queue));
    DO(MPI_Request_free(&pair[0]));
    DO(MPI_Request_free(&pair[1]));
    DO(MPIX_Queue_free(&queue));
    DO(MPIX_Host_stream_free(&stream));
  }
#endif
  DO(MPI_Waitall(1, &plain, &status));
  DO(MPI_Request_free(&plain));
  printf("%s\n", in == 7 && got == 7 ? "verified" : "wrong");
  MPI_Finalize();
  return 0;
}
