// Matched messages, statuses and requests. Lanyard refuses other requests with a message that
// names their kind, and they stay usable by MPI. Order, wildcards and communicators:
// tests/api/api_match_*.cc.
//
// MPI 4.0, sections 3.2.2 to 3.2.6, 3.4, 3.6, 3.7, 3.8.1, 3.9, 3.11, 6.12, 6.13, 9.1.2, 13.2.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

int tag_ub() {
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found);
  return found ? *static_cast<int*>(value) : -1;
}

struct Envelope : Exchange {};

TEST_F(Envelope, TagsGoUpToTheMpisLimit) {
  ASSERT_GE(tag_ub(), 32767);
  const std::array<int, 4> tags{0, 32767, tag_ub() - 1, tag_ub()};
  std::array<int, 4> outs, ins{};
  Requests sends, receives;
  for (size_t i = 0; i < tags.size(); ++i) {
    outs[i] = static_cast<int>(i) + 10 * rank();
    sends.send(&outs[i], 1, partner(), tags[i], MPI_COMM_WORLD, Mode::kSend, MPI_INT);
    // In reverse order, so that tags decide.
    receives.receive(&ins[3 - i], 1, partner(), tags[3 - i], MPI_COMM_WORLD, MPI_INT);
  }
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(4, sends.data(), &match)));
  std::array<MPI_Status, 4> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(4, receives.data(), statuses.data())));
  ASSERT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  receives.start(queue);
  sends.run(queue);
  receives.wait(queue);
  queue.wait();
  for (size_t i = 0; i < tags.size(); ++i) {
    EXPECT_EQ(ins[i], static_cast<int>(i) + 10 * partner());
    EXPECT_EQ(statuses[i].MPI_TAG, tags[3 - i]);
  }
}

TEST_F(Envelope, ZeroBytesMatchAndComplete) {
  Requests pair;
  pair.receive(nullptr, 0, partner(), 1);
  pair.send(nullptr, 0, partner(), 1);
  std::array<MPI_Status, 2> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(2, pair.data(), statuses.data())));
  EXPECT_EQ(count_of(statuses[0]), 0);
  EXPECT_EQ(statuses[0].MPI_SOURCE, partner());
  for (int i = 0; i < 3; ++i)
    pair.run(queue);
}

TEST_F(Envelope, ProcNullMatchesAtOnceWithItsOwnStatus) {
  Requests requests;
  requests.receive(&in, 1, MPI_PROC_NULL, 5, MPI_COMM_WORLD, MPI_INT);
  requests.send(&out, 1, MPI_PROC_NULL, 5, MPI_COMM_WORLD, Mode::kRsend, MPI_INT);
  MPI_Status status = unfilled();
  MPI_Request match = MPI_REQUEST_NULL;
  int flag = 0;
  ASSERT_TRUE(ok(MPIX_Imatch(requests.at(0), &match)));
  ASSERT_TRUE(ok(MPI_Test(&match, &flag, &status)));
  ASSERT_TRUE(flag);
  ASSERT_TRUE(ok(MPIX_Match(requests.at(1), MPI_STATUS_IGNORE)));
  EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
  EXPECT_EQ(count_of(status), 0);
  for (int i = 0; i < 3; ++i)
    requests.run(queue);
  EXPECT_EQ(in, -1);
}

// ---- Statuses

// A send of three ints and a receive with room for five. `statuses` come from the match, the
// receive's first.
struct Statuses : Exchange {
  std::array<int, 3> three{1, 2, 3};
  std::array<int, 5> room{};
  Requests pair;
  std::array<MPI_Status, 2> statuses{unfilled(), unfilled()};

  void SetUp() override {
    pair.receive(room.data(), 5, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_INT);
    pair.send(three.data(), 3, partner(), 21, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  }
};

TEST_F(Statuses, ReportTheWildcardsValueInAnyType) {
  MPI_Datatype two = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &two);
  MPI_Type_commit(&two);
  ASSERT_TRUE(ok(MPIX_Matchall(2, pair.data(), statuses.data())));
  EXPECT_TRUE(is_empty(statuses[1])) << "a send must have an empty status";
  EXPECT_EQ(statuses[0].MPI_SOURCE, partner());
  EXPECT_EQ(statuses[0].MPI_TAG, 21);
  EXPECT_EQ(count_of(statuses[0], MPI_INT), 3);
  EXPECT_EQ(count_of(statuses[0], MPI_BYTE), 12);
  EXPECT_EQ(count_of(statuses[0], MPI_DOUBLE), MPI_UNDEFINED);
  EXPECT_EQ(count_of(statuses[0], two), MPI_UNDEFINED);
  int elements = -1, cancelled = 1;
  MPI_Count elements_x = -1;
  ASSERT_TRUE(ok(MPI_Get_elements(&statuses[0], two, &elements)));
  ASSERT_TRUE(ok(MPI_Get_elements_x(&statuses[0], two, &elements_x)));
  ASSERT_TRUE(ok(MPI_Test_cancelled(&statuses[0], &cancelled)));
  EXPECT_EQ(elements, 3);
  EXPECT_EQ(elements_x, 3);
  EXPECT_FALSE(cancelled);
  MPI_Type_free(&two);
}

TEST_F(Statuses, OfOneMatchRequestForManyAreEmpty) {
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(2, pair.data(), &match)));
  ASSERT_TRUE(ok(MPI_Wait(&match, &statuses[0])));
  EXPECT_TRUE(is_empty(statuses[0]));
}

// ---- Other requests

struct Beside : Exchange {};

// The send's wait passes on the stream only after the receive has started.
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

  // Every matching call names the request's kind, and the request is unchanged.
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

TEST_F(Unmatchable, NullRequests) { expect_refused(MPI_ERR_REQUEST, {"MPI_REQUEST_NULL"}); }

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
  ASSERT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));  // the receive may come later
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

// The init calls with counts of type MPI_Count.
TEST_F(Beside, RequestsMayBeCountedByMpiCount) {
  for (const auto init : {MPI_Send_init_c, MPI_Ssend_init_c, MPI_Rsend_init_c}) {
    in = -1;
    std::array<MPI_Request, 2> pair{};
    ASSERT_TRUE(ok(MPI_Recv_init_c(&in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &pair[0])));
    ASSERT_TRUE(ok(init(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &pair[1])));
    ASSERT_TRUE(ok(MPIX_Matchall(2, pair.data(), MPI_STATUSES_IGNORE)));
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, &pair[0])));
    stream.synchronize();
    MPI_Barrier(MPI_COMM_WORLD);  // a ready send may start only after its receive
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, &pair[1])));
    ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 2, pair.data())));
    ASSERT_TRUE(ok(MPIX_Queue_wait(queue)));
    EXPECT_EQ(in, 1000 + partner());
    for (MPI_Request& request : pair)
      ASSERT_TRUE(ok(MPI_Request_free(&request)));
  }
  MPI_Request buffered = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPI_Bsend_init_c(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &buffered)));
  EXPECT_TRUE(fails(MPIX_Match(&buffered, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION, {"uffered"}));
  ASSERT_TRUE(ok(MPI_Request_free(&buffered)));
}
#endif

}  // namespace
}  // namespace lanyard::conformance
