// Inactive persistent requests and null requests in every call that completes requests, alone and among active ones;
// before and after the requests were matched.
// MPI 4.0, sections 3.2.6, 3.7.3, 3.7.5, 3.7.6, 3.9.
#include <vector>

#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

// MPICH 4.0's own leaves the status as it was where no request is active.
#ifdef MPICH_VERSION
constexpr bool kTestanyFillsStatuses = false;
#else
constexpr bool kTestanyFillsStatuses = true;
#endif

// A receive and a send that are inactive; matched where the parameter says so, and then used once.
struct Inactive : Exchange, ::testing::WithParamInterface<bool> {
  Requests pair;
  std::array<MPI_Status, 2> statuses{unfilled(), unfilled()};
  std::array<MPI_Request, 2> before{};

  bool matched() const { return GetParam(); }
  void SetUp() override {
    add_pair(pair);
    if (matched()) {
      pair.match();
      verify_matched(pair);
    } else {
      verify_plain(pair);
    }
    before = {pair[0], pair[1]};
  }
  // They are what they were, and work.
  void TearDown() override {
    ASSERT_EQ(pair[0], before[0]);
    ASSERT_EQ(pair[1], before[1]);
    matched() ? verify_matched(pair) : verify_plain(pair);
  }
};

TEST_P(Inactive, WaitReturnsAnEmptyStatus) {
  for (int i = 0; i < 2; ++i) {
    MPI_Status status = unfilled();
    ASSERT_TRUE(ok(MPI_Wait(pair.at(i), &status)));
    EXPECT_TRUE(is_empty(status));
  }
}

TEST_P(Inactive, WaitTakesNoStatus) {
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(ok(MPI_Wait(pair.at(i), MPI_STATUS_IGNORE)));
  ASSERT_TRUE(ok(MPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE)));
}

TEST_P(Inactive, TestIsTrueWithAnEmptyStatus) {
  for (int i = 0; i < 2; ++i) {
    int flag = 0;
    MPI_Status status = unfilled();
    ASSERT_TRUE(ok(MPI_Test(pair.at(i), &flag, &status)));
    EXPECT_TRUE(flag);
    EXPECT_TRUE(is_empty(status));
  }
}

TEST_P(Inactive, WaitallReturnsEmptyStatuses) {
  ASSERT_TRUE(ok(MPI_Waitall(2, pair.data(), statuses.data())));
  for (const MPI_Status& status : statuses)
    EXPECT_TRUE(is_empty(status));
}

TEST_P(Inactive, TestallIsTrueWithEmptyStatuses) {
  int flag = 0;
  ASSERT_TRUE(ok(MPI_Testall(2, pair.data(), &flag, statuses.data())));
  EXPECT_TRUE(flag);
  for (const MPI_Status& status : statuses)
    EXPECT_TRUE(is_empty(status));
}

TEST_P(Inactive, WaitanyHasNoIndex) {
  int index = 0;
  ASSERT_TRUE(ok(MPI_Waitany(2, pair.data(), &index, &statuses[0])));
  EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_TRUE(is_empty(statuses[0]));
}

TEST_P(Inactive, TestanyIsTrueWithoutAnIndex) {
  int index = 0, flag = 0;
  ASSERT_TRUE(ok(MPI_Testany(2, pair.data(), &index, &flag, &statuses[0])));
  EXPECT_TRUE(flag);
  EXPECT_EQ(index, MPI_UNDEFINED);
  if (kTestanyFillsStatuses) {
    EXPECT_TRUE(is_empty(statuses[0]));
  }
}

TEST_P(Inactive, WaitsomeHasNoCount) {
  int count = 0;
  std::array<int, 2> indices{};
  ASSERT_TRUE(ok(MPI_Waitsome(2, pair.data(), &count, indices.data(), statuses.data())));
  EXPECT_EQ(count, MPI_UNDEFINED);
}

TEST_P(Inactive, TestsomeHasNoCount) {
  int count = 0;
  std::array<int, 2> indices{};
  ASSERT_TRUE(ok(MPI_Testsome(2, pair.data(), &count, indices.data(), statuses.data())));
  EXPECT_EQ(count, MPI_UNDEFINED);
}

TEST_P(Inactive, GetStatusIsTrueAndEmpty) {
  for (int i = 0; i < 2; ++i) {
    int flag = 0;
    MPI_Status status = unfilled();
    ASSERT_TRUE(ok(MPI_Request_get_status(pair[i], &flag, &status)));
    EXPECT_TRUE(flag);
    EXPECT_TRUE(is_empty(status));
  }
}

// ---- Among active ones

struct InactiveAmong : Inactive {
  int message_out = 2000 + rank(), message_in = -1;
  std::array<MPI_Request, 4> all{};  // inactive, a receive, inactive, null

  void SetUp() override {
    Inactive::SetUp();
    all = {pair[0], MPI_REQUEST_NULL, pair[1], MPI_REQUEST_NULL};
    ASSERT_TRUE(ok(MPI_Irecv(&message_in, 1, MPI_INT, partner(), 8, MPI_COMM_WORLD, &all[1])));
  }
  void TearDown() override {
    EXPECT_EQ(message_in, 2000 + partner());
    EXPECT_EQ(all[0], pair[0]);
    EXPECT_EQ(all[1], MPI_REQUEST_NULL);
    EXPECT_EQ(all[2], pair[1]);
    Inactive::TearDown();
  }
  void send() { ASSERT_TRUE(ok(MPI_Send(&message_out, 1, MPI_INT, partner(), 8, MPI_COMM_WORLD))); }
};

TEST_P(InactiveAmong, ActiveOnesWaitanyPicksTheActive) {
  send();
  int index = -1;
  MPI_Status status = unfilled();
  ASSERT_TRUE(ok(MPI_Waitany(4, all.data(), &index, &status)));
  EXPECT_EQ(index, 1);
  EXPECT_EQ(status.MPI_TAG, 8);
}

TEST_P(InactiveAmong, ActiveOnesTestanyIsFalseUntilTheActiveCompletes) {
  int index = -1, flag = 1;
  ASSERT_TRUE(ok(MPI_Testany(4, all.data(), &index, &flag, MPI_STATUS_IGNORE)));
  EXPECT_FALSE(flag);
  EXPECT_EQ(index, MPI_UNDEFINED);
  MPI_Barrier(MPI_COMM_WORLD);
  send();
  for (flag = 0; !flag;)
    ASSERT_TRUE(ok(MPI_Testany(4, all.data(), &index, &flag, MPI_STATUS_IGNORE)));
  EXPECT_EQ(index, 1);
}

TEST_P(InactiveAmong, ActiveOnesWaitsomeTellsTheActiveAlone) {
  send();
  int count = 0;
  std::array<int, 4> indices{};
  std::array<MPI_Status, 4> some;
  ASSERT_TRUE(ok(MPI_Waitsome(4, all.data(), &count, indices.data(), some.data())));
  ASSERT_EQ(count, 1);
  EXPECT_EQ(indices[0], 1);
  EXPECT_EQ(some[0].MPI_SOURCE, partner());
}

TEST_P(InactiveAmong, ActiveOnesTestsomeIsZeroUntilTheActiveCompletes) {
  int count = -1;
  std::array<int, 4> indices{};
  ASSERT_TRUE(ok(MPI_Testsome(4, all.data(), &count, indices.data(), MPI_STATUSES_IGNORE)));
  EXPECT_EQ(count, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  send();
  for (count = 0; count == 0;)
    ASSERT_TRUE(ok(MPI_Testsome(4, all.data(), &count, indices.data(), MPI_STATUSES_IGNORE)));
  ASSERT_EQ(count, 1);
  EXPECT_EQ(indices[0], 1);
}

TEST_P(InactiveAmong, ActiveOnesWaitallWaitsForTheActive) {
  send();
  std::array<MPI_Status, 4> each{unfilled(), unfilled(), unfilled(), unfilled()};
  ASSERT_TRUE(ok(MPI_Waitall(4, all.data(), each.data())));
  EXPECT_EQ(each[1].MPI_TAG, 8);
  EXPECT_EQ(count_of(each[1], MPI_INT), 1);
  for (const size_t i : {0u, 2u, 3u})
    EXPECT_TRUE(is_empty(each[i]));
}

TEST_P(InactiveAmong, ActiveOnesTestallIsFalseUntilTheActiveCompletes) {
  int flag = 1;
  ASSERT_TRUE(ok(MPI_Testall(4, all.data(), &flag, MPI_STATUSES_IGNORE)));
  EXPECT_FALSE(flag);
  MPI_Barrier(MPI_COMM_WORLD);
  send();
  while (!flag)
    ASSERT_TRUE(ok(MPI_Testall(4, all.data(), &flag, MPI_STATUSES_IGNORE)));
}

const auto matched_or_not = [](const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "Matched" : "Unmatched";
};
INSTANTIATE_TEST_SUITE_P(Requests, Inactive, ::testing::Bool(), matched_or_not);
INSTANTIATE_TEST_SUITE_P(Requests, InactiveAmong, ::testing::Bool(), matched_or_not);

// ---- Null requests, beside a matched request, so that the calls go through Lanyard

struct Null : Exchange {
  Requests pair;
  std::array<MPI_Request, 3> all{};
  std::array<MPI_Status, 3> statuses{unfilled(), unfilled(), unfilled()};

  void SetUp() override {
    add_pair(pair);
    pair.match();
    all = {MPI_REQUEST_NULL, pair[0], MPI_REQUEST_NULL};
  }
  void TearDown() override {
    EXPECT_EQ(all[1], pair[0]);
    verify_matched(pair);
  }
};

TEST_F(Null, WaitAndTestReturnAnEmptyStatus) {
  int flag = 0;
  ASSERT_TRUE(ok(MPI_Wait(&all[0], &statuses[0])));
  ASSERT_TRUE(ok(MPI_Test(&all[2], &flag, &statuses[2])));
  EXPECT_TRUE(flag);
  EXPECT_TRUE(is_empty(statuses[0]));
  EXPECT_TRUE(is_empty(statuses[2]));
}

TEST_F(Null, WaitallAndTestallReturnEmptyStatuses) {
  ASSERT_TRUE(ok(MPI_Waitall(3, all.data(), statuses.data())));
  for (MPI_Status& status : statuses) {
    EXPECT_TRUE(is_empty(status));
    status = unfilled();
  }
  int flag = 0;
  ASSERT_TRUE(ok(MPI_Testall(3, all.data(), &flag, statuses.data())));
  EXPECT_TRUE(flag);
  for (const MPI_Status& status : statuses)
    EXPECT_TRUE(is_empty(status));
}

TEST_F(Null, WaitanyAndTestanyHaveNoIndex) {
  int index = 0, flag = 0;
  ASSERT_TRUE(ok(MPI_Waitany(3, all.data(), &index, &statuses[0])));
  EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_TRUE(is_empty(statuses[0]));
  index = 0;
  ASSERT_TRUE(ok(MPI_Testany(3, all.data(), &index, &flag, &statuses[1])));
  EXPECT_TRUE(flag);
  EXPECT_EQ(index, MPI_UNDEFINED);
  if (kTestanyFillsStatuses) {
    EXPECT_TRUE(is_empty(statuses[1]));
  }
}

TEST_F(Null, WaitsomeAndTestsomeHaveNoCount) {
  int count = 0;
  std::array<int, 3> indices{};
  ASSERT_TRUE(ok(MPI_Waitsome(3, all.data(), &count, indices.data(), statuses.data())));
  EXPECT_EQ(count, MPI_UNDEFINED);
  count = 0;
  ASSERT_TRUE(ok(MPI_Testsome(3, all.data(), &count, indices.data(), statuses.data())));
  EXPECT_EQ(count, MPI_UNDEFINED);
}

TEST_F(Null, GetStatusIsTrueAndEmpty) {
  int flag = 0;
  ASSERT_TRUE(ok(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &statuses[0])));
  EXPECT_TRUE(flag);
  EXPECT_TRUE(is_empty(statuses[0]));
}

// Erroneous in MPI: the error is the MPI's, and nothing has changed.
TEST_F(Null, CannotBeStartedFreedOrCancelled) {
  EXPECT_TRUE(fails(MPI_Start(&all[0]), MPI_ERR_REQUEST));
  EXPECT_TRUE(fails(MPI_Request_free(&all[0]), MPI_ERR_REQUEST));
  EXPECT_TRUE(fails(MPI_Cancel(&all[0]), MPI_ERR_REQUEST));
}

TEST_F(Null, CannotBeMatched) {
  MPI_Request match = MPI_REQUEST_NULL;
  int flag = kUntouched;
  EXPECT_TRUE(fails(MPIX_Match(&all[0], &statuses[0]), MPI_ERR_REQUEST, {"MPI_REQUEST_NULL"}));
  EXPECT_TRUE(fails(MPIX_Matchall(3, all.data(), statuses.data()), MPI_ERR_REQUEST, {"request 0"}));
  EXPECT_TRUE(fails(MPIX_Imatch(&all[0], &match), MPI_ERR_REQUEST, {"MPI_REQUEST_NULL"}));
  EXPECT_TRUE(fails(MPIX_Is_matched(all[0], &flag), MPI_ERR_REQUEST));
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  EXPECT_EQ(flag, kUntouched);
}

TEST_F(Null, ArraysOfNoRequests) {
  int index = 0, flag = 0, count = 0;
  ASSERT_TRUE(ok(MPI_Waitall(0, nullptr, MPI_STATUSES_IGNORE)));
  ASSERT_TRUE(ok(MPI_Testall(0, nullptr, &flag, MPI_STATUSES_IGNORE)));
  EXPECT_TRUE(flag);
  ASSERT_TRUE(ok(MPI_Waitany(0, nullptr, &index, MPI_STATUS_IGNORE)));
  EXPECT_EQ(index, MPI_UNDEFINED);
  ASSERT_TRUE(ok(MPI_Waitsome(0, nullptr, &count, &index, MPI_STATUSES_IGNORE)));
  EXPECT_EQ(count, MPI_UNDEFINED);
  ASSERT_TRUE(ok(MPI_Startall(0, all.data())));
}

}  // namespace
}  // namespace lanyard::conformance
