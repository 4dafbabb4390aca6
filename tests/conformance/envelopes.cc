// Which receive a send meets: tags, sources, lengths, order, and nobody.
// MPI 4.0, sections 3.2.2, 3.2.3, 3.2.4, 3.3.1, 3.5, 3.7.2, 3.11, 9.1.2.
#include <numeric>
#include <set>
#include <vector>

#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

int tag_ub() {
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found);
  return found ? *static_cast<int*>(value) : -1;
}

struct Envelope : Exchange {
  void exchange(Requests& requests) {
    requests.start(queue);
    requests.wait(queue);
    queue.wait();
  }
};

TEST_F(Envelope, TagsGoUpToTheMpisLimit) {
  ASSERT_GE(tag_ub(), 32767);
  const std::array<int, 4> tags{0, 32767, tag_ub() - 1, tag_ub()};
  std::array<int, 4> outs, ins{};
  Requests sends, receives;
  for (size_t i = 0; i < tags.size(); ++i) {
    outs[i] = static_cast<int>(i) + 10 * rank();
    sends.send(&outs[i], 1, partner(), tags[i], MPI_COMM_WORLD, Mode::kSend, MPI_INT);
    // From the last to the first, so that tags decide.
    receives.receive(&ins[3 - i], 1, partner(), tags[3 - i], MPI_COMM_WORLD, MPI_INT);
  }
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(4, sends.data(), &match)));
  std::array<MPI_Status, 4> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(4, receives.data(), statuses.data())));
  ASSERT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  receives.start(queue);
  exchange(sends);
  receives.wait(queue);
  queue.wait();
  for (size_t i = 0; i < tags.size(); ++i) {
    EXPECT_EQ(ins[i], static_cast<int>(i) + 10 * partner());
    EXPECT_EQ(statuses[i].MPI_TAG, tags[3 - i]);
  }
}

TEST_F(Envelope, AWildcardTellsTheLongestTag) {
  Requests pair;
  pair.receive(&in, 1, partner(), MPI_ANY_TAG, MPI_COMM_WORLD, MPI_INT);
  pair.send(&out, 1, partner(), tag_ub(), MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  std::array<MPI_Status, 2> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(2, pair.data(), statuses.data())));
  EXPECT_EQ(statuses[0].MPI_TAG, tag_ub());
  verify_matched(pair);
}

TEST_F(Envelope, TagsBeyondTheLimitAreTheMpisError) {
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_TRUE(fails(MPI_Send_init(&out, 1, MPI_INT, partner(), -3, MPI_COMM_WORLD, &request), MPI_ERR_TAG));
  EXPECT_TRUE(fails(MPI_Send_init(&out, 1, MPI_INT, partner(), MPI_ANY_TAG, MPI_COMM_WORLD, &request), MPI_ERR_TAG));
  if (tag_ub() < INT32_MAX) {
    EXPECT_TRUE(fails(MPI_Send_init(&out, 1, MPI_INT, partner(), tag_ub() + 1, MPI_COMM_WORLD, &request), MPI_ERR_TAG));
  }
}

// Of two sends that one receive could meet, the one that was matched first: also where a wildcard chooses.
TEST_F(Envelope, SendsDoNotOvertakeEachOther) {
  constexpr int kCount = 12;
  std::array<int, kCount> outs, ins;
  Requests sends, receives;
  for (size_t i = 0; i < kCount; ++i) {
    outs[i] = static_cast<int>(i);
    ins[i] = -1;
    sends.send(&outs[i], 1, partner(), static_cast<int>(i) % 3, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
    receives.receive(&ins[i], 1, partner(), MPI_ANY_TAG, MPI_COMM_WORLD, MPI_INT);
  }
  MPI_Request matches[2];
  ASSERT_TRUE(ok(MPIX_Imatchall(kCount, sends.data(), &matches[0])));
  ASSERT_TRUE(ok(MPIX_Imatchall(kCount, receives.data(), &matches[1])));
  ASSERT_TRUE(ok(MPI_Waitall(2, matches, MPI_STATUSES_IGNORE)));
  receives.start(queue);
  exchange(sends);
  receives.wait(queue);
  queue.wait();
  for (size_t i = 0; i < kCount; ++i)
    EXPECT_EQ(ins[i], static_cast<int>(i));
}

// All ranks to one, which takes them as they come, twice of each.
TEST_F(Envelope, AnySourceMeetsEveryRank) {
  std::vector<int> got(2 * static_cast<size_t>(ranks()), -1), mine{rank(), rank() + 500};
  Requests requests;
  for (int& value : mine)
    requests.send(&value, 1, 0, 3, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  if (rank() == 0)
    for (int& value : got)
      requests.receive(&value, 1, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_INT);
  std::vector<MPI_Status> statuses(static_cast<size_t>(requests.count()));
  ASSERT_TRUE(ok(MPIX_Matchall(requests.count(), requests.data(), statuses.data())));
  exchange(requests);
  if (rank() != 0)
    return;
  std::vector<int> seen(static_cast<size_t>(ranks()), 0);
  for (size_t i = 0; i < got.size(); ++i) {
    const auto source = static_cast<size_t>(statuses[i + 2].MPI_SOURCE);
    // The first of a rank's comes before its second.
    EXPECT_EQ(got[i], static_cast<int>(source) + 500 * seen[source]++);
  }
  for (const int times : seen)
    EXPECT_EQ(times, 2);
}

TEST_F(Envelope, AnySourceMeetsOneself) {
  Requests pair;
  pair.receive(&in, 1, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, MPI_INT);
  pair.send(&out, 1, 0, 7, MPI_COMM_SELF, Mode::kSend, MPI_INT);
  std::array<MPI_Status, 2> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(2, pair.data(), statuses.data())));
  EXPECT_EQ(statuses[0].MPI_SOURCE, 0);
  EXPECT_EQ(statuses[0].MPI_TAG, 7);
  verify_matched(pair, out);
}

// A ring over all ranks, by wildcards: each is met by its left neighbour alone.
TEST_F(Envelope, EveryRankHasItsOwnWildcards) {
  Requests pair;
  pair.receive(&in, 1, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_INT);
  pair.send(&out, 1, (rank() + 1) % ranks(), 2, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  pair.match();
  verify_matched(pair, 1000 + (rank() + ranks() - 1) % ranks());
}

// ---- Lengths

TEST_F(Envelope, ZeroBytesMatchAndComplete) {
  Requests pair;
  pair.receive(nullptr, 0, partner(), 1);
  pair.send(nullptr, 0, partner(), 1);
  std::array<MPI_Status, 2> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(2, pair.data(), statuses.data())));
  EXPECT_EQ(count_of(statuses[0]), 0);
  EXPECT_EQ(statuses[0].MPI_SOURCE, partner());
  for (int i = 0; i < 3; ++i)
    exchange(pair);
}

TEST_F(Envelope, AZeroLengthSendLeavesALongerReceiveAlone) {
  Requests pair;
  pair.receive(&in, 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  pair.send(nullptr, 0, partner(), 1);
  pair.match();
  exchange(pair);
  EXPECT_EQ(in, -1);
}

TEST_F(Envelope, AShorterMessageLeavesTheRestOfTheBuffer) {
  std::array<int, 4> room{-1, -1, -1, -1};
  Requests pair;
  pair.receive(room.data(), 4, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  pair.send(&out, 1, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  std::array<MPI_Status, 2> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(2, pair.data(), statuses.data())));
  EXPECT_EQ(count_of(statuses[0], MPI_INT), 1);
  exchange(pair);
  EXPECT_EQ(room, (std::array<int, 4>{1000 + partner(), -1, -1, -1}));
}

// A failed match has changed nothing: each half meets another, and the MPI may start it.
TEST_F(Envelope, TruncationUndoesTheMatch) {
  std::array<int, 2> two{1, 2}, room{-1, -1};
  Requests pair;
  pair.receive(&in, 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  pair.send(two.data(), 2, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  std::array<MPI_Status, 2> statuses;
  EXPECT_TRUE(fails(MPIX_Matchall(2, pair.data(), statuses.data()), MPI_ERR_IN_STATUS));
  for (const MPI_Status& status : statuses)
    EXPECT_TRUE(fails(status.MPI_ERROR, MPI_ERR_TRUNCATE, {"8", "4"}));
  EXPECT_EQ(in, -1);
  MPI_Barrier(MPI_COMM_WORLD);
  pair.receive(room.data(), 2, partner(), 2, MPI_COMM_WORLD, MPI_INT);
  ASSERT_TRUE(ok(MPI_Start(pair.at(1))));
  MPI_Recv(room.data(), 2, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  ASSERT_TRUE(ok(MPI_Wait(pair.at(1), MPI_STATUS_IGNORE)));
  EXPECT_EQ(room, two);
}

TEST_F(Envelope, TypesMayDifferWhereTheBytesAgree) {
  std::array<int, 4> ints{1, 2, 3, rank()};
  std::array<int, 4> bytes{};
  MPI_Datatype four = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(4, MPI_INT, &four);
  MPI_Type_commit(&four);
  Requests pair;
  pair.receive(bytes.data(), sizeof bytes, partner(), 1);
  pair.send(ints.data(), 1, partner(), 1, MPI_COMM_WORLD, Mode::kSend, four);
  MPI_Type_free(&four);
  pair.match();
  exchange(pair);
  EXPECT_EQ(bytes, (std::array<int, 4>{1, 2, 3, partner()}));
}

// ---- Nobody

TEST_F(Envelope, ProcNullMatchesAtOnceWithItsOwnStatus) {
  Requests requests;
  requests.receive(&in, 1, MPI_PROC_NULL, 5, MPI_COMM_WORLD, MPI_INT);
  requests.send(&out, 1, MPI_PROC_NULL, 5, MPI_COMM_WORLD, Mode::kRsend, MPI_INT);
  MPI_Status status = unfilled();
  ASSERT_TRUE(ok(MPIX_Match(requests.at(0), &status)));
  ASSERT_TRUE(ok(MPIX_Match(requests.at(1), MPI_STATUS_IGNORE)));
  EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
  EXPECT_EQ(count_of(status), 0);
  for (int i = 0; i < 3; ++i)
    exchange(requests);
  EXPECT_EQ(in, -1);
}

// MPICH 4.0's own status of it is that of an inactive request: it is the same without Lanyard.
TEST_F(Envelope, ProcNullUnmatchedIsTheMpis) {
  MPI_Request lanyards = MPI_REQUEST_NULL, mpis = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPI_Recv_init(&in, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &lanyards)));
  ASSERT_TRUE(ok(PMPI_Recv_init(&in, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &mpis)));
  for (int i = 0; i < 2; ++i) {
    MPI_Status status = unfilled(), expected = unfilled();
    ASSERT_TRUE(ok(MPI_Start(&lanyards)));
    ASSERT_TRUE(ok(MPI_Wait(&lanyards, &status)));
    ASSERT_TRUE(ok(PMPI_Start(&mpis)));
    ASSERT_TRUE(ok(PMPI_Wait(&mpis, &expected)));
    EXPECT_EQ(status.MPI_SOURCE, expected.MPI_SOURCE);
    EXPECT_EQ(status.MPI_TAG, expected.MPI_TAG);
    EXPECT_EQ(count_of(status), 0);
  }
  EXPECT_EQ(in, -1);
  ASSERT_TRUE(ok(MPI_Request_free(&lanyards)));
  ASSERT_TRUE(ok(PMPI_Request_free(&mpis)));
}

// ---- Oneself

TEST_F(Envelope, OneselfInTheWorldAndAlone) {
  int out_self = 4000 + rank(), in_self = -1;
  Requests world, self;
  add_pair(world, 1, MPI_COMM_WORLD, rank());
  self.receive(&in_self, 1, 0, 1, MPI_COMM_SELF, MPI_INT);
  self.send(&out_self, 1, 0, 1, MPI_COMM_SELF, Mode::kSend, MPI_INT);
  world.match();
  self.match();
  exchange(self);
  EXPECT_EQ(in_self, 4000 + rank());
  EXPECT_EQ(in, -1);
  verify_matched(world, out);
}

// One MPIX_Match after the other would wait for itself; in one call or by match requests it does not.
TEST_F(Envelope, OneselfByMatchRequests) {
  Requests pair;
  add_pair(pair, 1, MPI_COMM_WORLD, rank());
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(pair.at(1), &match)));
  ASSERT_TRUE(ok(MPIX_Match(pair.at(0), MPI_STATUS_IGNORE)));
  ASSERT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  verify_matched(pair, out);
}

// Requests may share a buffer where MPI lets them: two sends of one.
TEST_F(Envelope, TwoSendsOfOneBuffer) {
  std::array<int, 2> ins{-1, -1};
  Requests requests;
  for (int& value : ins) {
    requests.receive(&value, 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
    requests.send(&out, 1, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  }
  requests.match();
  exchange(requests);
  EXPECT_EQ(ins, (std::array<int, 2>{1000 + partner(), 1000 + partner()}));
}

}  // namespace
}  // namespace lanyard::conformance
