// Work that can never complete, because the other half of the pair has gone: it fails, and can be freed.
#include <cstdlib>
#include <string>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Abandoned : ::testing::Test {
  MPIX_Host_stream stream = MPIX_HOST_STREAM_NULL;
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  inline static Buffer buffer{40};

  void SetUp() override {
    if (partner() == rank())
      GTEST_SKIP() << "needs an even number of ranks";
    ASSERT_TRUE(ok(MPIX_Host_stream_create(&stream)));
    ASSERT_TRUE(ok(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream)));
    if (sends())
      MPI_Send_init(buffer.data(), buffer.count(), MPI_BYTE, partner(), 3, MPI_COMM_WORLD, &request);
    else
      MPI_Recv_init(buffer.data(), buffer.count(), MPI_BYTE, partner(), 3, MPI_COMM_WORLD, &request);
    ASSERT_TRUE(ok(MPIX_Match(&request, MPI_STATUS_IGNORE)));
  }
  void TearDown() override {
    MPI_Barrier(MPI_COMM_WORLD);
    Stream fresh_stream;
    Queue fresh(fresh_stream);
    verify_exchange(fresh, fresh_stream);
  }
  bool sends() const { return rank() % 2 == 0; }

  // Refused where the news has come, else told later.
  void start_alone() {
    int code = MPIX_Enqueue_start(queue, &request);
    if (code == MPI_SUCCESS) {
      ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
      code = MPIX_Queue_wait(queue);
    }
    is_told(code);
    EXPECT_TRUE(ok(MPIX_Queue_wait(queue))) << "told once";
    free_mine();
  }
  void is_told(int code) {
    EXPECT_TRUE(fails(code, MPIX_ERR_FAILED,
                      {sends() ? "send" : "recv", "peer " + std::to_string(partner()), "tag 3", "40 B",
                       "rank " + std::to_string(partner()) + " has freed its request"}));
  }
  void free_mine() {
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
    EXPECT_TRUE(ok(MPIX_Queue_free(&queue)));
    EXPECT_TRUE(ok(MPIX_Host_stream_free(&stream)));
  }
};

TEST_F(Abandoned, ASendWhoseReceiveWasFreed) {
  if (!sends())
    free_mine();
  MPI_Barrier(MPI_COMM_WORLD);
  if (sends())
    start_alone();
}

TEST_F(Abandoned, AReceiveWhoseSendWasFreed) {
  if (sends())
    free_mine();
  MPI_Barrier(MPI_COMM_WORLD);
  if (!sends())
    start_alone();
}

// The clear-to-send is there before the send goes.
TEST_F(Abandoned, AReceiveWhoseSendIsFreedLater) {
  if (!sends()) {
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (sends())
    free_mine();
  MPI_Barrier(MPI_COMM_WORLD);
  if (!sends()) {
    is_told(MPIX_Queue_wait(queue));
    ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
    EXPECT_TRUE(ok(MPIX_Queue_wait(queue)));
    free_mine();
  }
}

// The last words of a job that goes wrong: a stream with work, a match half done.
TEST_F(Abandoned, AMatchHalfDone) {
  MPI_Request half = MPI_REQUEST_NULL, match = MPI_REQUEST_NULL;
  MPI_Recv_init(buffer.data(), buffer.count(), MPI_BYTE, partner(), 4, MPI_COMM_WORLD, &half);
  ASSERT_TRUE(ok(MPIX_Imatch(&half, &match)));
  int flag = 0;
  ASSERT_TRUE(ok(MPI_Test(&match, &flag, MPI_STATUS_IGNORE)));
  EXPECT_FALSE(flag);
  free_mine();
}

}  // namespace
}  // namespace lanyard::api_test
