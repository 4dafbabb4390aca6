// Matching by MPI's rules: source, tag, wildcards, and the order of the matching calls. Also match
// requests, which are ordinary MPI requests (mixed with others: tests/conformance/requests.cc).
#include <array>
#include <set>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Matching : OnAQueue {};

// ---- Wildcards

// After its match the request belongs to one sender, which the status names.
TEST_F(Matching, WildcardsAreBoundPermanently) {
  std::vector<int> in(static_cast<size_t>(ranks()), -1);
  int out = rank();
  Requests requests;
  requests.send(&out, sizeof out, 0, 10 + rank());
  if (rank() == 0)
    for (int& value : in)
      requests.receive(&value, sizeof value, MPI_ANY_SOURCE, MPI_ANY_TAG);
  std::vector<MPI_Status> statuses(static_cast<size_t>(requests.count()));
  ASSERT_TRUE(ok(MPIX_Matchall(requests.count(), requests.data(), statuses.data())));
  std::set<int> sources;
  for (size_t i = 1; i < statuses.size(); ++i) {
    sources.insert(statuses[i].MPI_SOURCE);
    EXPECT_EQ(statuses[i].MPI_TAG, 10 + statuses[i].MPI_SOURCE);
  }
  if (rank() == 0) {
    EXPECT_EQ(sources.size(), in.size());
  }
  for (int i = 0; i < 10; ++i) {
    out = 1000 * i + rank();
    requests.run(queue);
    for (size_t s = 1; s < statuses.size(); ++s)
      EXPECT_EQ(in[s - 1], 1000 * i + statuses[s].MPI_SOURCE);
  }
}

// ---- Order

struct OrderCase {
  const char* name;
  std::vector<int> receive_tags;
  std::vector<int> send_tags;
  std::vector<int> expected;  // index of the send that each receive gets
  bool any_source = false;
};

struct Order : Matching, ::testing::WithParamInterface<OrderCase> {};

// Either side may match first.
TEST_P(Order, Decides) {
  const auto& [name, receive_tags, send_tags, expected, any_source] = GetParam();
  for (const bool receiver_late : {false, true}) {
    std::vector<int> in(receive_tags.size(), -1), out(send_tags.size());
    Requests receives, sends;
    for (size_t i = 0; i < in.size(); ++i)
      receives.receive(&in[i], sizeof(int), any_source ? MPI_ANY_SOURCE : partner(), receive_tags[i]);
    for (size_t i = 0; i < out.size(); ++i)
      sends.send(&out[i], sizeof(int), partner(), send_tags[i]);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<int>(i);
    MPI_Request matches[2];
    Requests& first = receiver_late ? sends : receives;
    Requests& later = receiver_late ? receives : sends;
    ASSERT_TRUE(ok(MPIX_Imatchall(first.count(), first.data(), &matches[0])));
    MPI_Barrier(MPI_COMM_WORLD);
    // Offers that have arrived wait for receives.
    int flag = 0;
    for (int i = 0; i < 50; ++i)
      MPI_Test(&matches[0], &flag, MPI_STATUS_IGNORE);
    ASSERT_TRUE(ok(MPIX_Imatchall(later.count(), later.data(), &matches[1])));
    ASSERT_TRUE(ok(MPI_Waitall(2, matches, MPI_STATUSES_IGNORE)));
    receives.start(queue);
    sends.start(queue);
    receives.wait(queue);
    sends.wait(queue);
    queue.wait();
    EXPECT_EQ(in, expected) << "receiver " << (receiver_late ? "late" : "first");
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Order,
                         ::testing::Values(OrderCase{"EqualTags", {4, 4, 4}, {4, 4, 4}, {0, 1, 2}},
                                           OrderCase{"DifferentTags", {1, 2, 3}, {3, 1, 2}, {1, 2, 0}},
                                           OrderCase{"TagsOfAnySource", {2, 1}, {1, 2}, {1, 0}, true},
                                           OrderCase{"AnyTag", {MPI_ANY_TAG, MPI_ANY_TAG}, {8, 3}, {0, 1}},
                                           OrderCase{"AnyTagAheadOfATag", {MPI_ANY_TAG, 5}, {5, 5}, {0, 1}},
                                           OrderCase{"ATagAheadOfAnyTag", {5, MPI_ANY_TAG}, {6, 5}, {1, 0}},
                                           OrderCase{
                                               "Mixed", {2, MPI_ANY_TAG, 1, MPI_ANY_TAG}, {1, 2, 1, 9}, {1, 0, 2, 3}}),
                         [](const auto& info) { return info.param.name; });

// ---- Beside the program's own messages

TEST_F(Matching, NoReceiveOfTheProgramTakesAMatchingMessage) {
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  char swallowed[2][4096];
  MPI_Request receives[2];
  MPI_Irecv(swallowed[0], sizeof swallowed[0], MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receives[0]);
  MPI_Irecv(swallowed[1], sizeof swallowed[1], MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, &receives[1]);
  MPI_Barrier(MPI_COMM_WORLD);
  int out = rank(), in = -1;
  Requests requests;
  requests.receive(&in, sizeof in, partner(), 1, copy);
  requests.send(&out, sizeof out, partner(), 1, copy);
  requests.match();
  requests.run(queue);
  EXPECT_EQ(in, partner());
  int done = 0, waiting = 0;
  MPI_Testall(2, receives, &done, MPI_STATUSES_IGNORE);
  EXPECT_FALSE(done);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE);
  EXPECT_FALSE(waiting);
  // The program's receives still get their own messages.
  MPI_Send(&out, 1, MPI_INT, partner(), 3, MPI_COMM_WORLD);
  MPI_Send(&out, 1, MPI_INT, partner(), 3, copy);
  MPI_Status statuses[2];
  ASSERT_TRUE(ok(MPI_Waitall(2, receives, statuses)));
  for (const MPI_Status& status : statuses)
    EXPECT_EQ(status.MPI_TAG, 3);
  MPI_Comm_free(&copy);
}

// ---- Match requests

struct MatchRequests : OnAQueue {
  int out = rank(), in = -1;
  Requests requests;  // a receive and a send

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
    requests.run(queue);
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

TEST_F(MatchRequests, OneForNone) {
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(0, nullptr, &match)));
  ASSERT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  ASSERT_TRUE(ok(MPIX_Matchall(0, nullptr, MPI_STATUSES_IGNORE)));
  requests.match();
  verify();
}

// The order of the matching calls counts, not the order of completion. Many match requests
// may be active.
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
  many.run(queue);
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
  // The requests are usable at once; the match requests may complete later.
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

TEST_F(MatchRequests, GetStatusDoesNotCompleteIt) {
  auto matches = begin();
  MPI_Status status;
  for (int flag = 0; !flag;)
    ASSERT_TRUE(ok(MPI_Request_get_status(matches[0], &flag, &status)));
  expect_receive_status(status);
  ASSERT_NE(matches[0], MPI_REQUEST_NULL);
  ASSERT_TRUE(ok(MPI_Waitall(2, matches.data(), MPI_STATUSES_IGNORE)));
  verify();
}

// MPI allows freeing an active request. The match still completes.
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

// The match is complete but not tested: the match request may be freed like any other.
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
    pair.run(queue);
    EXPECT_EQ(in, rank());
  }
  requests.match();
  verify();
}

// No request of the match may be freed before all are matched, not even a matched one.
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
  all.run(queue);
  EXPECT_EQ(in, rank());
  EXPECT_EQ(late, 700 + partner());
  requests.match();
  verify();
}

}  // namespace
}  // namespace lanyard::api_test
