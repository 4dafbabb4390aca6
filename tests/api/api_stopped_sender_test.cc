// Where senders raise their receives' flags a MPIX_Queue_wait hears from them whether all went well. A sender that is
// stopped does not say so, and is named.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "tests/api/api_misuse.h"

namespace lanyard::api_test {
namespace {

struct StoppedSender : Misuse {
  Requests requests;
  int other = 0;  // the partner's process

  void SetUp() override {
    if (partner() == rank())
      GTEST_SKIP() << "needs an even number of ranks";
    const int mine = getpid();
    MPI_Sendrecv(&mine, 1, MPI_INT, partner(), 9, &other, 1, MPI_INT, partner(), 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  void TearDown() override {
    requests.free();
    Misuse::TearDown();
  }
  bool sends() const { return rank() % 2 == 1; }
  bool is_stopped() const {
    std::ifstream file("/proc/" + std::to_string(other) + "/stat");
    std::string line;
    std::getline(file, line);
    const size_t name_ends = line.rfind(") ");
    return name_ends != std::string::npos && line.compare(name_ends + 2, 1, "T") == 0;
  }
};

TEST_F(StoppedSender, IsNamed) {
  Stream stream;
  Queue queue(stream);
  char memory[8] = {};
  if (sends())
    requests.send(memory, 8, partner(), 0);
  else
    requests.receive(memory, 8, partner(), 0);
  requests.match();
  ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(0))));
  ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, requests.at(0))));
  ASSERT_TRUE(ok(MPIX_Host_stream_synchronize(stream.handle())));
  if (sends()) {
    raise(SIGSTOP);
  } else {
    while (!is_stopped())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::string peer = "rank " + std::to_string(partner());
    EXPECT_TRUE(
        reports([&] { return MPIX_Queue_wait(queue); }, MPIX_ERR_STALLED,
                {"has run everything, but " + peer + " has not said yet whether its sends went well (recv, peer " +
                     std::to_string(partner()) + ", tag 0, 8 B)",
                 peer + " has not answered for"},
                {"not Lanyard's"}));
    kill(other, SIGCONT);
  }
  int code = MPIX_Queue_wait(queue);
  while (error_class(code) == MPIX_ERR_STALLED)
    code = MPIX_Queue_wait(queue);
  EXPECT_TRUE(ok(code));
}

}  // namespace
}  // namespace lanyard::api_test
