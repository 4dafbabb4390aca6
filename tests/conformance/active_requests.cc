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

// Freed while it is active it goes on, and its buffer is busy until it has arrived.
TEST_F(Active, AFreedSendStillArrives) {
  start_both();
  ASSERT_TRUE(ok(MPI_Request_free(pair.at(1))));
  EXPECT_EQ(pair[1], MPI_REQUEST_NULL);
  ASSERT_TRUE(ok(MPI_Wait(pair.at(0), MPI_STATUS_IGNORE)));
  EXPECT_EQ(in, 1000 + partner());
  MPI_Barrier(MPI_COMM_WORLD);
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

// ---- What MPI starts of matched requests: nothing

struct MatchedPair : Exchange {
  Requests pair;
  void SetUp() override {
    add_pair(pair);
    pair.match();
  }
  void TearDown() override { verify_matched(pair); }
};

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

}  // namespace
}  // namespace lanyard::conformance
