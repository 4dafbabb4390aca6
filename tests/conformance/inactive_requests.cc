// Inactive persistent requests and null requests in every call that completes requests, before and after the requests
// were matched. Among active ones: mixed_arrays.cc. MPI 4.0, sections 3.2.6, 3.7.3, 3.7.5, 3.7.6, 3.9.
#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

// MPICH 4.0's own leaves the status as it was where no request is active.
#ifdef MPICH_VERSION
constexpr bool kTestanyFillsStatuses = false;
#else
constexpr bool kTestanyFillsStatuses = true;
#endif

// An inactive receive, no request and an inactive send; matched where the parameter says so, and then used once.
struct Inactive : Exchange, ::testing::WithParamInterface<bool> {
  Requests pair;
  std::array<MPI_Request, 3> all{};
  std::array<MPI_Status, 3> statuses{unfilled(), unfilled(), unfilled()};

  void SetUp() override {
    add_pair(pair);
    if (GetParam())
      pair.match();
    verify();
    all = {pair[0], MPI_REQUEST_NULL, pair[1]};
  }
  // They are what they were, and work.
  void TearDown() override {
    EXPECT_EQ(all, (std::array<MPI_Request, 3>{pair[0], MPI_REQUEST_NULL, pair[1]}));
    verify();
  }
  void verify() { GetParam() ? verify_matched(pair) : verify_plain(pair); }
  void expect_empty() {
    for (MPI_Status& status : statuses) {
      EXPECT_TRUE(is_empty(status));
      status = unfilled();
    }
  }
};

TEST_P(Inactive, OnesAreCompleteAndEmptyEach) {
  for (size_t i = 0; i < 3; ++i)
    ASSERT_TRUE(ok(MPI_Wait(&all[i], &statuses[i])));
  expect_empty();
  for (size_t i = 0; i < 3; ++i) {
    int flag = 0;
    ASSERT_TRUE(ok(MPI_Test(&all[i], &flag, &statuses[i])));
    EXPECT_TRUE(flag);
  }
  expect_empty();
  for (size_t i = 0; i < 3; ++i) {
    int flag = 0;
    ASSERT_TRUE(ok(MPI_Request_get_status(all[i], &flag, &statuses[i])));
    EXPECT_TRUE(flag);
  }
  expect_empty();
}

TEST_P(Inactive, OnesAreCompleteAndEmptyTogether) {
  ASSERT_TRUE(ok(MPI_Waitall(3, all.data(), statuses.data())));
  expect_empty();
  int flag = 0;
  ASSERT_TRUE(ok(MPI_Testall(3, all.data(), &flag, statuses.data())));
  EXPECT_TRUE(flag);
  expect_empty();
  ASSERT_TRUE(ok(MPI_Waitall(3, all.data(), MPI_STATUSES_IGNORE)));
}

TEST_P(Inactive, OnesHaveNoIndexAndNoCount) {
  int index = 0, flag = 0, count = 0;
  std::array<int, 3> indices{};
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
  ASSERT_TRUE(ok(MPI_Waitsome(3, all.data(), &count, indices.data(), statuses.data())));
  EXPECT_EQ(count, MPI_UNDEFINED);
  count = 0;
  ASSERT_TRUE(ok(MPI_Testsome(3, all.data(), &count, indices.data(), statuses.data())));
  EXPECT_EQ(count, MPI_UNDEFINED);
}

TEST_P(Inactive, OnesDoNotHideThatAnActiveOneIsNotComplete) {
  int message_out = 2000 + rank(), message_in = -1, flag = 1, index = -1, count = -1;
  std::array<int, 3> indices{};
  ASSERT_TRUE(ok(MPI_Irecv(&message_in, 1, MPI_INT, partner(), 8, MPI_COMM_WORLD, &all[1])));
  ASSERT_TRUE(ok(MPI_Testall(3, all.data(), &flag, MPI_STATUSES_IGNORE)));
  EXPECT_FALSE(flag);
  flag = 1;
  ASSERT_TRUE(ok(MPI_Testany(3, all.data(), &index, &flag, MPI_STATUS_IGNORE)));
  EXPECT_FALSE(flag);
  EXPECT_EQ(index, MPI_UNDEFINED);
  ASSERT_TRUE(ok(MPI_Testsome(3, all.data(), &count, indices.data(), MPI_STATUSES_IGNORE)));
  EXPECT_EQ(count, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_TRUE(ok(MPI_Send(&message_out, 1, MPI_INT, partner(), 8, MPI_COMM_WORLD)));
  ASSERT_TRUE(ok(MPI_Waitsome(3, all.data(), &count, indices.data(), statuses.data())));
  EXPECT_EQ(count, 1);
  EXPECT_EQ(indices[0], 1);
  EXPECT_EQ(statuses[0].MPI_TAG, 8);
  EXPECT_EQ(message_in, 2000 + partner());
}

INSTANTIATE_TEST_SUITE_P(Requests, Inactive, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Matched" : "Unmatched"; });

// ---- Null requests, beside a matched request, so that the calls go through Lanyard

struct Null : Exchange {
  Requests pair;
  std::array<MPI_Request, 3> all{};
  std::array<MPI_Status, 3> statuses{};

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
