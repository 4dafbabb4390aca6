// Persistent requests that the MPI has started: what matching and starting on queues must leave as MPI has it.
// MPI 4.0, sections 3.2.4, 3.5, 3.7.6, 3.8.4, 3.9.
#include <vector>

#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

struct Active : Exchange {
  Requests pair;  // a receive and a send
  void SetUp() override { add_pair(pair); }
  void start_both() { ASSERT_TRUE(ok(MPI_Startall(2, pair.data()))); }
};

TEST_F(Active, WaitMakesThemInactiveNotNull) {
  const MPI_Request before[] = {pair[0], pair[1]};
  start_both();
  MPI_Status status = unfilled();
  ASSERT_TRUE(ok(MPI_Wait(pair.at(0), &status)));
  ASSERT_TRUE(ok(MPI_Wait(pair.at(1), MPI_STATUS_IGNORE)));
  EXPECT_EQ(status.MPI_SOURCE, partner());
  EXPECT_EQ(count_of(status, MPI_INT), 1);
  EXPECT_EQ(pair[0], before[0]);
  EXPECT_EQ(pair[1], before[1]);
  pair.match();
  verify_matched(pair);
}

TEST_F(Active, TestMakesThemInactiveNotNull) {
  const MPI_Request before[] = {pair[0], pair[1]};
  start_both();
  for (int i = 0; i < 2; ++i)
    for (int flag = 0; !flag;)
      ASSERT_TRUE(ok(MPI_Test(pair.at(i), &flag, MPI_STATUS_IGNORE)));
  EXPECT_EQ(in, 1000 + partner());
  EXPECT_EQ(pair[0], before[0]);
  EXPECT_EQ(pair[1], before[1]);
  verify_plain(pair);
}

TEST_F(Active, GetStatusLeavesThemActive) {
  start_both();
  MPI_Status status = unfilled();
  for (int flag = 0; !flag;)
    ASSERT_TRUE(ok(MPI_Request_get_status(pair[0], &flag, &status)));
  EXPECT_EQ(status.MPI_TAG, 1);
  status = unfilled();
  ASSERT_TRUE(ok(MPI_Wait(pair.at(0), &status)));
  EXPECT_EQ(status.MPI_TAG, 1);
  ASSERT_TRUE(ok(MPI_Wait(pair.at(1), MPI_STATUS_IGNORE)));
}

// The order of the starts decides who meets whom, not the order in which the requests were made.
TEST_F(Active, TheOrderOfStartsDecides) {
  std::array<int, 2> values{10, 20}, got{-1, -1};
  Requests sends, receives;
  for (size_t i = 0; i < 2; ++i) {
    sends.send(&values[i], 1, partner(), 6, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
    receives.receive(&got[i], 1, partner(), 6, MPI_COMM_WORLD, MPI_INT);
  }
  for (const int i : {1, 0})
    ASSERT_TRUE(ok(MPI_Start(receives.at(i))));
  for (const int i : {0, 1})
    ASSERT_TRUE(ok(MPI_Start(sends.at(i))));
  ASSERT_TRUE(ok(MPI_Waitall(2, receives.data(), MPI_STATUSES_IGNORE)));
  ASSERT_TRUE(ok(MPI_Waitall(2, sends.data(), MPI_STATUSES_IGNORE)));
  EXPECT_EQ(got, (std::array<int, 2>{20, 10}));
}

// Freed while it is active it goes on, and its buffer is busy until it has arrived.
TEST_F(Active, AFreedSendStillArrives) {
  start_both();
  ASSERT_TRUE(ok(MPI_Request_free(pair.at(1))));
  EXPECT_EQ(pair[1], MPI_REQUEST_NULL);
  ASSERT_TRUE(ok(MPI_Wait(pair.at(0), MPI_STATUS_IGNORE)));
  EXPECT_EQ(in, 1000 + partner());
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(Active, AFreedReceiveStillReceives) {
  ASSERT_TRUE(ok(MPI_Start(pair.at(0))));
  ASSERT_TRUE(ok(MPI_Request_free(pair.at(0))));
  EXPECT_EQ(pair[0], MPI_REQUEST_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_TRUE(ok(MPI_Start(pair.at(1))));
  ASSERT_TRUE(ok(MPI_Wait(pair.at(1), MPI_STATUS_IGNORE)));
  // What comes later on the same envelope does not overtake it.
  int later = -1, value = 7;
  MPI_Sendrecv(&value, 1, MPI_INT, partner(), 1, &later, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  EXPECT_EQ(later, 7);
  EXPECT_EQ(in, 1000 + partner());
}

TEST_F(Active, ACancelledReceiveCanBeMatchedAfterwards) {
  ASSERT_TRUE(ok(MPI_Start(pair.at(0))));
  ASSERT_TRUE(ok(MPI_Cancel(pair.at(0))));
  MPI_Status status = unfilled();
  ASSERT_TRUE(ok(MPI_Wait(pair.at(0), &status)));
  int cancelled = 0;
  MPI_Test_cancelled(&status, &cancelled);
  EXPECT_TRUE(cancelled);
  MPI_Barrier(MPI_COMM_WORLD);
  pair.match();
  verify_matched(pair);
}

TEST_F(Active, TruncationIsTheMpisError) {
  std::array<int, 2> two{1, 2};
  Requests longer;
  longer.send(two.data(), 2, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  ASSERT_TRUE(ok(MPI_Start(pair.at(0))));
  ASSERT_TRUE(ok(MPI_Start(longer.at(0))));
  EXPECT_TRUE(fails(MPI_Wait(pair.at(0), MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE));
  ASSERT_TRUE(ok(MPI_Wait(longer.at(0), MPI_STATUS_IGNORE)));
}

TEST_F(Active, CannotBeMatchedBeforeItCompletes) {
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPI_Start(pair.at(0))));
  EXPECT_TRUE(fails(MPIX_Match(pair.at(0), MPI_STATUS_IGNORE), MPI_ERR_REQUEST, {"MPI_Start"}));
  EXPECT_TRUE(fails(MPIX_Imatch(pair.at(0), &match), MPI_ERR_REQUEST, {"MPI_Start"}));
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_TRUE(ok(MPI_Start(pair.at(1))));
  ASSERT_TRUE(ok(MPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE)));
  EXPECT_EQ(in, 1000 + partner());
  pair.match();
  verify_matched(pair);
}

// The host may start some, a queue others, with equal envelopes, at the same time.
TEST_F(Active, BesideMatchedOnesOfTheSameEnvelope) {
  int plain_out = 3000 + rank(), plain_in = -1;
  Requests plain;
  plain.receive(&plain_in, 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  plain.send(&plain_out, 1, partner(), 1, MPI_COMM_WORLD, Mode::kSsend, MPI_INT);
  pair.match();
  for (int i = 0; i < 3; ++i) {
    in = plain_in = -1;
    ASSERT_TRUE(ok(MPI_Startall(2, plain.data())));
    pair.start(queue);
    pair.wait(queue);
    ASSERT_TRUE(ok(MPI_Waitall(2, plain.data(), MPI_STATUSES_IGNORE)));
    queue.wait();
    EXPECT_EQ(in, 1000 + partner());
    EXPECT_EQ(plain_in, 3000 + partner());
  }
}

// ---- What MPI starts of matched requests: nothing

struct MatchedPair : Exchange {
  Requests pair;
  void SetUp() override {
    add_pair(pair);
    pair.match();
  }
  void TearDown() override { verify_matched(pair); }
};

TEST_F(MatchedPair, StartIsRefused) {
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(fails(MPI_Start(pair.at(i)), MPI_ERR_REQUEST, {"is matched", "queue"}));
  MPI_Barrier(MPI_COMM_WORLD);
  int waiting = 1;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE);
  EXPECT_FALSE(waiting);
}

// Not even those before the matched one are started.
TEST_F(MatchedPair, StartallIsRefusedAsAWhole) {
  int value = 5, got = -1;
  Requests plain;
  plain.send(&value, 1, partner(), 9, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  plain.receive(&got, 1, partner(), 9, MPI_COMM_WORLD, MPI_INT);
  std::array<MPI_Request, 3> all{plain[0], plain[1], pair[1]};
  EXPECT_TRUE(fails(MPI_Startall(3, all.data()), MPI_ERR_REQUEST, {"is matched"}));
  MPI_Barrier(MPI_COMM_WORLD);
  int waiting = 1;
  MPI_Iprobe(partner(), 9, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE);
  EXPECT_FALSE(waiting);
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_TRUE(ok(MPI_Startall(2, plain.data())));
  ASSERT_TRUE(ok(MPI_Waitall(2, plain.data(), MPI_STATUSES_IGNORE)));
  EXPECT_EQ(got, 5);
}

TEST_F(MatchedPair, MayBeFreedAndMadeAnew) {
  for (int i = 0; i < 3; ++i) {
    verify_matched(pair);
    pair.free();
    add_pair(pair);
    pair.match();
  }
}

// The halves are freed on one side long before the other; what the other has is only freed.
TEST_F(MatchedPair, MayBeFreedOnOneSideFirst) {
  Requests other;
  add_pair(other, 2);
  other.match();
  verify_matched(other);
  if (rank() % 2 == 0)
    other.free();
  MPI_Barrier(MPI_COMM_WORLD);
  other.free();
}

}  // namespace
}  // namespace lanyard::conformance
