// Programs that link Lanyard and use little of it or nothing: MPI_Init without threads, and MPI's
// persistent requests and communicators as ever.
#include <array>

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
  std::array<int, 2> out{}, in{};
  Requests requests;
  for (int i = 0; i < 2; ++i) {
    const size_t at = static_cast<size_t>(i);
    requests.receive(&in[at], 1, partner(), i, MPI_COMM_WORLD, MPI_INT);
    requests.send(&out[at], 1, partner(), i, MPI_COMM_WORLD, i == 0 ? Mode::kSend : Mode::kSsend, MPI_INT);
  }
  for (int round = 0; round < 20; ++round) {
    out.fill(round);
    ASSERT_TRUE(ok(MPI_Startall(4, requests.data())));
    int flag = round % 2, index = 0;
    while (!flag)
      ASSERT_TRUE(ok(MPI_Testall(4, requests.data(), &flag, MPI_STATUSES_IGNORE)));
    for (int done = 0; done < 4 && round % 2 == 1; ++done)
      ASSERT_TRUE(ok(MPI_Waitany(4, requests.data(), &index, MPI_STATUS_IGNORE)));
    ASSERT_TRUE(ok(MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE)));
    EXPECT_EQ(in, out);
  }
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
