// What matching and completion calls say in their statuses.
// MPI 4.0, sections 3.2.5, 3.2.6, 3.7.3, 3.7.5, 3.8.4, 5.1.11, 13.2.
#include <vector>

#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

// A send of three ints to a receive with room for five; `statuses` are those of matching, receive first.
struct Statuses : Exchange {
  std::array<int, 3> three{1, 2, 3};
  std::array<int, 5> room{};
  Requests pair;
  std::array<MPI_Status, 2> statuses{unfilled(), unfilled()};

  void SetUp() override {
    pair.receive(room.data(), 5, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_INT);
    pair.send(three.data(), 3, partner(), 21, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  }
  void match() { ASSERT_TRUE(ok(MPIX_Matchall(2, pair.data(), statuses.data()))); }
};

TEST_F(Statuses, TellTheSourceBehindAWildcard) {
  match();
  EXPECT_EQ(statuses[0].MPI_SOURCE, partner());
}

TEST_F(Statuses, TellTheTagBehindAWildcard) {
  match();
  EXPECT_EQ(statuses[0].MPI_TAG, 21);
}

TEST_F(Statuses, CountInAnyTypeThatFits) {
  match();
  EXPECT_EQ(count_of(statuses[0], MPI_INT), 3);
  EXPECT_EQ(count_of(statuses[0], MPI_BYTE), 12);
  EXPECT_EQ(count_of(statuses[0], MPI_SHORT), 6);
}

TEST_F(Statuses, HaveNoCountInATypeThatDoesNotFit) {
  match();
  EXPECT_EQ(count_of(statuses[0], MPI_DOUBLE), MPI_UNDEFINED);
}

TEST_F(Statuses, CountElementsOfDerivedTypes) {
  MPI_Datatype two = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &two);
  MPI_Type_commit(&two);
  match();
  int elements = -1;
  MPI_Count elements_x = -1;
  ASSERT_TRUE(ok(MPI_Get_elements(&statuses[0], two, &elements)));
  ASSERT_TRUE(ok(MPI_Get_elements_x(&statuses[0], two, &elements_x)));
  EXPECT_EQ(elements, 3);
  EXPECT_EQ(elements_x, 3);
  EXPECT_EQ(count_of(statuses[0], two), MPI_UNDEFINED);
  MPI_Type_free(&two);
}

TEST_F(Statuses, OfSendsAreEmpty) {
  match();
  EXPECT_TRUE(is_empty(statuses[1]));
}

TEST_F(Statuses, SayNothingWasCancelled) {
  match();
  for (const MPI_Status& status : statuses) {
    int cancelled = 1;
    ASSERT_TRUE(ok(MPI_Test_cancelled(&status, &cancelled)));
    EXPECT_FALSE(cancelled);
  }
}

TEST_F(Statuses, MayBeIgnored) {
  ASSERT_TRUE(ok(MPIX_Matchall(2, pair.data(), MPI_STATUSES_IGNORE)));
  Requests more;
  add_pair(more, 4, MPI_COMM_WORLD, rank());
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(more.at(1), &match)));
  ASSERT_TRUE(ok(MPIX_Match(more.at(0), MPI_STATUS_IGNORE)));
  ASSERT_TRUE(ok(MPI_Waitall(1, &match, MPI_STATUSES_IGNORE)));
}

TEST_F(Statuses, OfMatchRequestsAreTheReceives) {
  MPI_Request matches[2];
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(ok(MPIX_Imatch(pair.at(i), &matches[i])));
  ASSERT_TRUE(ok(MPI_Waitall(2, matches, statuses.data())));
  EXPECT_EQ(statuses[0].MPI_SOURCE, partner());
  EXPECT_EQ(statuses[0].MPI_TAG, 21);
  EXPECT_EQ(count_of(statuses[0], MPI_INT), 3);
  EXPECT_TRUE(is_empty(statuses[1]));
}

TEST_F(Statuses, OfOneMatchRequestForManyAreEmpty) {
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(2, pair.data(), &match)));
  ASSERT_TRUE(ok(MPI_Wait(&match, &statuses[0])));
  EXPECT_TRUE(is_empty(statuses[0]));
}

TEST_F(Statuses, NameRanksOfTheRequestsCommunicator) {
  MPI_Comm reversed = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank(), &reversed)));
  const int here = ranks() - 1 - rank(), peer = ranks() - 1 - partner();
  int there = -1;
  MPI_Comm_rank(reversed, &there);
  ASSERT_EQ(there, here);
  Requests other;
  other.receive(&in, 1, MPI_ANY_SOURCE, 1, reversed, MPI_INT);
  other.send(&out, 1, peer, 1, reversed, Mode::kSend, MPI_INT);
  ASSERT_TRUE(ok(MPIX_Matchall(2, other.data(), statuses.data())));
  EXPECT_EQ(statuses[0].MPI_SOURCE, peer);
  verify_matched(other);
  other.free();
  MPI_Comm_free(&reversed);
}

// ---- The error field

// Three pairs with oneself, of which the second does not match.
struct ErrorFields : Exchange {
  Requests all;  // a pair that matches, one that does not, one that matches
  std::array<int, 2> two{1, 2};
  int second = -1;
  void SetUp() override {
    add_pair(all, 1, MPI_COMM_SELF, 0);
    all.receive(&second, 1, 0, 2, MPI_COMM_SELF, MPI_INT);
    all.send(two.data(), 2, 0, 2, MPI_COMM_SELF, Mode::kSend, MPI_INT);
    add_pair(all, 3, MPI_COMM_SELF, 0);
  }
};

TEST_F(ErrorFields, TellWhichOfManyFailed) {
  std::array<MPI_Status, 6> statuses;
  statuses.fill(unfilled());
  EXPECT_TRUE(fails(MPIX_Matchall(6, all.data(), statuses.data()), MPI_ERR_IN_STATUS, {"2 of the matches"}));
  for (const size_t i : {0u, 1u, 4u, 5u})
    EXPECT_EQ(statuses[i].MPI_ERROR, MPI_SUCCESS) << i;
  for (const size_t i : {2u, 3u})
    EXPECT_TRUE(fails(statuses[i].MPI_ERROR, MPI_ERR_TRUNCATE));
  for (int i = 0; i < 6; ++i) {
    int flag = kUntouched;
    ASSERT_TRUE(ok(MPIX_Is_matched(all[i], &flag)));
    EXPECT_EQ(flag, i / 2 != 1) << i;
  }
}

TEST_F(ErrorFields, OfWaitallTellWhichMatchRequestFailed) {
  std::array<MPI_Request, 3> matches;
  std::array<MPI_Status, 3> statuses;
  statuses.fill(unfilled());
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(ok(MPIX_Imatchall(2, all.at(2 * i), &matches[static_cast<size_t>(i)])));
  EXPECT_TRUE(fails(MPI_Waitall(3, matches.data(), statuses.data()), MPI_ERR_IN_STATUS));
  EXPECT_EQ(statuses[0].MPI_ERROR, MPI_SUCCESS);
  EXPECT_TRUE(fails(statuses[1].MPI_ERROR, MPI_ERR_TRUNCATE));
  EXPECT_EQ(statuses[2].MPI_ERROR, MPI_SUCCESS);
  for (const MPI_Request match : matches)
    EXPECT_EQ(match, MPI_REQUEST_NULL);
}

TEST_F(ErrorFields, AreNotNeededToKnowThatOneFailed) {
  EXPECT_TRUE(fails(MPIX_Matchall(6, all.data(), MPI_STATUSES_IGNORE), MPI_ERR_IN_STATUS, {"2 of", "8", "4"}));
}

// Where a call has one status its error is what the call returns.
TEST_F(ErrorFields, OfOneAreTheCallsResult) {
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(all.at(3), &match)));
  MPI_Status status = unfilled();
  EXPECT_TRUE(fails(MPIX_Match(all.at(2), &status), MPI_ERR_TRUNCATE, {"8", "4"}));
  EXPECT_TRUE(fails(MPI_Wait(&match, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, {"8", "4"}));
}

}  // namespace
}  // namespace lanyard::conformance
