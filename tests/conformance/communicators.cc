// Communicators of every kind, as matching sees them: apart from each other, and as long as their requests live.
// MPI 4.0, sections 7.4.2, 7.4.3, 7.6, 7.7, 8.5, 8.5.6.
#include <vector>

#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

struct OfCommunicators : Exchange {
  std::vector<MPI_Comm> made;

  void TearDown() override {
    for (MPI_Comm& communicator : made)
      MPI_Comm_free(&communicator);
  }
  MPI_Comm keep(MPI_Comm communicator) {
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    made.push_back(communicator);
    return communicator;
  }
  MPI_Comm dup(MPI_Comm parent) {
    MPI_Comm child = MPI_COMM_NULL;
    EXPECT_TRUE(ok(MPI_Comm_dup(parent, &child)));
    return keep(child);
  }
  // An exchange with the partner, whose rank there is `peer`.
  void verify_on(MPI_Comm communicator, int peer) {
    Requests pair;
    add_pair(pair, 1, communicator, peer);
    pair.match();
    verify_matched(pair);
  }
};

// Equal envelopes on a communicator and its duplicate; each matching call comes in an order of its rank's own.
TEST_F(OfCommunicators, DuplicatesAreApart) {
  const MPI_Comm copy = dup(MPI_COMM_WORLD);
  std::array<int, 2> outs{10 + rank(), 20 + rank()}, ins{-1, -1};
  Requests world, other;
  world.receive(&ins[0], 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  world.send(&outs[0], 1, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  other.receive(&ins[1], 1, partner(), 1, copy, MPI_INT);
  other.send(&outs[1], 1, partner(), 1, copy, Mode::kSend, MPI_INT);
  MPI_Request matches[2];
  Requests& first = rank() % 2 == 0 ? world : other;
  Requests& second = rank() % 2 == 0 ? other : world;
  ASSERT_TRUE(ok(MPIX_Imatchall(2, first.data(), &matches[0])));
  ASSERT_TRUE(ok(MPIX_Imatchall(2, second.data(), &matches[1])));
  ASSERT_TRUE(ok(MPI_Waitall(2, matches, MPI_STATUSES_IGNORE)));
  world.start(queue);
  other.start(queue);
  world.wait(queue);
  other.wait(queue);
  queue.wait();
  EXPECT_EQ(ins, (std::array<int, 2>{10 + partner(), 20 + partner()}));
}

TEST_F(OfCommunicators, DuplicatesWithInfo) {
  MPI_Comm child = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &child)));
  verify_on(keep(child), partner());
}

TEST_F(OfCommunicators, DuplicatesMadeWithoutBlocking) {
  MPI_Comm child = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPI_Comm_idup(MPI_COMM_WORLD, &child, &request)));
  ASSERT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));
  verify_on(keep(child), partner());
}

// Pairs of ranks, each in a communicator of two.
TEST_F(OfCommunicators, SplitsHaveRanksOfTheirOwn) {
  MPI_Comm pairs = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_split(MPI_COMM_WORLD, rank() / 2, -rank(), &pairs)));
  keep(pairs);
  int here = -1, size = 0;
  MPI_Comm_rank(pairs, &here);
  MPI_Comm_size(pairs, &size);
  verify_on(pairs, size == 2 ? 1 - here : 0);
}

TEST_F(OfCommunicators, SplitsWithoutAColourMakeNone) {
  MPI_Comm even = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_split(MPI_COMM_WORLD, rank() % 2 == 0 ? 1 : MPI_UNDEFINED, 0, &even)));
  EXPECT_EQ(even == MPI_COMM_NULL, rank() % 2 != 0);
  if (even != MPI_COMM_NULL)
    keep(even);
  verify_on(dup(MPI_COMM_WORLD), partner());  // all count alike
}

TEST_F(OfCommunicators, SplitsByType) {
  MPI_Comm host = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &host)));
  verify_on(keep(host), partner());  // all ranks are on one host here
}

TEST_F(OfCommunicators, MadeOfGroups) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm all = MPI_COMM_NULL, again = MPI_COMM_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  ASSERT_TRUE(ok(MPI_Comm_create(MPI_COMM_WORLD, group, &all)));
  ASSERT_TRUE(ok(MPI_Comm_create_group(keep(all), group, 5, &again)));
  MPI_Group_free(&group);
  verify_on(all, partner());
  verify_on(keep(again), partner());
}

TEST_F(OfCommunicators, WithTopologies) {
  const int size = ranks(), periodic = 1, keep_it = 1;
  MPI_Comm ring = MPI_COMM_NULL, row = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring)));
  ASSERT_TRUE(ok(MPI_Cart_sub(keep(ring), &keep_it, &row)));
  keep(row);
  int left = -1, right = -1;
  MPI_Cart_shift(ring, 0, 1, &left, &right);
  Requests pair;
  pair.receive(&in, 1, left, 1, ring, MPI_INT);
  pair.send(&out, 1, right, 1, ring, Mode::kSend, MPI_INT);
  pair.match();
  verify_matched(pair, 1000 + left);
  verify_on(row, partner());
}

// A border of a grid that is not periodic is MPI_PROC_NULL.
TEST_F(OfCommunicators, BordersOfGridsAreNobody) {
  const int size = ranks(), periodic = 0;
  MPI_Comm line = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &line)));
  keep(line);
  int left = -1, right = -1;
  MPI_Cart_shift(line, 0, 1, &left, &right);
  Requests pair;
  pair.receive(&in, 1, left, 1, line, MPI_INT);
  pair.send(&out, 1, right, 1, line, Mode::kSend, MPI_INT);
  pair.match();
  verify_matched(pair, left == MPI_PROC_NULL ? -1 : 1000 + left);
}

TEST_F(OfCommunicators, OfOneRank) {
  MPI_Comm alone = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_split(MPI_COMM_WORLD, rank(), 0, &alone)));
  keep(alone);
  Requests pair;
  add_pair(pair, 1, alone, 0);
  pair.match();
  verify_matched(pair, out);
}

// MPI frees a communicator once nothing uses it any more; its requests are matched and used as before.
TEST_F(OfCommunicators, FreedWhileMatchedRequestsLive) {
  MPI_Comm child = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_dup(MPI_COMM_WORLD, &child)));
  Requests pair;
  add_pair(pair, 1, child);
  pair.match();
  ASSERT_TRUE(ok(MPI_Comm_free(&child)));
  EXPECT_EQ(child, MPI_COMM_NULL);
  verify_matched(pair);
}

TEST_F(OfCommunicators, FreedBeforeMatching) {
  MPI_Comm child = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_dup(MPI_COMM_WORLD, &child)));
  Requests pair, later;
  add_pair(pair, 1, child);
  ASSERT_TRUE(ok(MPI_Comm_free(&child)));
  // The next one may get the same handle, and is another.
  ASSERT_TRUE(ok(MPI_Comm_dup(MPI_COMM_WORLD, &child)));
  add_pair(later, 1, keep(child));
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(2, later.data(), &match)));
  pair.match();
  ASSERT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  verify_matched(pair);
  verify_matched(later);
}

TEST_F(OfCommunicators, FreedWhileStartedOnAQueue) {
  MPI_Comm child = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_dup(MPI_COMM_WORLD, &child)));
  Requests pair;
  add_pair(pair, 1, child);
  pair.match();
  pair.start(queue);
  ASSERT_TRUE(ok(MPI_Comm_free(&child)));
  pair.wait(queue);
  queue.wait();
  EXPECT_EQ(in, 1000 + partner());
}

// Attributes of the program's are copied and deleted as MPI has it, beside Lanyard's own.
TEST_F(OfCommunicators, KeepTheProgramsAttributes) {
  static int copied = 0, deleted = 0;
  copied = deleted = 0;
  int keyval = MPI_KEYVAL_INVALID;
  ASSERT_TRUE(ok(MPI_Comm_create_keyval(
      [](MPI_Comm, int, void*, void* value, void* result, int* flag) {
        ++copied;
        *static_cast<void**>(result) = value;
        *flag = 1;
        return MPI_SUCCESS;
      },
      [](MPI_Comm, int, void*, void*) {
        ++deleted;
        return MPI_SUCCESS;
      },
      &keyval, nullptr)));
  MPI_Comm parent = MPI_COMM_NULL, child = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_dup(MPI_COMM_WORLD, &parent)));
  ASSERT_TRUE(ok(MPI_Comm_set_attr(parent, keyval, &out)));
  ASSERT_TRUE(ok(MPI_Comm_dup(parent, &child)));
  EXPECT_EQ(copied, 1);
  void* value = nullptr;
  int flag = 0;
  ASSERT_TRUE(ok(MPI_Comm_get_attr(child, keyval, &value, &flag)));
  EXPECT_TRUE(flag);
  EXPECT_EQ(value, &out);
  verify_on(child, partner());
  ASSERT_TRUE(ok(MPI_Comm_free(&child)));
  ASSERT_TRUE(ok(MPI_Comm_disconnect(&parent)));
  EXPECT_EQ(deleted, 2);
  MPI_Comm_free_keyval(&keyval);
}

// ---- Those that matching cannot follow

struct InterCommunicators : OfCommunicators {
  MPI_Comm half = MPI_COMM_NULL, inter = MPI_COMM_NULL;

  void SetUp() override {
    if (ranks() < 2)
      GTEST_SKIP() << "needs two ranks";
    ASSERT_TRUE(ok(MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, rank(), &half)));
    keep(half);
    ASSERT_TRUE(ok(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, (rank() + 1) % 2, 1, &inter)));
    keep(inter);
  }
  void expect_refused(MPI_Comm communicator, const std::string& kind) {
    Requests pair;
    MPI_Request match = MPI_REQUEST_NULL;
    add_pair(pair, 1, communicator, 0);
    const auto fact = {std::string("communicator"), kind};
    EXPECT_TRUE(fails(MPIX_Match(pair.at(0), MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION, fact));
    EXPECT_TRUE(fails(MPIX_Matchall(2, pair.data(), MPI_STATUSES_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION, fact));
    EXPECT_TRUE(fails(MPIX_Imatch(pair.at(1), &match), MPI_ERR_UNSUPPORTED_OPERATION, fact));
    EXPECT_EQ(match, MPI_REQUEST_NULL);
  }
};

TEST_F(InterCommunicators, AreRefusedByName) { expect_refused(inter, "inter-communicator"); }

TEST_F(InterCommunicators, AreTheMpisToUse) {
  const int group_rank = rank() / 2;
  int remote = 0;
  MPI_Comm_remote_size(inter, &remote);
  const int peer = group_rank < remote ? group_rank : MPI_PROC_NULL;
  Requests pair;
  add_pair(pair, 1, inter, peer);
  ASSERT_TRUE(ok(MPI_Startall(2, pair.data())));
  ASSERT_TRUE(ok(MPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE)));
  EXPECT_EQ(in, peer == MPI_PROC_NULL ? -1 : 1000 + (rank() ^ 1));
}

// What is made of one is refused too, and does not cross what is made of MPI_COMM_WORLD.
TEST_F(InterCommunicators, MergedOnesAreRefusedByName) {
  MPI_Comm merged = MPI_COMM_NULL, child = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Intercomm_merge(inter, rank() % 2, &merged)));
  keep(merged);
  ASSERT_TRUE(ok(MPI_Comm_dup(merged, &child)));
  keep(child);
  for (const MPI_Comm communicator : {merged, child}) {
    Requests pair;
    add_pair(pair, 1, communicator, 0);
    EXPECT_TRUE(fails(MPIX_Match(pair.at(0), MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION,
                      {"MPI_COMM_WORLD", "MPI_Intercomm_merge"}));
  }
  verify_on(dup(MPI_COMM_WORLD), partner());
}

}  // namespace
}  // namespace lanyard::conformance
