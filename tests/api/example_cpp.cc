// The README's program in C++: every rank sends eight numbers to its right neighbour, a
// thousand times.
#include <array>
#include <cstdio>
#include <exception>
#include <numeric>

#include <lanyard/lanyard.hpp>

namespace {

double run() {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::array<double, 8> out{}, in{};
  double sum = 0;

  lanyard::HostStream stream;
  lanyard::Queue queue(stream);
  auto receive = lanyard::Request::receive(in, (rank + size - 1) % size, 0, MPI_COMM_WORLD);
  auto send = lanyard::Request::send(out, (rank + 1) % size, 0, MPI_COMM_WORLD);
  lanyard::match_all({receive, send});  // once, by MPI's rules

  for (int step = 0; step < 1000; ++step) {  // no call in the loop waits for the network
    queue.start(receive);
    stream.launch([&out] {
      for (double& each : out)
        each += 1;
    });
    queue.start(send);
    queue.wait_all({receive, send});
    stream.launch([&in, &sum] { sum = std::accumulate(in.begin(), in.end(), sum); });
  }
  queue.synchronize();
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // else an error ends the program
  bool right = false;
  try {
    right = run() == 8 * 1000 * 1001 / 2;
    std::printf("%s\n", right ? "verified" : "wrong");
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
