// Persistent collectives on streams: making, matching and starting them, also beside
// others, and refusals.
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct CollectiveCalls : Misuse {};

#if MPI_VERSION >= 4
// All forms of a call count alike when collectives are numbered.
TEST_F(CollectiveCalls, CountTheSameByEveryForm) {
  int data = -1, own = rank(), sum = -1;
  Collective broadcast, reduce;
  if (rank() % 2 == 0) {
    ASSERT_TRUE(ok(MPI_Bcast_init_c(&data, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, broadcast.address())));
    ASSERT_TRUE(
        ok(MPI_Allreduce_init_c(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, reduce.address())));
  } else {
    ASSERT_TRUE(ok(MPIX_Bcast_init(&data, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, broadcast.address())));
    ASSERT_TRUE(
        ok(MPI_Allreduce_init(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, reduce.address())));
  }
  reduce.match();
  broadcast.match();
  data = rank() == 0 ? 7 : -1;
  broadcast.run(queue);
  reduce.run(queue);
  EXPECT_EQ(data, 7);
  EXPECT_EQ(sum, ranks() * (ranks() - 1) / 2);
}
#endif

TEST_F(CollectiveCalls, AreAnExchangeOrSingleRequestsOnDemand) {
  for (const bool merged : {true, false}) {
    Collective barrier(MPIX_Barrier_init, MPI_COMM_WORLD);
    EXPECT_EQ(facts_of(barrier.handle())["lanyard_route"], "mpi");
    if (!merged) {
      EXPECT_TRUE(ok(hint(barrier.handle(), "none")));
    }
    barrier.match();
    Facts facts = facts_of(barrier.handle());
    EXPECT_EQ(facts["lanyard_route"], "card");
    const bool is_merged = facts["lanyard_exchange"] != "none";
    const bool cannot = facts.count("lanyard_exchange_why") == 1;
    EXPECT_EQ(is_merged, merged && ranks() > 1 && !cannot);
    // As an exchange with two sets: a write per process, with sender flags a flag per process, and
    // one done word. Otherwise also a clear-to-send and two done words more.
    const bool flags = facts["lanyard_strategy"] == "sender-flag";
    if (ranks() > 1) {
      EXPECT_EQ(facts["lanyard_entries"],
                std::to_string(is_merged ? (flags ? 2 : 1) * (ranks() - 1) + 1 : 4 * (ranks() - 1)));
    }
    for (int round = 0; round < 5; ++round)
      barrier.run(queue);
    refused([&] { return hint(barrier.handle(), "none"); }, MPI_ERR_REQUEST, {"MPI_Barrier of", "matched already"});
  }
}

// Also with other requests in one call. The starts of an allreduce use its two sets in turn.
TEST_F(CollectiveCalls, ChangeTheCallAndTheQueue) {
  Stream another_stream;
  Queue another(another_stream);
  int own = 0, sum = 0;
  Collective reduce(MPIX_Allreduce_init, &own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  Collective barrier(MPIX_Barrier_init, MPI_COMM_WORLD);
  Requests pair;
  add_pair(pair);
  std::vector<MPI_Request> all{*pair.at(0), reduce.handle(), *pair.at(1), barrier.handle()};
  ASSERT_TRUE(ok(MPIX_Matchall(4, all.data(), MPI_STATUSES_IGNORE)));
  for (int round = 0; round < 12; ++round) {
    own = rank() + round;
    out.fill(seed_of(rank(), rank(), round));
    Queue& here = round / 3 % 2 == 0 ? queue : another;
    const bool alone = round % 3 == 1;
    MPI_Request* const requests = alone ? reduce.address() : all.data();
    EXPECT_TRUE(ok(MPIX_Enqueue_startall(here, alone ? 1 : 4, requests)));
    EXPECT_TRUE(ok(MPIX_Enqueue_waitall(here, alone ? 1 : 4, requests)));
    here.wait();
    EXPECT_EQ(sum, ranks() * (ranks() - 1) / 2 + ranks() * round);
    EXPECT_EQ(alone ? 0u : in.mistakes(seed_of(rank(), rank(), round)), 0u);
  }
}

TEST_F(CollectiveCalls, BelongToTheMpiUntilTheyAreMatched) {
  int own = rank() + 1, sum = 0;
  Collective reduce(MPIX_Allreduce_init, &own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_TRUE(ok(MPI_Start(reduce.address())));
  EXPECT_TRUE(ok(MPI_Wait(reduce.address(), MPI_STATUS_IGNORE)));
  EXPECT_EQ(sum, ranks() * (ranks() + 1) / 2);
  reduce.match();
  refused([&] { return MPI_Start(reduce.address()); }, MPI_ERR_REQUEST, {"start it on a queue"});
  sum = 0;
  reduce.run(queue);
  EXPECT_EQ(sum, ranks() * (ranks() + 1) / 2);
}

// ---- Misuse

void first_of_both(void* in, void* inout, int* count, MPI_Datatype*) {
  std::memcpy(inout, in, static_cast<size_t>(*count) * sizeof(int));
}

TEST_F(CollectiveCalls, UserOperationsAndTypesAreRefusedWhenMatched) {
  int own = 1, sum = 0;
  MPI_Op operation = MPI_OP_NULL;
  MPI_Op_create(first_of_both, 0, &operation);
  Collective user(MPIX_Allreduce_init, &own, &sum, 1, MPI_INT, operation, MPI_COMM_WORLD);
  refused([&] { return MPIX_Match(user.address(), MPI_STATUS_IGNORE); }, MPI_ERR_OP, {"not one of MPI's own"});
  EXPECT_TRUE(ok(MPI_Start(user.address()))) << "the MPI must still be able to start it";
  EXPECT_TRUE(ok(MPI_Wait(user.address(), MPI_STATUS_IGNORE)));
  user.free();
  MPI_Op_free(&operation);
}

// Predefined datatypes that streams cannot reduce. Not every MPI can reduce them either.
TEST_F(CollectiveCalls, DatatypesThatStreamsDoNotReduceAreRefusedByName) {
  double own[4] = {}, result[4] = {};
  for (const auto& [datatype, name] : {std::pair{MPI_REAL16, "MPI_REAL16"}, {MPI_COMPLEX32, "MPI_COMPLEX32"}}) {
    Collective sum;
    if (datatype != MPI_DATATYPE_NULL && MPIX_Allreduce_init(own, result, 1, datatype, MPI_SUM, MPI_COMM_WORLD,
                                                             MPI_INFO_NULL, sum.address()) == MPI_SUCCESS)
      refused([&] { return MPIX_Match(sum.address(), MPI_STATUS_IGNORE); }, MPI_ERR_TYPE, {name});
  }
}

// The groups: all processes but the last, and the last.
TEST_F(CollectiveCalls, OnInterCommunicatorsBelongToTheMpi) {
  if (ranks() == 1)
    GTEST_SKIP() << "needs two ranks";
  const bool is_last = rank() == ranks() - 1;
  MPI_Comm half = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, is_last ? 1 : 0, rank(), &half);
  ASSERT_TRUE(ok(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_last ? 0 : ranks() - 1, 7, &inter)));
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  const int others = is_last ? ranks() - 1 : 1;
  std::vector<int> counts(static_cast<size_t>(others), 1), displacements(counts.size());
  std::iota(displacements.begin(), displacements.end(), 0);
  int own = rank();
  std::vector<int> all(static_cast<size_t>(others), -1);
  {
    Collective gather(MPIX_Allgatherv_init, &own, 1, MPI_INT, all.data(), counts.data(), displacements.data(), MPI_INT,
                      inter);
    refused([&] { return MPIX_Match(gather.address(), MPI_STATUS_IGNORE); }, MPI_ERR_UNSUPPORTED_OPERATION,
            {"inter-communicator"});
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

TEST_F(CollectiveCalls, WithoutATopologyThereAreNoNeighbours) {
  int out[1] = {1}, in[1] = {2};
  const int counts[1] = {1}, displacements[1] = {0};
  const MPI_Aint bytes[1] = {0};
  const MPI_Datatype types[1] = {MPI_INT};
  MPI_Request request = MPI_REQUEST_NULL;
  const auto expect_refusal = [&](auto init, auto... arguments) {
    refused([&] { return init(arguments..., MPI_COMM_WORLD, MPI_INFO_NULL, &request); }, MPI_ERR_TOPOLOGY,
            {"no topology"});
  };
  expect_refusal(MPIX_Neighbor_alltoall_init, out, 1, MPI_INT, in, 1, MPI_INT);
  expect_refusal(MPIX_Neighbor_alltoallv_init, out, counts, displacements, MPI_INT, in, counts, displacements, MPI_INT);
  expect_refusal(MPIX_Neighbor_alltoallw_init, out, counts, bytes, types, in, counts, bytes, types);
  EXPECT_EQ(request, MPI_REQUEST_NULL);
}

// The root sends more than the others have room for: none of its messages matches.
TEST_F(CollectiveCalls, AFailedMatchLeaksNothing) {
  if (ranks() == 1)
    GTEST_SKIP() << "needs two ranks";
  constexpr int kCount = 33;
  std::vector<int> data(kCount);
  {
    const int count = rank() == 0 ? kCount : kCount - 1;
    Collective broadcast(MPIX_Bcast_init, data.data(), count, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 2; ++i) {
      refused([&] { return MPIX_Match(broadcast.address(), MPI_STATUS_IGNORE); }, MPI_ERR_TRUNCATE);
      int matched = 1;
      EXPECT_TRUE(ok(MPIX_Is_matched(broadcast.handle(), &matched)));
      EXPECT_EQ(matched, 0);
      refused([&] { return MPIX_Enqueue_start(queue, broadcast.address()); }, MPI_ERR_REQUEST, {"not matched"});
    }
  }
  Collective barrier(MPIX_Barrier_init, MPI_COMM_WORLD);
  barrier.match();
  barrier.run(queue);
}

TEST_F(CollectiveCalls, AreFreedOnlyAfterTheirWait) {
  Collective barrier(MPIX_Barrier_init, MPI_COMM_WORLD);
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(barrier.address(), &match)));
  EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  refused([&] { return MPIX_Match(barrier.address(), MPI_STATUS_IGNORE); }, MPI_ERR_REQUEST,
          {"MPI_Barrier of", "matched already"});
  barrier.start(queue);
  MPI_Request request = barrier.handle();
  refused([&] { return MPI_Request_free(&request); }, MPI_ERR_REQUEST, {"was not enqueued"});
  barrier.wait(queue);
  queue.wait();
}

}  // namespace
}  // namespace lanyard::api_test
