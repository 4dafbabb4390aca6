// Which receive a send meets: tags, lengths, nobody; and the statuses of matching. Order and wildcards:
// tests/api/api_match_test.cc. MPI 4.0, sections 3.2.2 to 3.2.6, 3.11, 9.1.2.
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

// ---- Statuses

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
};

TEST_F(Statuses, TellWhatIsBehindAWildcardInAnyType) {
  MPI_Datatype two = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &two);
  MPI_Type_commit(&two);
  ASSERT_TRUE(ok(MPIX_Matchall(2, pair.data(), statuses.data())));
  EXPECT_TRUE(is_empty(statuses[1])) << "of a send";
  EXPECT_EQ(statuses[0].MPI_SOURCE, partner());
  EXPECT_EQ(statuses[0].MPI_TAG, 21);
  EXPECT_EQ(count_of(statuses[0], MPI_INT), 3);
  EXPECT_EQ(count_of(statuses[0], MPI_BYTE), 12);
  EXPECT_EQ(count_of(statuses[0], MPI_DOUBLE), MPI_UNDEFINED);
  EXPECT_EQ(count_of(statuses[0], two), MPI_UNDEFINED);
  int elements = -1, cancelled = 1;
  MPI_Count elements_x = -1;
  ASSERT_TRUE(ok(MPI_Get_elements(&statuses[0], two, &elements)));
  ASSERT_TRUE(ok(MPI_Get_elements_x(&statuses[0], two, &elements_x)));
  ASSERT_TRUE(ok(MPI_Test_cancelled(&statuses[0], &cancelled)));
  EXPECT_EQ(elements, 3);
  EXPECT_EQ(elements_x, 3);
  EXPECT_FALSE(cancelled);
  MPI_Type_free(&two);
}

TEST_F(Statuses, OfOneMatchRequestForManyAreEmpty) {
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(2, pair.data(), &match)));
  ASSERT_TRUE(ok(MPI_Wait(&match, &statuses[0])));
  EXPECT_TRUE(is_empty(statuses[0]));
}

}  // namespace
}  // namespace lanyard::conformance
