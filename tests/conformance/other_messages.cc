// The program's other messages beside matched requests: none of them meets a matched request, and probes see them
// alone.
// MPI 4.0, sections 3.4, 3.5, 3.6, 3.8.1, 3.8.2, 3.9, 3.10, 6.14.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

// A matched pair under way again and again while the MPI has messages on the same envelope.
struct Beside : Exchange {
  Requests pair;
  int plain_out = 2000 + rank(), plain_in = -1;

  void SetUp() override {
    add_pair(pair);
    pair.match();
    in = -1;
    pair.start(queue);  // its message is there while the MPI's calls look
    pair.wait(queue);
    queue.wait();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void TearDown() override {
    EXPECT_EQ(in, 1000 + partner());
    verify_matched(pair);
  }
  void expect_nothing_waits() {
    int waiting = 1;
    ASSERT_TRUE(ok(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE)));
    EXPECT_FALSE(waiting);
  }
};

TEST_F(Beside, IprobeSeesNoMatchedMessage) {
  for (int i = 0; i < 20; ++i)
    expect_nothing_waits();
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(Beside, IprobeSeesNoMatching) {
  Requests late;
  int value = 1, got = -1;
  late.send(&value, 1, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(late.at(0), &match)));
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 20; ++i)
    expect_nothing_waits();
  late.receive(&got, 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_TRUE(ok(MPIX_Match(late.at(1), MPI_STATUS_IGNORE)));
  ASSERT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
}

TEST_F(Beside, ProbeSeesAnUnmatchedPersistentSend) {
  Requests plain;
  plain.send(&plain_out, 1, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  ASSERT_TRUE(ok(MPI_Start(plain.at(0))));
  MPI_Status status = unfilled();
  ASSERT_TRUE(ok(MPI_Probe(partner(), 1, MPI_COMM_WORLD, &status)));
  EXPECT_EQ(count_of(status, MPI_INT), 1);
  ASSERT_TRUE(ok(MPI_Recv(&plain_in, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status)));
  EXPECT_EQ(plain_in, 2000 + partner());
  ASSERT_TRUE(ok(MPI_Wait(plain.at(0), MPI_STATUS_IGNORE)));
  MPI_Barrier(MPI_COMM_WORLD);
  expect_nothing_waits();
}

TEST_F(Beside, MprobeTakesAnUnmatchedMessage) {
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Isend(&plain_out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &send);
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status = unfilled();
  ASSERT_TRUE(ok(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status)));
  EXPECT_EQ(status.MPI_SOURCE, partner());
  ASSERT_TRUE(ok(MPI_Mrecv(&plain_in, 1, MPI_INT, &message, MPI_STATUS_IGNORE)));
  EXPECT_EQ(plain_in, 2000 + partner());
  ASSERT_TRUE(ok(MPI_Wait(&send, MPI_STATUS_IGNORE)));
}

TEST_F(Beside, SendrecvMeetsSendrecv) {
  for (int i = 0; i < 5; ++i) {
    pair.start(queue);
    pair.wait(queue);
    plain_in = -1;
    ASSERT_TRUE(ok(MPI_Sendrecv(&plain_out, 1, MPI_INT, partner(), 1, &plain_in, 1, MPI_INT, partner(), 1,
                                MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
    EXPECT_EQ(plain_in, 2000 + partner());
    queue.wait();
  }
}

TEST_F(Beside, SendrecvReplaceMeetsWildcards) {
  int value = plain_out;
  MPI_Status status = unfilled();
  ASSERT_TRUE(
      ok(MPI_Sendrecv_replace(&value, 1, MPI_INT, partner(), 1, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status)));
  EXPECT_EQ(value, 2000 + partner());
  EXPECT_EQ(status.MPI_SOURCE, partner());
  MPI_Barrier(MPI_COMM_WORLD);
}

// A receive of the MPI's that waits on the matched pair's envelope gets the MPI's next message, whatever moves between.
TEST_F(Beside, AnOrdinaryReceiveWaitsForAnOrdinarySend) {
  MPI_Request receive = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPI_Irecv(&plain_in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &receive)));
  verify_matched(pair);
  int flag = 1;
  ASSERT_TRUE(ok(MPI_Test(&receive, &flag, MPI_STATUS_IGNORE)));
  EXPECT_FALSE(flag);
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_TRUE(ok(MPI_Send(&plain_out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD)));
  ASSERT_TRUE(ok(MPI_Wait(&receive, MPI_STATUS_IGNORE)));
  EXPECT_EQ(plain_in, 2000 + partner());
}

// Unmatched persistent sends and ordinary receives meet, as MPI has it, and the other way round.
TEST_F(Beside, UnmatchedPersistentOnesMeetOrdinaryOnes) {
  Requests plain;
  plain.send(&plain_out, 1, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  plain.receive(&plain_in, 1, partner(), 2, MPI_COMM_WORLD, MPI_INT);
  int got = -1;
  ASSERT_TRUE(ok(MPI_Startall(2, plain.data())));
  ASSERT_TRUE(ok(MPI_Recv(&got, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
  ASSERT_TRUE(ok(MPI_Send(&plain_out, 1, MPI_INT, partner(), 2, MPI_COMM_WORLD)));
  ASSERT_TRUE(ok(MPI_Waitall(2, plain.data(), MPI_STATUSES_IGNORE)));
  EXPECT_EQ(got, 2000 + partner());
  EXPECT_EQ(plain_in, 2000 + partner());
}

TEST_F(Beside, CollectivesGoOnMeanwhile) {
  for (int i = 0; i < 5; ++i) {
    pair.start(queue);
    int sum = 0, one = 1;
    MPI_Request all = MPI_REQUEST_NULL;
    ASSERT_TRUE(ok(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &all)));
    ASSERT_TRUE(ok(MPI_Barrier(MPI_COMM_WORLD)));
    ASSERT_TRUE(ok(MPI_Wait(&all, MPI_STATUS_IGNORE)));
    EXPECT_EQ(sum, ranks());
    pair.wait(queue);
    queue.wait();
  }
}

// ---- The four modes of sends

struct Modes : Exchange, ::testing::WithParamInterface<Mode> {};

TEST_P(Modes, AreMatchedByAReceive) {
  Requests pair;
  pair.receive(&in, 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  pair.send(&out, 1, partner(), 1, MPI_COMM_WORLD, GetParam(), MPI_INT);
  pair.match();
  for (int i = 0; i < 4; ++i) {
    in = -1;
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, pair.at(0))));
    stream.synchronize();
    MPI_Barrier(MPI_COMM_WORLD);  // a ready send's receive has been started
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, pair.at(1))));
    pair.wait(queue);
    queue.wait();
    EXPECT_EQ(in, 1000 + partner());
  }
}

TEST_P(Modes, AreTheMpisWhereUnmatched) {
  Requests pair;
  pair.receive(&in, 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  pair.send(&out, 1, partner(), 1, MPI_COMM_WORLD, GetParam(), MPI_INT);
  for (int i = 0; i < 2; ++i) {
    in = -1;
    ASSERT_TRUE(ok(MPI_Start(pair.at(0))));
    MPI_Barrier(MPI_COMM_WORLD);
    ASSERT_TRUE(ok(MPI_Start(pair.at(1))));
    ASSERT_TRUE(ok(MPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE)));
    EXPECT_EQ(in, 1000 + partner());
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Modes, ::testing::Values(Mode::kSend, Mode::kSsend, Mode::kRsend),
                         [](const auto& each) { return name_of(each.param); });

// Its wait on the stream passes only once the receive has been started: nothing of it completes before.
struct SynchronousSend : Exchange {};

TEST_F(SynchronousSend, WaitsForItsReceive) {
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

struct Buffered : Exchange {
  std::vector<char> room = std::vector<char>(4096);
  MPI_Request send = MPI_REQUEST_NULL;
  void SetUp() override {
    ASSERT_TRUE(ok(MPI_Buffer_attach(room.data(), static_cast<int>(room.size()))));
    ASSERT_TRUE(ok(MPI_Bsend_init(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &send)));
  }
  void TearDown() override {
    ASSERT_TRUE(ok(MPI_Request_free(&send)));
    void* address = nullptr;
    int size = 0;
    ASSERT_TRUE(ok(MPI_Buffer_detach(&address, &size)));
  }
};

TEST_F(Buffered, SendsAreRefusedByName) {
  MPI_Request match = MPI_REQUEST_NULL;
  int flag = 1;
  EXPECT_TRUE(fails(MPIX_Match(&send, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION, {"buffered"}));
  EXPECT_TRUE(fails(MPIX_Matchall(1, &send, MPI_STATUSES_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION, {"buffered"}));
  EXPECT_TRUE(fails(MPIX_Imatch(&send, &match), MPI_ERR_UNSUPPORTED_OPERATION, {"buffered"}));
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  ASSERT_TRUE(ok(MPIX_Is_matched(send, &flag)));
  EXPECT_FALSE(flag);
}

TEST_F(Buffered, SendsAreTheMpis) {
  EXPECT_TRUE(fails(MPIX_Match(&send, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION));
  for (int i = 0; i < 2; ++i) {
    in = -1;
    ASSERT_TRUE(ok(MPI_Start(&send)));
    ASSERT_TRUE(ok(MPI_Wait(&send, MPI_STATUS_IGNORE)));  // its receive may come later
    ASSERT_TRUE(ok(MPI_Recv(&in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
    EXPECT_EQ(in, 1000 + partner());
  }
}

}  // namespace
}  // namespace lanyard::conformance
