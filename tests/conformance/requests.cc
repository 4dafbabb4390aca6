// Persistent requests in completion calls: active and inactive, matched or not, null
// requests, and all kinds in one array. MPI 4.0, sections 3.2.4, 3.2.6, 3.5, 3.7.3, 3.7.5,
// 3.7.6, 3.8.4, 3.9, 13.2.
#include <set>

#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

// ---- Active requests: Lanyard must keep MPI's rules

struct Active : Exchange {};

TEST_F(Active, ACancelledReceiveCanBeMatchedAfterwards) {
  Requests pair;
  add_pair(pair);
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

// No request of the call is started, not even those before the matched one.
TEST_F(Active, StartallOfAMatchedOneIsRefusedAsAWhole) {
  int value = 5, got = -1;
  Requests pair, plain;
  add_pair(pair);
  pair.match();
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
  verify_matched(pair);
}

// ---- Inactive

// MPICH 4.0's own MPI_Testany leaves the status unchanged if no request is active.
#ifdef MPICH_VERSION
constexpr bool kTestanyFillsStatuses = false;
#else
constexpr bool kTestanyFillsStatuses = true;
#endif

// An inactive receive, a null request and an inactive send. With the parameter true, both are
// matched and have run once.
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
  // The handles are unchanged and the requests work.
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
  using Call = int (*)(MPI_Request*, int*, MPI_Status*);
  const Call wait = [](MPI_Request* request, int*, MPI_Status* status) { return MPI_Wait(request, status); };
  const Call get = [](MPI_Request* request, int* flag, MPI_Status* status) {
    return MPI_Request_get_status(*request, flag, status);
  };
  for (const Call call : {wait, Call(MPI_Test), get}) {
    for (size_t i = 0; i < 3; ++i) {
      int flag = call == wait;
      ASSERT_TRUE(ok(call(&all[i], &flag, &statuses[i])));
      EXPECT_TRUE(flag);
    }
    expect_empty();
  }
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

TEST_P(Inactive, OnesDoNotHideAnIncompleteActiveOne) {
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

// ---- Null requests, beside a matched request, so that Lanyard handles the calls

struct Null : Exchange {
  Requests pair;
  std::array<MPI_Request, 3> all{};

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

// Erroneous in MPI: the MPI's error is returned, and nothing changes.
TEST_F(Null, CannotBeStartedFreedOrCancelled) {
  EXPECT_TRUE(fails(MPI_Start(&all[0]), MPI_ERR_REQUEST));
  EXPECT_TRUE(fails(MPI_Request_free(&all[0]), MPI_ERR_REQUEST));
  EXPECT_TRUE(fails(MPI_Cancel(&all[0]), MPI_ERR_REQUEST));
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

// ---- Arrays with every kind of request, of MPI and of Lanyard

struct MixedArray : Exchange {
  enum At {
    kNull,
    kReceive,
    kSend,
    kBarrier,
    kGeneralized,
    kStarted,
    kStartedSend,
    kUnmatched,
    kMatched,
    kMatch,
    kMatchSend,
    kAll
  };

  int ordinary_out = 2000 + rank(), ordinary_in = -1, started_out = 3000 + rank(), started_in = -1;
  Requests matched, matching, unmatched, started;
  std::array<MPI_Request, kAll> all{};
  std::array<MPI_Status, kAll> statuses{};

  void SetUp() override {
    add_pair(matched, 1);
    matched.match();
    add_pair(matching, 2);
    add_pair(unmatched, 3);
    started.receive(&started_in, 1, partner(), 4, MPI_COMM_WORLD, MPI_INT);
    started.send(&started_out, 1, partner(), 4, MPI_COMM_WORLD, Mode::kSsend, MPI_INT);
    all[kNull] = MPI_REQUEST_NULL;
    MPI_Irecv(&ordinary_in, 1, MPI_INT, partner(), 5, MPI_COMM_WORLD, &all[kReceive]);
    MPI_Isend(&ordinary_out, 1, MPI_INT, partner(), 5, MPI_COMM_WORLD, &all[kSend]);
    MPI_Ibarrier(MPI_COMM_WORLD, &all[kBarrier]);
    all[kGeneralized] = generalized();
    EXPECT_TRUE(ok(MPI_Startall(2, started.data())));
    all[kStarted] = started[0];
    all[kStartedSend] = started[1];
    all[kUnmatched] = unmatched[0];
    all[kMatched] = matched[0];
    EXPECT_TRUE(ok(MPIX_Imatch(matching.at(0), &all[kMatch])));
    EXPECT_TRUE(ok(MPIX_Imatch(matching.at(1), &all[kMatchSend])));
    for (MPI_Status& status : statuses)
      status = unfilled();
    MPI_Grequest_complete(all[kGeneralized]);
  }
  // Persistent requests are inactive, all others null. All persistent ones still work.
  void TearDown() override {
    EXPECT_EQ(all[kStarted], started[0]);
    EXPECT_EQ(all[kStartedSend], started[1]);
    EXPECT_EQ(all[kUnmatched], unmatched[0]);
    EXPECT_EQ(all[kMatched], matched[0]);
    for (const At at : {kNull, kReceive, kSend, kBarrier, kGeneralized, kMatch, kMatchSend})
      EXPECT_EQ(all[at], MPI_REQUEST_NULL) << at;
    EXPECT_EQ(ordinary_in, 2000 + partner());
    EXPECT_EQ(started_in, 3000 + partner());
    verify_matched(matched);
    verify_matched(matching);
    verify_plain(unmatched);
  }
  void expect_status(int at, const MPI_Status& status) {
    switch (at) {
      case kReceive:
      case kStarted:
      case kMatch:
        EXPECT_EQ(status.MPI_SOURCE, partner());
        EXPECT_EQ(status.MPI_TAG, at == kReceive ? 5 : at == kStarted ? 4 : 2);
        EXPECT_EQ(count_of(status, MPI_INT), 1);
        break;
      case kGeneralized:
        EXPECT_EQ(status.MPI_SOURCE, 3);
        EXPECT_EQ(status.MPI_TAG, 4);
        EXPECT_EQ(count_of(status), 17);
        break;
      case kNull:
      case kUnmatched:
      case kMatched:
      case kMatchSend: EXPECT_TRUE(is_empty(status)) << at; break;
      default: break;  // MPI defines little of a send's or a collective's status
    }
  }
  void expect_statuses() {
    for (int at = 0; at < kAll; ++at)
      expect_status(at, statuses[static_cast<size_t>(at)]);
  }
};

TEST_F(MixedArray, WaitallWithoutStatuses) { ASSERT_TRUE(ok(MPI_Waitall(kAll, all.data(), MPI_STATUSES_IGNORE))); }

// Completes them by MPI_Wait*, or by repeated MPI_Test*.
struct MixedArrays : MixedArray, ::testing::WithParamInterface<bool> {
  const bool tests = GetParam();
  std::set<int> left{kReceive, kSend, kBarrier, kGeneralized, kStarted, kStartedSend, kMatch, kMatchSend};
};

TEST_P(MixedArrays, All) {
  int flag = 0;
  while (tests && !flag)
    ASSERT_TRUE(ok(MPI_Testall(kAll, all.data(), &flag, statuses.data())));
  if (!tests) {
    ASSERT_TRUE(ok(MPI_Waitall(kAll, all.data(), statuses.data())));
  }
  expect_statuses();
}

TEST_P(MixedArrays, Any) {
  const auto any = [this](int* index, int* flag, MPI_Status* status) {
    return tests ? MPI_Testany(kAll, all.data(), index, flag, status) : MPI_Waitany(kAll, all.data(), index, status);
  };
  int index = -1, flag = 1;
  while (!left.empty()) {
    MPI_Status status = unfilled();
    ASSERT_TRUE(ok(any(&index, &flag, &status)));
    if (!flag)
      continue;
    EXPECT_EQ(left.erase(index), 1u) << index;
    expect_status(index, status);
  }
  ASSERT_TRUE(ok(any(&index, &flag, MPI_STATUS_IGNORE)));
  EXPECT_TRUE(flag);
  EXPECT_EQ(index, MPI_UNDEFINED);
}

TEST_P(MixedArrays, Some) {
  const auto some = tests ? MPI_Testsome : MPI_Waitsome;
  std::array<int, kAll> indices{};
  int count = 0;
  while (!left.empty()) {
    ASSERT_TRUE(ok(some(kAll, all.data(), &count, indices.data(), statuses.data())));
    ASSERT_NE(count, MPI_UNDEFINED);
    ASSERT_GE(count, tests ? 0 : 1);
    for (size_t k = 0; k < static_cast<size_t>(count); ++k) {
      EXPECT_EQ(left.erase(indices[k]), 1u) << indices[k];
      expect_status(indices[k], statuses[k]);
    }
  }
  ASSERT_TRUE(ok(some(kAll, all.data(), &count, indices.data(), statuses.data())));
  EXPECT_EQ(count, MPI_UNDEFINED);
}

INSTANTIATE_TEST_SUITE_P(By, MixedArrays, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Testing" : "Waiting"; });

}  // namespace
}  // namespace lanyard::conformance
