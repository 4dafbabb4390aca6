// Matching goes on where the program makes no call; a match that a call has given up can be taken back.
#include <chrono>
#include <thread>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Progress : ::testing::Test {
  void SetUp() override {
    if (partner() == rank())
      GTEST_SKIP() << "needs an even number of ranks";
  }
  bool is_first() const { return rank() % 2 == 0; }

  // A send or a receive of this rank's with its partner, whose match is begun.
  MPI_Request begin_match(int tag) {
    if (is_first())
      requests.receive(&value, sizeof value, partner(), tag);
    else
      requests.send(&value, sizeof value, partner(), tag);
    MPI_Request match = MPI_REQUEST_NULL;
    EXPECT_TRUE(ok(MPIX_Imatch(requests.at(requests.count() - 1), &match)));
    return match;
  }

  int value = 0;
  Requests requests;
};

// No call at all: the peer matches while this rank computes.
TEST_F(Progress, InsideNoCall) {
  if (is_first()) {
    MPI_Request match = begin_match(0);
    int done = 0;
    MPI_Request told = MPI_REQUEST_NULL;
    MPI_Irecv(&done, 1, MPI_INT, partner(), 9, MPI_COMM_WORLD, &told);
    // Only the MPI's own look, which is no progress of Lanyard's.
    for (int flag = 0; flag == 0; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      PMPI_Test(&told, &flag, MPI_STATUS_IGNORE);
    EXPECT_EQ(done, 1);
    EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  } else {
    MPI_Request match = begin_match(0);
    EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
    const int done = 1;
    MPI_Send(&done, 1, MPI_INT, partner(), 9, MPI_COMM_WORLD);
  }
}

// A match that a call has given up can be taken back; what the other side matches later is another request.
TEST_F(Progress, ALateMatchOfAFreedRequestIsNobodys) {
  if (is_first()) {
    requests.send(&value, sizeof value, partner(), 5);
    EXPECT_TRUE(fails(MPIX_Match(requests.at(0), MPI_STATUS_IGNORE), MPIX_ERR_STALLED, {"tag 5"}));
    requests.free();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Buffer out(100), in(100);
  in.poison();
  if (is_first()) {
    out.fill(1);
    requests.send(out.data(), out.count(), partner(), 5);
  } else {
    requests.receive(in.data(), in.count(), partner(), 5);
  }
  requests.match();
  Stream stream;
  Queue queue(stream);
  requests.start(queue);
  requests.wait(queue);
  queue.wait();
  if (!is_first()) {
    EXPECT_EQ(in.mistakes(1), 0u);
  }
}

}  // namespace
}  // namespace lanyard::api_test
