// Programs that link Lanyard and use little of it or nothing: MPI_Init without threads, and MPI's
// persistent requests and communicators as ever.
#include <array>
#include <numeric>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

int last_used_code() {
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &found);
  return found ? *static_cast<int*>(value) : -1;
}

// Before anything else of Lanyard's is used in the process: MPI_LASTUSEDCODE is the program's to count on until then.
TEST(Plain, ErrorClassesAreAddedWhenTheyAreFirstAskedFor) {
  const int before = last_used_code();
  int error_class = -1;
  EXPECT_TRUE(ok(MPI_Error_class(MPI_ERR_TRUNCATE, &error_class)));
  EXPECT_EQ(error_class, MPI_ERR_TRUNCATE);
  EXPECT_EQ(last_used_code(), before);
  const int queue_class = MPIX_ERR_QUEUE;
  EXPECT_GT(queue_class, before);
  const int after = last_used_code();
  EXPECT_GE(after, queue_class);
  EXPECT_EQ(MPIX_ERR_QUEUE, queue_class);
  EXPECT_NE(MPIX_ERR_NIC, queue_class);
  EXPECT_EQ(last_used_code(), after);
}

TEST(Plain, PersistentRequestsWorkAsEver) {
  std::array<int, 4> out{}, in{};
  Requests requests;
  const std::array<Mode, 3> modes{Mode::kSend, Mode::kSsend, Mode::kSend};
  for (int i = 0; i < 3; ++i) {
    const size_t at = static_cast<size_t>(i);
    requests.receive(&in[at], 1, partner(), i, MPI_COMM_WORLD, MPI_INT);
    requests.send(&out[at], 1, partner(), i, MPI_COMM_WORLD, modes[at], MPI_INT);
  }
  for (int round = 0; round < 20; ++round) {
    out.fill(round);
    ASSERT_TRUE(ok(MPI_Startall(6, requests.data())));
    int flag = 0, index = 0, count = 0;
    std::array<int, 6> indices;
    std::array<MPI_Status, 6> statuses;
    switch (round % 4) {
      case 0: break;
      case 1:
        while (!flag)
          ASSERT_TRUE(ok(MPI_Testall(6, requests.data(), &flag, statuses.data())));
        break;
      case 2:
        for (int done = 0; done < 6; ++done)
          ASSERT_TRUE(ok(MPI_Waitany(6, requests.data(), &index, &statuses[0])));
        break;
      case 3:
        for (int done = 0; done < 6; done += count)
          ASSERT_TRUE(ok(MPI_Waitsome(6, requests.data(), &count, indices.data(), statuses.data())));
        break;
    }
    ASSERT_TRUE(ok(MPI_Waitall(6, requests.data(), statuses.data())));
    for (size_t i = 0; i < 3; ++i)
      ASSERT_EQ(in[i], round);
  }
  // One by one, with statuses.
  ASSERT_TRUE(ok(MPI_Start(requests.at(0))));
  ASSERT_TRUE(ok(MPI_Start(requests.at(1))));
  MPI_Status status;
  ASSERT_TRUE(ok(MPI_Wait(requests.at(0), &status)));
  EXPECT_EQ(status.MPI_SOURCE, partner());
  EXPECT_EQ(status.MPI_TAG, 0);
  ASSERT_TRUE(ok(MPI_Wait(requests.at(1), MPI_STATUS_IGNORE)));
}

TEST(Plain, ReceivesAreCancelledAsEver) {
  int value = 0, cancelled = 0;
  Requests requests;
  requests.receive(&value, 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  for (int i = 0; i < 3; ++i) {
    MPI_Status status;
    ASSERT_TRUE(ok(MPI_Start(requests.at(0))));
    ASSERT_TRUE(ok(MPI_Cancel(requests.at(0))));
    ASSERT_TRUE(ok(MPI_Wait(requests.at(0), &status)));
    MPI_Test_cancelled(&status, &cancelled);
    EXPECT_TRUE(cancelled);
  }
}

TEST(Plain, ErrorsOfTheMpiAreTheMpis) {
  const int value = 0;
  const int code = MPI_Send(&value, 1, MPI_INT, ranks() + 5, 0, MPI_COMM_WORLD);
  EXPECT_TRUE(fails(code, MPI_ERR_RANK));
  EXPECT_FALSE(error_text(code).empty());
  EXPECT_FALSE(error_text(MPI_ERR_COMM).empty());
}

TEST(Plain, CommunicatorsWorkAsEver) {
  MPI_Comm copy = MPI_COMM_NULL, half = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_dup(MPI_COMM_WORLD, &copy)));
  ASSERT_TRUE(ok(MPI_Comm_split(copy, rank() % 2, rank(), &half)));
  int sum = 0, one = 1, size = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half);
  MPI_Comm_size(half, &size);
  EXPECT_EQ(sum, size);
  ASSERT_TRUE(ok(MPI_Comm_free(&half)));
  ASSERT_TRUE(ok(MPI_Comm_free(&copy)));
  EXPECT_EQ(copy, MPI_COMM_NULL);
}

// Lanyard's own threads never call MPI, so that no thread level is needed.
TEST(Plain, MpiInitIsEnough) {
  EXPECT_LT(mpi_suite::process().thread_level, MPI_THREAD_MULTIPLE);
  Stream stream;
  Queue queue(stream);
  verify_exchange(queue, stream, 200);
}

// What is still there at the end does no harm to MPI_Finalize.
TEST(Plain, ObjectsMayBeLeftToMpiFinalize) {
  MPIX_Host_stream stream = MPIX_HOST_STREAM_NULL;
  static MPIX_Queue queue = MPIX_QUEUE_NULL;
  static int values[2];
  MPI_Request requests[2];
  ASSERT_TRUE(ok(MPIX_Host_stream_create(&stream)));
  ASSERT_TRUE(ok(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream)));
  MPI_Recv_init(&values[0], 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(&values[1], 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &requests[1]);
  ASSERT_TRUE(ok(MPIX_Matchall(2, requests, MPI_STATUSES_IGNORE)));
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 2, requests)));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 2, requests)));
  ASSERT_TRUE(ok(MPIX_Queue_wait(queue)));
}

}  // namespace
}  // namespace lanyard::api_test

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  return lanyard::mpi_suite::run_tests(&argc, &argv);
}
