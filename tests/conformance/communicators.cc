// Communicators that go before their requests, with attributes, and those that matching cannot follow. All others:
// tests/api/api_match_communicators.cc. MPI 4.0, sections 7.4.3, 7.6, 7.7.
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
