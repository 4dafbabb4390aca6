// Every call that completes several requests, on an array of all kinds of them: of the MPI's and of Lanyard's, active
// and inactive, matched and unmatched, null, generalized, collective, and being matched.
// MPI 4.0, sections 3.2.6, 3.7.5, 13.2.
#include <set>
#include <vector>

#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

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
  // The persistent requests are there and inactive, the others have gone; all work.
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
      default: break;  // of sends and collectives MPI says little
    }
  }
  void expect_statuses() {
    for (int at = 0; at < kAll; ++at)
      expect_status(at, statuses[static_cast<size_t>(at)]);
  }
  static std::set<int> active() {
    return {kReceive, kSend, kBarrier, kGeneralized, kStarted, kStartedSend, kMatch, kMatchSend};
  }
};

TEST_F(MixedArray, Waitall) {
  ASSERT_TRUE(ok(MPI_Waitall(kAll, all.data(), statuses.data())));
  expect_statuses();
}

TEST_F(MixedArray, WaitallWithoutStatuses) { ASSERT_TRUE(ok(MPI_Waitall(kAll, all.data(), MPI_STATUSES_IGNORE))); }

TEST_F(MixedArray, Testall) {
  for (int flag = 0; !flag;)
    ASSERT_TRUE(ok(MPI_Testall(kAll, all.data(), &flag, statuses.data())));
  expect_statuses();
}

TEST_F(MixedArray, Waitany) {
  std::set<int> left = active();
  while (!left.empty()) {
    int index = -1;
    MPI_Status status = unfilled();
    ASSERT_TRUE(ok(MPI_Waitany(kAll, all.data(), &index, &status)));
    EXPECT_EQ(left.erase(index), 1u) << index;
    expect_status(index, status);
  }
  int index = 0;
  ASSERT_TRUE(ok(MPI_Waitany(kAll, all.data(), &index, MPI_STATUS_IGNORE)));
  EXPECT_EQ(index, MPI_UNDEFINED);
}

TEST_F(MixedArray, Testany) {
  std::set<int> left = active();
  while (!left.empty()) {
    int index = -1, flag = 0;
    MPI_Status status = unfilled();
    ASSERT_TRUE(ok(MPI_Testany(kAll, all.data(), &index, &flag, &status)));
    if (!flag)
      continue;
    EXPECT_EQ(left.erase(index), 1u) << index;
    expect_status(index, status);
  }
  int index = 0, flag = 0;
  ASSERT_TRUE(ok(MPI_Testany(kAll, all.data(), &index, &flag, MPI_STATUS_IGNORE)));
  EXPECT_TRUE(flag);
  EXPECT_EQ(index, MPI_UNDEFINED);
}

TEST_F(MixedArray, Waitsome) {
  std::set<int> left = active();
  std::array<int, kAll> indices{};
  int count = 0;
  while (!left.empty()) {
    ASSERT_TRUE(ok(MPI_Waitsome(kAll, all.data(), &count, indices.data(), statuses.data())));
    ASSERT_GT(count, 0);
    for (size_t k = 0; k < static_cast<size_t>(count); ++k) {
      EXPECT_EQ(left.erase(indices[k]), 1u) << indices[k];
      expect_status(indices[k], statuses[k]);
    }
  }
  ASSERT_TRUE(ok(MPI_Waitsome(kAll, all.data(), &count, indices.data(), statuses.data())));
  EXPECT_EQ(count, MPI_UNDEFINED);
}

TEST_F(MixedArray, Testsome) {
  std::set<int> left = active();
  std::array<int, kAll> indices{};
  int count = 0;
  while (!left.empty()) {
    ASSERT_TRUE(ok(MPI_Testsome(kAll, all.data(), &count, indices.data(), statuses.data())));
    ASSERT_NE(count, MPI_UNDEFINED);
    for (size_t k = 0; k < static_cast<size_t>(count); ++k) {
      EXPECT_EQ(left.erase(indices[k]), 1u) << indices[k];
      expect_status(indices[k], statuses[k]);
    }
  }
  ASSERT_TRUE(ok(MPI_Testsome(kAll, all.data(), &count, indices.data(), MPI_STATUSES_IGNORE)));
  EXPECT_EQ(count, MPI_UNDEFINED);
}

// A call on one that a queue runs is refused as a whole: none of the others is completed by it.
TEST_F(MixedArray, WithAnEnqueuedOneIsRefusedAsAWhole) {
  matched.start(queue);
  queue.wait();  // complete, and its wait not enqueued
  int flag = kUntouched, index = kUntouched, count = kUntouched;
  std::array<int, kAll> indices{};
  const std::array<MPI_Request, kAll> before = all;
  EXPECT_TRUE(fails(MPI_Waitall(kAll, all.data(), statuses.data()), MPI_ERR_REQUEST, {"enqueued"}));
  EXPECT_TRUE(fails(MPI_Testall(kAll, all.data(), &flag, statuses.data()), MPI_ERR_REQUEST));
  EXPECT_TRUE(fails(MPI_Waitany(kAll, all.data(), &index, &statuses[0]), MPI_ERR_REQUEST));
  EXPECT_TRUE(fails(MPI_Testany(kAll, all.data(), &index, &flag, &statuses[0]), MPI_ERR_REQUEST));
  EXPECT_TRUE(fails(MPI_Waitsome(kAll, all.data(), &count, indices.data(), statuses.data()), MPI_ERR_REQUEST));
  EXPECT_TRUE(fails(MPI_Testsome(kAll, all.data(), &count, indices.data(), statuses.data()), MPI_ERR_REQUEST));
  EXPECT_EQ(all, before);
  EXPECT_EQ(flag, kUntouched);
  EXPECT_EQ(index, kUntouched);
  EXPECT_EQ(count, kUntouched);
  EXPECT_EQ(statuses[0].MPI_TAG, kUntouched);
  matched.wait(queue);
  queue.wait();
  ASSERT_TRUE(ok(MPI_Waitall(kAll, all.data(), statuses.data())));
  expect_statuses();
}

}  // namespace
}  // namespace lanyard::conformance
