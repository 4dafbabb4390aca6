// MPI_Finalize after a stall, with a graph and a kernel of a set that wait for what never comes: both are let pass, and
// have ended before what they look at goes. A program of its own, as each process has one MPI_Finalize.
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <lanyard/lanyard.h>
#include <lanyard/lanyard_device.h>

#include "tests/software_gpu.h"

namespace {

using lanyard::FakeDriver;
using lanyard::FakeTeam;

std::atomic<bool> kernel_ended{false};
std::atomic<bool> graph_ended{false};

// Rings for the only request of a set, and waits for it.
void launch_kernel(FakeDriver& driver, void* stream, const MPIX_Device_requests* set) {
  const std::byte* const content = driver.at(set);
  MPIX_Device_requests head;
  MPIX_Device_request row;
  std::memcpy(&head, content, sizeof head);
  std::memcpy(&row, content + sizeof head, sizeof row);
  driver.launch_block(stream, [head, row](FakeTeam& team) {
    const uint64_t sum = team.add(row.bell.total, 1) + 1;
    team.store(row.bell.word, sum);
    while (team.acquire(row.completion.word) < team.load(row.completion.count) + 1 && team.load(head.released) == 0)
      team.pause();
  });
  driver.call_host(stream, [] { kernel_ended = true; });
}

// A receive whose send is never started.
MPI_Request match(int tag, int rank, int size, int* in, int* out) {
  MPI_Request pair[2];
  MPI_Recv_init(in, 1, MPI_INT, (rank + size - 1) % size, tag, MPI_COMM_WORLD, &pair[0]);
  MPI_Send_init(out, 1, MPI_INT, (rank + 1) % size, tag, MPI_COMM_WORLD, &pair[1]);
  MPIX_Matchall(2, pair, MPI_STATUSES_IGNORE);
  return pair[0];
}

}  // namespace

int main(int argc, char** argv) {
  setenv("LANYARD_DEADLINE_S", "1", 1);
  alarm(60);  // should it hang
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  FakeDriver& driver = lanyard::software_gpu();
  static int in[2], out[2];
  void* streams[2] = {driver.make_program_stream(), driver.make_program_stream()};
  MPIX_Queue queues[2];
  for (int i = 0; i < 2; ++i)
    MPIX_Queue_init(&queues[i], MPIX_QUEUE_CUDA, &streams[i]);

  MPI_Request captured = match(1, rank, size, &in[0], &out[0]);
  driver.begin_capture(streams[0]);
  MPIX_Enqueue_start(queues[0], &captured);
  MPIX_Enqueue_wait(queues[0], &captured);
  driver.call_host(streams[0], [] { graph_ended = true; });
  const std::optional<FakeDriver::Graph> graph = driver.end_capture(streams[0]);
  driver.replay(*graph, streams[0]);

  MPI_Request in_kernels = match(2, rank, size, &in[1], &out[1]);
  MPIX_Device_requests* set = nullptr;
  MPIX_Device_requests_create(queues[1], 1, &in_kernels, &set);
  launch_kernel(driver, streams[1], set);

  bool stalled = true;
  for (const MPIX_Queue queue : queues) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(MPIX_Queue_wait(queue), &error_class);
    stalled = stalled && error_class == MPIX_ERR_STALLED;
  }
  const bool waited = !graph_ended && !kernel_ended;
  MPI_Finalize();
  const bool right = stalled && waited && graph_ended && kernel_ended;
  if (!right)
    std::printf("rank %d: wrong: stalled %d, waited %d, ended: graph %d, kernel %d\n", rank, stalled, waited,
                graph_ended.load(), kernel_ended.load());
  return right ? 0 : 1;
}
