// Matching keeps communicators apart, however they were made, and refuses those on which it cannot
// match.
#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Communicators : OnAQueue {
  std::vector<MPI_Comm> made;
  int out = 1000 + rank(), in = -1;

  ~Communicators() override {
    for (MPI_Comm& communicator : made)
      if (communicator != MPI_COMM_NULL)
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
  MPI_Comm split(MPI_Comm parent, int color, int key) {
    MPI_Comm child = MPI_COMM_NULL;
    EXPECT_TRUE(ok(MPI_Comm_split(parent, color, key, &child)));
    return child == MPI_COMM_NULL ? child : keep(child);
  }
  MPI_Comm create_group(MPI_Comm parent, int tag) {
    MPI_Group group;
    MPI_Comm child = MPI_COMM_NULL;
    MPI_Comm_group(parent, &group);
    EXPECT_TRUE(ok(MPI_Comm_create_group(parent, group, tag, &child)));
    MPI_Group_free(&group);
    return keep(child);
  }

  void add_pair(Requests& requests, MPI_Comm communicator, int peer) {
    requests.receive(&in, sizeof in, peer, 1, communicator);
    requests.send(&out, sizeof out, peer, 1, communicator);
  }

  // The rank in `communicator` of a rank of MPI_COMM_WORLD.
  static int translate(int world_rank, MPI_Comm communicator) {
    MPI_Group world, group;
    int result = MPI_UNDEFINED;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_group(communicator, &group);
    MPI_Group_translate_ranks(world, 1, &world_rank, group, &result);
    MPI_Group_free(&world);
    MPI_Group_free(&group);
    return result;
  }

  // Sends a message each way on each communicator, all with one tag. Each rank matches in
  // another order.
  void verify_apart(const std::vector<MPI_Comm>& communicators) {
    const size_t count = communicators.size();
    std::vector<int> out(count), in(count, -1), order(2 * count);
    Requests requests;
    for (size_t i = 0; i < count; ++i) {
      const int peer = translate(partner(), communicators[i]);
      ASSERT_NE(peer, MPI_UNDEFINED);
      out[i] = static_cast<int>(i) + 1000 * rank();
      requests.receive(&in[i], sizeof(int), peer, 1, communicators[i]);
      requests.send(&out[i], sizeof(int), peer, 1, communicators[i]);
    }
    std::vector<MPI_Request> shuffled(requests.data(), requests.data() + requests.count());
    std::shuffle(shuffled.begin(), shuffled.end(), std::minstd_rand(static_cast<unsigned>(rank()) + 5));
    std::vector<MPI_Status> statuses(shuffled.size());
    ASSERT_TRUE(ok(MPIX_Matchall(requests.count(), shuffled.data(), statuses.data())));
    for (size_t i = 0; i < shuffled.size(); ++i) {
      const auto found = std::find(requests.data(), requests.data() + requests.count(), shuffled[i]) - requests.data();
      if (found % 2 == 0) {
        EXPECT_EQ(statuses[i].MPI_SOURCE, translate(partner(), communicators[static_cast<size_t>(found) / 2]));
      }
    }
    requests.run(queue);
    for (size_t i = 0; i < count; ++i)
      EXPECT_EQ(in[i], static_cast<int>(i) + 1000 * partner()) << "communicator " << i;
  }
};

TEST_F(Communicators, OverTheSameRanksNeverCross) {
  std::vector<MPI_Comm> all{MPI_COMM_WORLD};
  all.push_back(dup(MPI_COMM_WORLD));
  all.push_back(dup(MPI_COMM_WORLD));
  all.push_back(dup(all.back()));
  all.push_back(split(MPI_COMM_WORLD, 0, rank()));
  all.push_back(split(MPI_COMM_WORLD, 0, -rank()));  // ranks reversed
  all.push_back(split(all.back(), 7, rank()));
  all.push_back(create_group(MPI_COMM_WORLD, 1));
  all.push_back(create_group(MPI_COMM_WORLD, 1));  // the same call again
  all.push_back(create_group(MPI_COMM_WORLD, 2));
  all.push_back(create_group(all[1], 1));
  MPI_Comm child = MPI_COMM_NULL;
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &child);
  all.push_back(keep(child));
  MPI_Group group;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Comm_create(MPI_COMM_WORLD, group, &child);
  MPI_Group_free(&group);
  all.push_back(keep(child));
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &child);
  all.push_back(keep(child));
  MPI_Request request;
  MPI_Comm_idup(MPI_COMM_WORLD, &child, &request);
  ASSERT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));
  all.push_back(keep(child));
  all.push_back(dup(child));
#if MPI_VERSION >= 4
  MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &child, &request);
  ASSERT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));
  all.push_back(keep(child));
#endif
  verify_apart(all);
}

TEST_F(Communicators, WithTopologies) {
  std::vector<MPI_Comm> all;
  MPI_Comm child = MPI_COMM_NULL;
  const int sizes[] = {ranks(), 1}, periods[] = {1, 0}, remain[] = {1, 0};
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, 1, &child);
  all.push_back(keep(child));
  MPI_Cart_sub(child, remain, &child);
  all.push_back(keep(child));
  // Each rank is the neighbour of the next.
  std::vector<int> index, edges;
  for (int i = 0; i < ranks(); ++i) {
    index.push_back(i + 1);
    edges.push_back((i + 1) % ranks());
  }
  MPI_Graph_create(MPI_COMM_WORLD, ranks(), index.data(), edges.data(), 0, &child);
  all.push_back(keep(child));
  const int self = rank(), one = 1, next = (rank() + 1) % ranks(), last = (rank() + ranks() - 1) % ranks();
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &self, &one, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &child);
  all.push_back(keep(child));
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &last, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &child);
  all.push_back(keep(child));
  verify_apart(all);
}

// Some ranks have seen more communicators than others.
TEST_F(Communicators, MadeByAFewBeforeOneMadeByAll) {
  if (rank() < 2 && ranks() >= 2) {
    MPI_Group world, group;
    const int members[] = {0, 1};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, members, &group);
    for (int tag = 0; tag < 3; ++tag) {
      MPI_Comm few = MPI_COMM_NULL;
      ASSERT_TRUE(ok(MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &few)));
      keep(few);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&group);
  }
  if (rank() == 0)
    dup(MPI_COMM_SELF);
  const MPI_Comm copy = dup(MPI_COMM_WORLD);
  const MPI_Comm pair = split(copy, rank() / 2, rank());
  const MPI_Comm nobody = split(copy, MPI_UNDEFINED, 0);
  EXPECT_EQ(nobody, MPI_COMM_NULL);
  const MPI_Comm last = dup(copy);
  verify_apart({copy, pair, last, MPI_COMM_WORLD});
}

// A wildcard stands for ranks of the receive's communicator.
TEST_F(Communicators, WildcardsStayInside) {
  const MPI_Comm reversed = split(MPI_COMM_WORLD, 0, -rank());
  const MPI_Comm other = dup(MPI_COMM_WORLD);
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  int out = 1, other_out = 2, in = -1, other_in = -1;
  Requests requests;
  requests.send(&other_out, sizeof(int), right, 1, other);
  requests.send(&out, sizeof(int), translate(right, reversed), 1, reversed);
  requests.receive(&in, sizeof(int), MPI_ANY_SOURCE, MPI_ANY_TAG, reversed);
  requests.receive(&other_in, sizeof(int), MPI_ANY_SOURCE, MPI_ANY_TAG, other);
  std::array<MPI_Status, 4> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(4, requests.data(), statuses.data())));
  EXPECT_EQ(statuses[2].MPI_SOURCE, translate(left, reversed));
  EXPECT_EQ(statuses[3].MPI_SOURCE, left);
  requests.run(queue);
  EXPECT_EQ(in, 1);
  EXPECT_EQ(other_in, 2);
}

// The MPI may reuse a freed handle for another communicator.
TEST_F(Communicators, MayBeFreedBeforeMatchingAndWhileStarted) {
  std::array<int, 2> out{1, 2}, in{-1, -1};
  Requests requests;
  MPI_Comm first = MPI_COMM_NULL, second = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &first);
  requests.receive(&in[0], sizeof(int), partner(), 1, first);
  requests.send(&out[0], sizeof(int), partner(), 1, first);
  MPI_Comm_free(&first);
  MPI_Comm_dup(MPI_COMM_WORLD, &second);
  requests.receive(&in[1], sizeof(int), partner(), 1, second);
  requests.send(&out[1], sizeof(int), partner(), 1, second);
  std::array<MPI_Request, 4> order{requests[0], requests[2], requests[3], requests[1]};
  ASSERT_TRUE(ok(MPIX_Matchall(4, order.data(), MPI_STATUSES_IGNORE)));
  requests.start(queue);
  MPI_Comm_free(&second);
  requests.wait(queue);
  queue.wait();
  EXPECT_EQ(in, out);
  // Errors of such a request go to MPI_COMM_WORLD.
  EXPECT_TRUE(fails(MPIX_Enqueue_wait(queue, requests.at(0)), MPI_ERR_REQUEST));
}

// Each call fails on rank 0 only, before it communicates, and is then repeated correctly.
TEST_F(Communicators, ConstructorsThatFailOnOneRankDoNotCount) {
  if (rank() == 0) {
    EXPECT_NE(MPI_Comm_dup(MPI_COMM_WORLD, nullptr), MPI_SUCCESS);
    EXPECT_NE(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, nullptr), MPI_SUCCESS);
  }
  const MPI_Comm copy = dup(MPI_COMM_WORLD);
  const int length = 1, not_periodic = 0;
  MPI_Comm no_grid = MPI_COMM_NULL;
  if (rank() == 0) {
    EXPECT_NE(MPI_Cart_create(copy, -1, &length, &not_periodic, 0, &no_grid), MPI_SUCCESS);
  }
  const MPI_Comm half = split(copy, 0, ranks() - rank());
  if (rank() == 0) {
    MPI_Group group;
    MPI_Comm_group(copy, &group);
    EXPECT_NE(MPI_Comm_create_group(copy, group, 3, nullptr), MPI_SUCCESS);
    MPI_Group_free(&group);
  }
  const MPI_Comm members = create_group(copy, 3);
  verify_apart({MPI_COMM_WORLD, copy, half, members});
}

// MPI copies and deletes the program's attributes as usual, beside Lanyard's own.
TEST_F(Communicators, KeepTheProgramsAttributes) {
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
  verify_apart({child});
  ASSERT_TRUE(ok(MPI_Comm_free(&child)));
  ASSERT_TRUE(ok(MPI_Comm_disconnect(&parent)));
  EXPECT_EQ(deleted, 2);
  MPI_Comm_free_keyval(&keyval);
}

// ---- Communicators that Lanyard cannot match on (MPI 4.0, sections 7.4.3, 7.6 and 7.7)

struct InterCommunicators : Communicators {
  MPI_Comm half = MPI_COMM_NULL, inter = MPI_COMM_NULL;

  void SetUp() override {
    if (ranks() < 2)
      GTEST_SKIP() << "needs two ranks";
    ASSERT_TRUE(ok(MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, rank(), &half)));
    keep(half);
    ASSERT_TRUE(ok(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, (rank() + 1) % 2, 1, &inter)));
    keep(inter);
  }
};

TEST_F(InterCommunicators, AreRefusedByNameAndTheMpisToUse) {
  const int group_rank = rank() / 2;
  int remote = 0;
  MPI_Comm_remote_size(inter, &remote);
  const int peer = group_rank < remote ? group_rank : MPI_PROC_NULL;
  Requests pair, refused;
  MPI_Request match = MPI_REQUEST_NULL;
  add_pair(refused, inter, 0);
  const auto fact = {std::string("inter-communicator")};
  EXPECT_TRUE(fails(MPIX_Match(refused.at(0), MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION, fact));
  EXPECT_TRUE(fails(MPIX_Matchall(2, refused.data(), MPI_STATUSES_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION, fact));
  EXPECT_TRUE(fails(MPIX_Imatch(refused.at(1), &match), MPI_ERR_UNSUPPORTED_OPERATION, fact));
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  add_pair(pair, inter, peer);
  ASSERT_TRUE(ok(MPI_Startall(2, pair.data())));
  ASSERT_TRUE(ok(MPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE)));
  EXPECT_EQ(in, peer == MPI_PROC_NULL ? -1 : 1000 + (rank() ^ 1));
}

// A communicator made from an inter-communicator is refused too, and does not disturb the matching
// of requests on MPI_COMM_WORLD.
TEST_F(InterCommunicators, MergedOnesAreRefusedByName) {
  MPI_Comm merged = MPI_COMM_NULL, child = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Intercomm_merge(inter, rank() % 2, &merged)));
  keep(merged);
  ASSERT_TRUE(ok(MPI_Comm_dup(merged, &child)));
  keep(child);
  for (const MPI_Comm communicator : {merged, child}) {
    Requests pair;
    add_pair(pair, communicator, 0);
    EXPECT_TRUE(fails(MPIX_Match(pair.at(0), MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION,
                      {"MPI_COMM_WORLD", "MPI_Intercomm_merge"}));
  }
  verify_apart({dup(MPI_COMM_WORLD)});
}

}  // namespace
}  // namespace lanyard::api_test
