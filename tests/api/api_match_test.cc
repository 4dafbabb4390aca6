// Matching by the rules of MPI: source, tag, wildcards, and the order of the matching calls.
#include <array>
#include <set>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Matching : ::testing::Test {
  Stream stream;
  Queue queue{stream};

  // Starts and waits for all requests once.
  void exchange(Requests& requests) {
    requests.start(queue);
    requests.wait(queue);
    queue.wait();
  }
};

// ---- Wildcards

// From its match on the request belongs to one sender, whom the status names.
TEST_F(Matching, WildcardsAreBoundForGood) {
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
    exchange(requests);
    for (size_t s = 1; s < statuses.size(); ++s)
      EXPECT_EQ(in[s - 1], 1000 * i + statuses[s].MPI_SOURCE);
  }
}

TEST_F(Matching, AnySourceWithATagWaitsForThatTag) {
  int first = -1, second = -1, out_one = 1, out_two = 2;
  Requests requests;
  const int right = (rank() + 1) % ranks();
  requests.receive(&first, sizeof first, MPI_ANY_SOURCE, 2);
  requests.receive(&second, sizeof second, MPI_ANY_SOURCE, 1);
  requests.send(&out_one, sizeof out_one, right, 1);
  requests.send(&out_two, sizeof out_two, right, 2);
  std::array<MPI_Status, 4> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(4, requests.data(), statuses.data())));
  EXPECT_EQ(statuses[0].MPI_TAG, 2);
  EXPECT_EQ(statuses[1].MPI_TAG, 1);
  EXPECT_EQ(statuses[0].MPI_SOURCE, (rank() + ranks() - 1) % ranks());
  exchange(requests);
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 1);
}

// ---- Order

struct OrderCase {
  const char* name;
  std::vector<int> receive_tags;
  std::vector<int> send_tags;
  std::vector<int> expected;  // which send each receive gets
};

struct Order : Matching, ::testing::WithParamInterface<OrderCase> {};

// Whichever side comes first.
TEST_P(Order, Decides) {
  const auto& [name, receive_tags, send_tags, expected] = GetParam();
  for (const bool receiver_late : {false, true}) {
    std::vector<int> in(receive_tags.size(), -1), out(send_tags.size());
    Requests receives, sends;
    for (size_t i = 0; i < in.size(); ++i)
      receives.receive(&in[i], sizeof(int), partner(), receive_tags[i]);
    for (size_t i = 0; i < out.size(); ++i)
      sends.send(&out[i], sizeof(int), partner(), send_tags[i]);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<int>(i);
    MPI_Request matches[2];
    Requests& first = receiver_late ? sends : receives;
    Requests& later = receiver_late ? receives : sends;
    ASSERT_TRUE(ok(MPIX_Imatchall(first.count(), first.data(), &matches[0])));
    MPI_Barrier(MPI_COMM_WORLD);
    // Offers that have arrived wait until receives are posted.
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
                                           OrderCase{"AnyTag", {MPI_ANY_TAG, MPI_ANY_TAG}, {8, 3}, {0, 1}},
                                           OrderCase{"AnyTagAheadOfATag", {MPI_ANY_TAG, 5}, {5, 5}, {0, 1}},
                                           OrderCase{"ATagAheadOfAnyTag", {5, MPI_ANY_TAG}, {6, 5}, {1, 0}},
                                           OrderCase{
                                               "Mixed", {2, MPI_ANY_TAG, 1, MPI_ANY_TAG}, {1, 2, 1, 9}, {1, 0, 2, 3}}),
                         [](const auto& info) { return info.param.name; });

// ---- Beside the user's own messages

TEST_F(Matching, NoReceiveOfTheUsersTakesAMatchingMessage) {
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
  exchange(requests);
  EXPECT_EQ(in, partner());
  int done = 0, waiting = 0;
  MPI_Testall(2, receives, &done, MPI_STATUSES_IGNORE);
  EXPECT_FALSE(done);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE);
  EXPECT_FALSE(waiting);
  // They still receive what is theirs.
  MPI_Send(&out, 1, MPI_INT, partner(), 3, MPI_COMM_WORLD);
  MPI_Send(&out, 1, MPI_INT, partner(), 3, copy);
  MPI_Status statuses[2];
  ASSERT_TRUE(ok(MPI_Waitall(2, receives, statuses)));
  for (const MPI_Status& status : statuses)
    EXPECT_EQ(status.MPI_TAG, 3);
  MPI_Comm_free(&copy);
}

// Those that MPI starts and those that are matched may have the same envelope.
TEST_F(Matching, LeavesUnmatchedPersistentRequestsAlone) {
  int out = rank(), in = -1, plain_out = 100 + rank(), plain_in = -1;
  Requests matched, plain;
  plain.receive(&plain_in, sizeof plain_in, partner(), 1);
  plain.send(&plain_out, sizeof plain_out, partner(), 1);
  matched.receive(&in, sizeof in, partner(), 1);
  matched.send(&out, sizeof out, partner(), 1);
  ASSERT_TRUE(ok(MPI_Startall(2, plain.data())));
  matched.match();
  exchange(matched);
  ASSERT_TRUE(ok(MPI_Waitall(2, plain.data(), MPI_STATUSES_IGNORE)));
  EXPECT_EQ(in, partner());
  EXPECT_EQ(plain_in, 100 + partner());
}

}  // namespace
}  // namespace lanyard::api_test
