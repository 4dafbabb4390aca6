// The program's other messages and requests: probes see no matching, and what cannot be matched is refused by name and
// the MPI's to use. MPI 4.0, sections 3.4, 3.6, 3.7, 3.8.1, 3.9, 6.12, 6.13, 13.2.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

struct Beside : Exchange {};

TEST_F(Beside, IprobeSeesNoMatching) {
  Requests late;
  late.send(&out, 1, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(late.at(0), &match)));
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 20; ++i) {
    int waiting = 1;
    ASSERT_TRUE(ok(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE)));
    EXPECT_FALSE(waiting);
  }
  late.receive(&in, 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_TRUE(ok(MPIX_Match(late.at(1), MPI_STATUS_IGNORE)));
  ASSERT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
}

// Its wait on the stream passes only once the receive has been started: nothing of it completes before.
TEST_F(Beside, ASynchronousSendWaitsForItsReceive) {
  Requests pair;
  pair.receive(&in, 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  pair.send(&out, 1, partner(), 1, MPI_COMM_WORLD, Mode::kSsend, MPI_INT);
  pair.match();
  std::atomic<bool> reached{false}, passed{false};
  ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, pair.at(1))));
  stream.launch([&] { reached = true; });
  ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, pair.at(1))));
  stream.launch([&] { passed = true; });
  Stream second_stream;
  Queue second(second_stream);
  MPI_Barrier(MPI_COMM_WORLD);
  while (!reached.load())
    std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    EXPECT_FALSE(passed.load());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_TRUE(ok(MPIX_Enqueue_start(second, pair.at(0))));
  ASSERT_TRUE(ok(MPIX_Enqueue_wait(second, pair.at(0))));
  second.wait();
  queue.wait();
  EXPECT_TRUE(passed.load());
  EXPECT_EQ(in, 1000 + partner());
}

struct Unmatchable : Exchange {
  MPI_Request request = MPI_REQUEST_NULL;

  // Every matching call says what it is; the request stays.
  void expect_refused(int error_class, std::initializer_list<std::string> facts) {
    const MPI_Request before = request;
    MPI_Request match = MPI_REQUEST_NULL;
    EXPECT_TRUE(fails(MPIX_Match(&request, MPI_STATUS_IGNORE), error_class, facts));
    EXPECT_TRUE(fails(MPIX_Matchall(1, &request, MPI_STATUSES_IGNORE), error_class, facts));
    EXPECT_TRUE(fails(MPIX_Imatch(&request, &match), error_class, facts));
    EXPECT_TRUE(fails(MPIX_Imatchall(1, &request, &match), error_class, facts));
    const Enqueued enqueued(queue);
    EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, &request), MPI_ERR_REQUEST));
    EXPECT_TRUE(fails(MPIX_Enqueue_startall(queue, 1, &request), MPI_ERR_REQUEST));
    EXPECT_TRUE(fails(MPIX_Enqueue_wait(queue, &request), MPI_ERR_REQUEST));
    EXPECT_TRUE(fails(MPIX_Enqueue_waitall(queue, 1, &request), MPI_ERR_REQUEST));
    EXPECT_EQ(Enqueued(queue), enqueued);
    EXPECT_EQ(request, before);
    EXPECT_EQ(match, MPI_REQUEST_NULL);
  }
};

TEST_F(Unmatchable, OrdinaryRequests) {
  ASSERT_TRUE(ok(MPI_Irecv(&in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &request)));
  expect_refused(MPI_ERR_REQUEST, {"not a persistent point-to-point request"});
  ASSERT_TRUE(ok(MPI_Send(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD)));
  ASSERT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));
  EXPECT_EQ(in, 1000 + partner());
}

TEST_F(Unmatchable, CollectiveRequests) {
  ASSERT_TRUE(ok(MPI_Ibarrier(MPI_COMM_WORLD, &request)));
  expect_refused(MPI_ERR_REQUEST, {"not a persistent point-to-point request"});
  ASSERT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));
}

TEST_F(Unmatchable, GeneralizedRequests) {
  request = generalized();
  expect_refused(MPI_ERR_REQUEST, {"not a persistent point-to-point request"});
  ASSERT_TRUE(ok(MPI_Grequest_complete(request)));
  MPI_Status status = unfilled();
  ASSERT_TRUE(ok(MPI_Wait(&request, &status)));
  EXPECT_EQ(count_of(status), 17);
}

TEST_F(Unmatchable, MatchRequestsThemselves) {
  Requests pair;
  add_pair(pair, 1);
  ASSERT_TRUE(ok(MPIX_Imatchall(2, pair.data(), &request)));
  expect_refused(MPI_ERR_REQUEST, {"not a persistent point-to-point request"});
  ASSERT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));
  verify_matched(pair);
}

TEST_F(Unmatchable, BufferedSends) {
  std::vector<char> room(4096);
  ASSERT_TRUE(ok(MPI_Buffer_attach(room.data(), static_cast<int>(room.size()))));
  ASSERT_TRUE(ok(MPI_Bsend_init(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &request)));
  expect_refused(MPI_ERR_UNSUPPORTED_OPERATION, {"buffered"});
  int flag = 1;
  ASSERT_TRUE(ok(MPIX_Is_matched(request, &flag)));
  EXPECT_FALSE(flag);
  ASSERT_TRUE(ok(MPI_Start(&request)));
  ASSERT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));  // its receive may come later
  ASSERT_TRUE(ok(MPI_Recv(&in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
  EXPECT_EQ(in, 1000 + partner());
  ASSERT_TRUE(ok(MPI_Request_free(&request)));
  void* address = nullptr;
  int size = 0;
  ASSERT_TRUE(ok(MPI_Buffer_detach(&address, &size)));
}

#if MPI_VERSION >= 4
TEST_F(Unmatchable, PartitionedSends) {
  std::array<int, 2> two{rank(), rank()}, got{-1, -1};
  MPI_Request receive = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPI_Psend_init(two.data(), 2, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request)));
  ASSERT_TRUE(ok(MPI_Precv_init(got.data(), 2, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_INFO_NULL, &receive)));
  expect_refused(MPI_ERR_UNSUPPORTED_OPERATION, {"MPI_Psend_init", "partitioned"});
  for (int i = 0; i < 2; ++i) {
    got = {-1, -1};
    ASSERT_TRUE(ok(MPI_Start(&receive)));
    ASSERT_TRUE(ok(MPI_Start(&request)));
    ASSERT_TRUE(ok(MPI_Pready_range(0, 1, request)));
    ASSERT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));
    ASSERT_TRUE(ok(MPI_Wait(&receive, MPI_STATUS_IGNORE)));
    EXPECT_EQ(got, (std::array<int, 2>{partner(), partner()}));
  }
  ASSERT_TRUE(ok(MPI_Request_free(&request)));
  ASSERT_TRUE(ok(MPI_Request_free(&receive)));
}

TEST_F(Unmatchable, PartitionedReceives) {
  std::array<int, 2> got{-1, -1};
  ASSERT_TRUE(ok(MPI_Precv_init(got.data(), 2, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request)));
  expect_refused(MPI_ERR_UNSUPPORTED_OPERATION, {"MPI_Precv_init", "partitioned"});
  ASSERT_TRUE(ok(MPI_Request_free(&request)));
}

TEST_F(Unmatchable, PersistentCollectives) {
  int own = 1, sum = 0;
  ASSERT_TRUE(ok(MPI_Scan_init(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request)));
  expect_refused(MPI_ERR_REQUEST, {"persistent collective"});
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(ok(MPI_Start(&request)));
    ASSERT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));
  }
  ASSERT_TRUE(ok(MPI_Request_free(&request)));
}

// The forms with counts of MPI_Count.
TEST(Datatypes, MayBeCountedByMpiCount) {
  using Init = int (*)(const void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
  Stream stream;
  Queue queue{stream};
  for (const Init init : {Init(MPI_Send_init_c), Init(MPI_Ssend_init_c), Init(MPI_Rsend_init_c)}) {
    const int out = 1000 + rank();
    int in = -1;
    std::array<MPI_Request, 2> pair{};
    ASSERT_TRUE(ok(MPI_Recv_init_c(&in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &pair[0])));
    ASSERT_TRUE(ok(init(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &pair[1])));
    ASSERT_TRUE(ok(MPIX_Matchall(2, pair.data(), MPI_STATUSES_IGNORE)));
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, &pair[0])));
    stream.synchronize();
    MPI_Barrier(MPI_COMM_WORLD);  // a ready send is not made before its receive has started
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, &pair[1])));
    ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 2, pair.data())));
    ASSERT_TRUE(ok(MPIX_Queue_wait(queue)));
    EXPECT_EQ(in, 1000 + partner());
    for (MPI_Request& request : pair)
      ASSERT_TRUE(ok(MPI_Request_free(&request)));
  }
  MPI_Request buffered = MPI_REQUEST_NULL;
  const int out = 0;
  ASSERT_TRUE(ok(MPI_Bsend_init_c(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &buffered)));
  EXPECT_TRUE(fails(MPIX_Match(&buffered, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION, {"uffered"}));
  ASSERT_TRUE(ok(MPI_Request_free(&buffered)));
}
#endif

}  // namespace
}  // namespace lanyard::conformance
