// Ranks in pairs send each other messages from GPU to GPU, until the last one kills itself in the middle. Its partner
// says what it is told, lets go of everything, shows that it works on and says so, and ends with status 1; where it is
// told of no failure, or what should go well does not, with status 3. Without a GPU it says so and ends well.
//
//   mpirun -n 2 gpu_lost_rank      (with Open MPI's recovery: else it ends the others by itself)
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <lanyard/lanyard.h>
#include "gpu/device/driver.h"
#include "gpu/device/open_driver.h"

namespace lanyard {
namespace {

constexpr int kBytes = 1 << 20;
constexpr int kGoodSteps = 200;
constexpr int kMostSteps = 1'000'000;

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

// Ends the process where a call should have gone well.
void must(int code, const char* call) {
  if (code == MPI_SUCCESS)
    return;
  std::fprintf(stderr, "%s: %s\n", call, text_of(code).c_str());
  _exit(3);
}

class Program {
 public:
  Program(gpu::Driver& driver, int rank, int ranks) : driver_(driver), rank_(rank), ranks_(ranks) {
    handle_ = driver.make_stream().value();
    out_ = driver.allocate(kBytes).value();
    in_ = driver.allocate(kBytes).value();
    const bool cuda = std::string(driver.kind()) == "cuda";
    must(MPIX_Queue_init(&queue_, cuda ? MPIX_QUEUE_CUDA : MPIX_QUEUE_HIP, &handle_), "MPIX_Queue_init");
  }

  // Whatever comes first of so many steps and a failure, which it returns.
  int run(int peer, int steps) {
    match(peer);
    for (int i = 0; i < steps; ++i)
      if (const int code = step(); code != MPI_SUCCESS)
        return code;
    return MPI_SUCCESS;
  }
  [[noreturn]] void end_in_the_middle() {
    must(MPIX_Enqueue_startall(queue_, 2, requests_), "MPIX_Enqueue_startall");
    kill(getpid(), SIGKILL);
    std::abort();
  }
  void free_requests() {
    for (MPI_Request& request : requests_)
      must(MPI_Request_free(&request), "MPI_Request_free");
  }
  // Of each request a failure is told once; from then on nothing waits for it.
  void hear_all() {
    if (MPIX_Queue_wait(queue_) != MPI_SUCCESS)
      must(MPIX_Queue_wait(queue_), "MPIX_Queue_wait, called again");
  }
  bool is_last() const { return rank_ == ranks_ - 1; }

 private:
  void match(int peer) {
    const auto buffer = [](gpu::DeviceAddress address) { return reinterpret_cast<void*>(address); };
    must(MPI_Send_init(buffer(out_), kBytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests_[0]), "MPI_Send_init");
    must(MPI_Recv_init(buffer(in_), kBytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests_[1]), "MPI_Recv_init");
    must(MPIX_Matchall(2, requests_, MPI_STATUSES_IGNORE), "MPIX_Matchall");
    MPI_Info info = MPI_INFO_NULL;
    must(MPIX_Request_get_info(requests_[0], &info), "MPIX_Request_get_info");
    char route[16] = "";
    int found = 0;
    MPI_Info_get(info, "lanyard_route", sizeof route - 1, route, &found);
    MPI_Info_free(&info);
    std::printf("rank %d: messages to rank %d go by %s\n", rank_, peer, route);
  }
  int step() {
    if (const int code = MPIX_Enqueue_startall(queue_, 2, requests_); code != MPI_SUCCESS)
      return code;
    must(MPIX_Enqueue_waitall(queue_, 2, requests_), "MPIX_Enqueue_waitall");
    return MPIX_Queue_wait(queue_);
  }

  gpu::Driver& driver_;
  const int rank_;
  const int ranks_;
  gpu::StreamHandle handle_ = nullptr;
  gpu::DeviceAddress out_ = 0;
  gpu::DeviceAddress in_ = 0;
  MPIX_Queue queue_ = MPIX_QUEUE_NULL;
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

int run() {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const Result<std::unique_ptr<gpu::Driver>> opened = gpu::open_driver();
  if (!opened.ok()) {
    std::printf("no GPU: %s\n", opened.status().message().c_str());
    return MPI_Finalize();
  }
  gpu::Driver& driver = *opened.value();
  const gpu::Inside inside(driver, driver.context_of_device(rank % driver.device_count()).value());
  Program program(driver, rank, ranks);
  const int partner = (rank ^ 1) < ranks ? (rank ^ 1) : rank;
  if (program.is_last()) {
    must(program.run(partner, kGoodSteps), "a good step");
    program.end_in_the_middle();
  }
  // Those of other pairs end by their own steps.
  const bool loses = partner == ranks - 1;
  const int code = program.run(partner, loses ? kMostSteps : kGoodSteps);
  if (code == MPI_SUCCESS)
    _exit(loses ? 3 : 0);
  std::printf("rank %d: %s\n", rank, text_of(code).c_str());
  program.hear_all();
  program.free_requests();
  must(program.run(rank, kGoodSteps), "a message to itself");
  std::printf("rank %d: works on\n", rank);
  // To finalize would wait for who is not there.
  _exit(1);
}

}  // namespace
}  // namespace lanyard

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // it ends without flushing
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  return lanyard::run();
}
