// Wrong programs that hang, and a correct one ("none") to run where it may not work.
// broken_programs_test.sh checks Lanyard's reports. Rank 0 prints the first error that Lanyard
// reports to it, and ends the job.
//
//   broken_program CASE
#include <mpi.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <lanyard/lanyard.h>

namespace {

int rank = 0, size = 1;
MPIX_Host_stream stream = MPIX_HOST_STREAM_NULL;
MPIX_Queue queue = MPIX_QUEUE_NULL;
long long value[4] = {};

// Prints an error. On rank 0, ends the job; the other ranks continue.
void check(int code) {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::printf("rank %d got an error: %s\n", rank, text);
  std::fflush(nullptr);
  if (rank == 0)
    _Exit(0);
}
void pass_seconds(int seconds) {
  for (timespec left{seconds, 0}; nanosleep(&left, &left) != 0;) {
  }
}

MPI_Request receive(int peer, int tag, long long* into = &value[0], int count = 1) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Recv_init(into, count, MPI_LONG_LONG, peer, tag, MPI_COMM_WORLD, &request);
  return request;
}
MPI_Request send(int peer, int tag, long long* from = &value[1], int count = 1) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Send_init(from, count, MPI_LONG_LONG, peer, tag, MPI_COMM_WORLD, &request);
  return request;
}
void match(MPI_Request* request) { check(MPIX_Match(request, MPI_STATUS_IGNORE)); }
void run(MPI_Request* request, MPIX_Queue on = queue) {
  check(MPIX_Enqueue_start(on, request));
  check(MPIX_Enqueue_wait(on, request));
}
void wait_for(MPIX_Queue which = queue) { check(MPIX_Queue_wait(which)); }
// A matched request: rank 0 receives from rank 1.
MPI_Request half() {
  MPI_Request mine = rank == 0 ? receive(1, 7) : send(0, 7);
  if (rank < 2)
    match(&mine);
  return mine;
}

void tag_mismatch() {
  MPI_Request mine = rank == 0 ? receive(1, 5) : send(0, 6);
  check(MPIX_Matchall(1, &mine, MPI_STATUSES_IGNORE));
}
void collective_left_alone() {
  MPI_Request mine = MPI_REQUEST_NULL;
  MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &mine);
  match(&mine);
  if (rank == 0) {
    run(&mine);
    wait_for();
  }
}
// Each rank waits for a message that the next rank sends only after its own wait.
void deadlock_of_all() {
  MPI_Request both[] = {receive((rank + size - 1) % size, 1), send((rank + 1) % size, 1)};
  check(MPIX_Matchall(2, both, MPI_STATUSES_IGNORE));
  run(&both[0]);
  run(&both[1]);
  wait_for();
}
// Each rank has two queues. Each queue waits for a message that the peer's other queue sends only
// after its own wait.
void deadlock_over_queues() {
  MPIX_Host_stream other_stream = MPIX_HOST_STREAM_NULL;
  MPIX_Queue other = MPIX_QUEUE_NULL;
  MPIX_Host_stream_create(&other_stream);
  MPIX_Queue_init(&other, MPIX_QUEUE_HOST, &other_stream);
  MPI_Request four[] = {receive(1 - rank, 1, &value[0]), send(1 - rank, 1), receive(1 - rank, 2, &value[2]),
                        send(1 - rank, 2)};
  check(MPIX_Matchall(4, four, MPI_STATUSES_IGNORE));
  run(&four[0]);
  run(&four[3]);
  run(&four[2], other);
  run(&four[1], other);
  wait_for();
}
void run_for_ever(void*) {
  for (;;)
    pass_seconds(1);
}
void endless_kernel() {
  MPIX_Host_stream_launch(stream, run_for_ever, nullptr);
  wait_for();
}
void endless_kernel_of_peer() {
  MPI_Request mine = half();
  if (rank == 1)
    MPIX_Host_stream_launch(stream, run_for_ever, nullptr);
  run(&mine);
  wait_for();
}
void unmapped_buffer() {
  constexpr int kCount = 1 << 17;  // too long for one packet
  constexpr size_t kBytes = kCount * sizeof(long long);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* words = static_cast<long long*>(memory);
  MPI_Request mine = rank == 0 ? send(1, 7, words, kCount) : receive(0, 7, words, kCount);
  match(&mine);
  if (rank == 0)  // like munmap(), but nothing else can be mapped there
    mmap(memory, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  run(&mine);
  if (rank == 0)
    wait_for();
}
void finalize_early() {
  MPI_Request mine = half();
  if (rank == 0)
    run(&mine);
  MPI_Finalize();
  _Exit(0);
}

void none() {
  MPI_Request mine = half();
  run(&mine);
  wait_for();
  MPI_Barrier(MPI_COMM_WORLD);
  std::printf("rank %d: all is well\n", rank);
  std::fflush(nullptr);
  if (rank == 0)
    _Exit(0);
}

struct Case {
  const char* name;
  void (*run)();
};
#define CASE(name) \
  { #name, name }
constexpr Case kCases[] = {
    CASE(tag_mismatch),         CASE(collective_left_alone), CASE(deadlock_of_all),
    CASE(deadlock_over_queues), CASE(endless_kernel),        CASE(endless_kernel_of_peer),
    CASE(unmapped_buffer),      CASE(finalize_early),        CASE(none),
};
#undef CASE

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (const Case& each : kCases) {
    if (argc < 2 || std::strcmp(each.name, argv[1]) != 0)
      continue;
    MPIX_Host_stream_create(&stream);
    check(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream));
    each.run();
  }
  pass_seconds(15);  // for the other ranks' reports
  std::printf("rank %d got no error\n", rank);
  std::fflush(nullptr);
  _Exit(1);
}
