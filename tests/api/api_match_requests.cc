// Match requests: ordinary MPI requests. Those among others: tests/conformance/mixed_arrays.cc.
#include <array>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct MatchRequests : ::testing::Test {
  Stream stream;
  Queue queue{stream};
  int out = rank(), in = -1;
  Requests requests;  // receive, send

  void SetUp() override {
    requests.receive(&in, sizeof in, partner(), 1);
    requests.send(&out, sizeof out, partner(), 1);
  }
  std::array<MPI_Request, 2> begin() {
    std::array<MPI_Request, 2> matches{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(ok(MPIX_Imatch(requests.at(i), &matches[static_cast<size_t>(i)])));
    return matches;
  }
  void verify() {
    requests.start(queue);
    requests.wait(queue);
    queue.wait();
    EXPECT_EQ(in, partner());
  }
  void expect_receive_status(const MPI_Status& status) {
    int count = -1;
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT_EQ(status.MPI_SOURCE, partner());
    EXPECT_EQ(status.MPI_TAG, 1);
    EXPECT_EQ(count, 1);
  }
};

TEST_F(MatchRequests, Test) {
  auto matches = begin();
  MPI_Status status;
  for (MPI_Request& match : matches) {
    int flag = 0;
    while (!flag)
      ASSERT_TRUE(ok(MPI_Test(&match, &flag, &match == &matches[0] ? &status : MPI_STATUS_IGNORE)));
    EXPECT_EQ(match, MPI_REQUEST_NULL);
  }
  expect_receive_status(status);
  verify();
}

TEST_F(MatchRequests, OneForNone) {
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(0, nullptr, &match)));
  ASSERT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  ASSERT_TRUE(ok(MPIX_Matchall(0, nullptr, MPI_STATUSES_IGNORE)));
  requests.match();
  verify();
}

TEST_F(MatchRequests, NobodyIsMatchedAtOnce) {
  Requests nobody;
  nobody.receive(&in, sizeof in, MPI_PROC_NULL, 1);
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(nobody.at(0), &match)));
  int flag = 0;
  MPI_Status status;
  ASSERT_TRUE(ok(MPI_Test(&match, &flag, &status)));
  EXPECT_TRUE(flag);
  EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
}

// The order of the calls decides, not the order of completion; many may be out.
TEST_F(MatchRequests, ManyCompletedFromTheLastToTheFirst) {
  constexpr size_t kCount = 20;
  std::array<int, kCount> outs, ins{};
  Requests many;
  std::array<MPI_Request, 2 * kCount> matches;
  for (size_t i = 0; i < kCount; ++i) {
    outs[i] = static_cast<int>(i) + 100 * rank();
    many.receive(&ins[i], sizeof(int), partner(), 4);
    many.send(&outs[i], sizeof(int), partner(), 4);
  }
  for (size_t i = 0; i < 2 * kCount; ++i)
    ASSERT_TRUE(ok(MPIX_Imatch(many.at(static_cast<int>(i)), &matches[i])));
  for (size_t i = 2 * kCount; i-- > 0;)
    ASSERT_TRUE(ok(MPI_Wait(&matches[i], MPI_STATUS_IGNORE)));
  many.start(queue);
  many.wait(queue);
  queue.wait();
  for (size_t i = 0; i < kCount; ++i)
    EXPECT_EQ(ins[i], static_cast<int>(i) + 100 * partner());
}

TEST_F(MatchRequests, IsMatchedMakesProgressAndCompletesNothing) {
  int flag = -1;
  ASSERT_TRUE(ok(MPIX_Is_matched(requests[0], &flag)));
  EXPECT_EQ(flag, 0);
  auto matches = begin();
  for (int i = 0; i < 2; ++i)
    for (flag = 0; !flag;)
      ASSERT_TRUE(ok(MPIX_Is_matched(requests[i], &flag)));
  // The requests can be used at once, the match requests be completed later.
  verify();
  for (MPI_Request& match : matches) {
    EXPECT_NE(match, MPI_REQUEST_NULL);
    ASSERT_TRUE(ok(MPI_Test(&match, &flag, MPI_STATUS_IGNORE)));
    EXPECT_TRUE(flag);
  }
}

TEST_F(MatchRequests, IsMatchedKnowsPersistentRequestsOnly) {
  int flag = -1;
  EXPECT_TRUE(fails(MPIX_Is_matched(MPI_REQUEST_NULL, &flag), MPI_ERR_REQUEST));
  auto matches = begin();
  EXPECT_TRUE(fails(MPIX_Is_matched(matches[0], &flag), MPI_ERR_REQUEST));
  EXPECT_TRUE(fails(MPIX_Is_matched(requests[0], nullptr), MPI_ERR_ARG));
  ASSERT_TRUE(ok(MPI_Waitall(2, matches.data(), MPI_STATUSES_IGNORE)));
  verify();
}

TEST_F(MatchRequests, CannotBeCancelled) {
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(requests.at(0), &match)));
  EXPECT_TRUE(fails(MPI_Cancel(&match), MPI_ERR_REQUEST, {"cancel"}));
  EXPECT_NE(match, MPI_REQUEST_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_TRUE(ok(MPIX_Match(requests.at(1), MPI_STATUS_IGNORE)));
  MPI_Status status;
  ASSERT_TRUE(ok(MPI_Wait(&match, &status)));
  expect_receive_status(status);
  verify();
}

TEST_F(MatchRequests, GetStatusLeavesItThere) {
  auto matches = begin();
  MPI_Status status;
  for (int flag = 0; !flag;)
    ASSERT_TRUE(ok(MPI_Request_get_status(matches[0], &flag, &status)));
  expect_receive_status(status);
  ASSERT_NE(matches[0], MPI_REQUEST_NULL);
  ASSERT_TRUE(ok(MPI_Waitall(2, matches.data(), MPI_STATUSES_IGNORE)));
  verify();
}

// MPI lets a request be freed that nobody wants to complete: the match goes on.
TEST_F(MatchRequests, MayBeFreedBeforeItIsComplete) {
  MPI_Request matches[2];
  ASSERT_TRUE(ok(MPIX_Imatch(requests.at(0), &matches[0])));
  ASSERT_TRUE(ok(MPI_Request_free(&matches[0])));
  EXPECT_EQ(matches[0], MPI_REQUEST_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_TRUE(ok(MPIX_Imatch(requests.at(1), &matches[1])));
  for (int i = 0; i < 2; ++i)
    for (int flag = 0; !flag;)
      ASSERT_TRUE(ok(MPIX_Is_matched(requests[i], &flag)));
  ASSERT_TRUE(ok(MPI_Wait(&matches[1], MPI_STATUS_IGNORE)));
  verify();
}

// Its match is done, and nobody has collected it: it may be freed as any complete request.
TEST_F(MatchRequests, MayBeFreedOnceItIsComplete) {
  for (int round = 0; round < 100; ++round) {
    Requests pair;
    pair.receive(&in, sizeof in, rank(), 3);
    pair.send(&out, sizeof out, rank(), 3);
    MPI_Request match = MPI_REQUEST_NULL;
    ASSERT_TRUE(ok(MPIX_Imatchall(2, pair.data(), &match)));
    for (int flag = 0; !flag;)
      ASSERT_TRUE(ok(MPI_Request_get_status(match, &flag, MPI_STATUS_IGNORE)));
    ASSERT_TRUE(ok(MPI_Request_free(&match)));
    EXPECT_EQ(match, MPI_REQUEST_NULL);
    pair.start(queue);
    pair.wait(queue);
    queue.wait();
    EXPECT_EQ(in, rank());
  }
  requests.match();
  verify();
}

// None of its requests may be freed before all are matched, not even those that are.
TEST_F(MatchRequests, KeepsItsRequestsUntilItIsComplete) {
  Requests all;
  all.receive(&in, sizeof in, rank(), 3);
  all.send(&out, sizeof out, rank(), 3);
  int late = -1, mine = 700 + rank();
  all.receive(&late, sizeof late, partner(), 4);
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(3, all.data(), &match)));
  for (int flag = 0; !flag;)
    ASSERT_TRUE(ok(MPIX_Is_matched(all[0], &flag)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(fails(MPI_Request_free(all.at(i)), MPI_ERR_REQUEST, {"being matched"}));
    EXPECT_NE(all[i], MPI_REQUEST_NULL);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  all.send(&mine, sizeof mine, partner(), 4);
  ASSERT_TRUE(ok(MPIX_Match(all.at(3), MPI_STATUS_IGNORE)));
  ASSERT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  all.start(queue);
  all.wait(queue);
  queue.wait();
  EXPECT_EQ(in, rank());
  EXPECT_EQ(late, 700 + partner());
  requests.match();
  verify();
}

}  // namespace
}  // namespace lanyard::api_test
