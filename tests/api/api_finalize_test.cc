// MPI_Finalize: what was enqueued is finished, and what the program frees in the callbacks of MPI_COMM_SELF's
// attributes still finds Lanyard there (MPI 4.0 section 11.2.4). A program of its own, as each process has one
// MPI_Finalize:
//
//   api_finalize_test finish | attribute | uneven
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <lanyard/lanyard.h>

namespace {

constexpr int kCount = 1000;
constexpr int kSteps = 50;
int in_sum = 0;
int freed = -1;
MPIX_Queue queue = MPIX_QUEUE_NULL;

void add_up(void* in) { in_sum += static_cast<int*>(in)[kCount - 1]; }

int free_queue(MPI_Comm, int, void*, void*) {
  freed = MPIX_Queue_free(&queue);
  return MPI_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  const bool in_attribute = argc > 1 && std::strcmp(argv[1], "attribute") == 0;
  const bool uneven = argc > 1 && std::strcmp(argv[1], "uneven") == 0;
  if (uneven)
    setenv("LANYARD_DEADLINE_S", "1", 1);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  static int out[kCount], in[kCount];
  for (int& each : out)
    each = rank + 1;
  MPIX_Host_stream stream = MPIX_HOST_STREAM_NULL;
  MPIX_Host_stream_create(&stream);
  MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream);
  const int left = (rank + size - 1) % size;
  MPI_Request pair[2];
  MPI_Recv_init(in, kCount, MPI_INT, left, 0, MPI_COMM_WORLD, &pair[0]);
  MPI_Send_init(out, kCount, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, &pair[1]);
  MPIX_Matchall(2, pair, MPI_STATUSES_IGNORE);
  for (int step = 0; step < kSteps; ++step) {
    MPIX_Enqueue_startall(queue, 2, pair);
    MPIX_Enqueue_waitall(queue, 2, pair);
    MPIX_Host_stream_launch(stream, add_up, in);
  }
  if (in_attribute) {
    int keyval = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_queue, &keyval, nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
  }
  if (uneven) {
    // The others wait in MPI_Finalize for longer than the deadline, for a rank that is well.
    MPIX_Queue_wait(queue);
    if (rank == size - 1)
      std::this_thread::sleep_for(std::chrono::seconds(3));
  }
  // But for that, nobody waits for the queue.
  MPI_Finalize();
  const bool right = in_sum == kSteps * (left + 1) && (!in_attribute || freed == MPI_SUCCESS);
  if (!right)
    std::printf("rank %d: wrong: %d of %d, freed %d\n", rank, in_sum, kSteps * (left + 1), freed);
  return right ? 0 : 1;
}
