// Two ranks whose cards differ in the longest message they take: both sides of a pair cut a message into the same
// pieces.
#include <cstdlib>
#include <string>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

TEST(UnlikeCards, CutAMessageAlike) {
  constexpr int kBytes = 1 << 20;
  constexpr int kIterations = 4;
  Stream stream;
  Queue queue(stream);
  Buffer out(kBytes), in(kBytes);
  in.poison();
  for (const Mode mode : {Mode::kSend, Mode::kRsend}) {
    Requests requests;
    const int receive = requests.receive(in.data(), in.count(), partner(), 1);
    const int send = requests.send(out.data(), out.count(), partner(), 1, MPI_COMM_WORLD, mode);
    requests.match();
    size_t wrong = 0;
    for (int i = 0; i < kIterations; ++i) {
      ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(receive))));
      stream.synchronize();
      MPI_Barrier(MPI_COMM_WORLD);  // what ready sends need
      stream.launch([&, i] { out.fill(seed_of(rank(), partner(), i)); });
      ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(send))));
      requests.wait(queue);
      stream.launch([&, i] {
        wrong += in.mistakes(seed_of(partner(), rank(), i));
        in.poison();
      });
    }
    queue.wait();
    EXPECT_EQ(wrong, 0u) << name_of(mode);
  }
  verify_exchange(queue, stream);
}

int rank_before_init() {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const char* const value = std::getenv(name); value != nullptr)
      return std::atoi(value);
  return 0;
}

}  // namespace
}  // namespace lanyard::api_test

int main(int argc, char** argv) {
  if (lanyard::api_test::rank_before_init() % 2 == 1)
    setenv("LANYARD_SIM_MAX_MESSAGE", "100000", 1);
  return lanyard::mpi_suite::run(&argc, &argv);
}
