// Exchanges through the API: hints, what is in force, and transfers of requests that start and complete together. Those
// with two sets: api_exchange_sets.cc.
#include <array>
#include <string>
#include <vector>

#include "tests/api/api_hints.h"
#include "tests/api/api_misuse.h"

namespace lanyard::api_test {
namespace {

struct Exchanges : Misuse {};

// ---- Hints

TEST_F(Exchanges, WhatIsInForceIsSaid) {
  Requests pair;
  add_pair(pair);
  const std::string strategy = queue.info()["strategy"];
  EXPECT_EQ(facts_of(*pair.at(0)),
            (Facts{{"lanyard_route", "mpi"}, {"lanyard_strategy", strategy}, {"lanyard_exchange", "none"}}));
  EXPECT_TRUE(ok(hint(*pair.at(0), "halo")));
  EXPECT_EQ(facts_of(*pair.at(0)), (Facts{{"lanyard_route", "mpi"},
                                          {"lanyard_strategy", strategy},
                                          {"lanyard_exchange", "none"},
                                          {"lanyard_exchange_why",
                                           "the request has not been given to a matching "
                                           "function"}}));
  EXPECT_EQ(facts_of(*pair.at(1)), (Facts{{"lanyard_route", "mpi"},
                                          {"lanyard_strategy", strategy},
                                          {"lanyard_ready", "no"},
                                          {"lanyard_exchange", "none"}}));
  EXPECT_TRUE(ok(hint(*pair.at(1), "halo")));
  pair.match();
  for (int i = 0; i < 2; ++i) {
    Facts facts = facts_of(*pair.at(i));
    EXPECT_EQ(facts["lanyard_route"], "card");
    EXPECT_EQ(facts["lanyard_ready"], "no");
    EXPECT_EQ(facts["lanyard_exchange"], "halo");
    EXPECT_EQ(facts.count("lanyard_exchange_why"), 0u);
    const int entries = (i == 0 || flags(queue) ? 2 : 1);
    EXPECT_EQ(facts["lanyard_entries"], std::to_string(entries))
        << "a clear-to-send, the flush and the done word; a write, and its flag";
  }
  verify_pair(pair);
}

TEST_F(Exchanges, ARouteIsTheCardOrAny) {
  Requests pair;
  add_pair(pair);
  EXPECT_TRUE(ok(hint(*pair.at(0), "card", "lanyard_route")));
  EXPECT_TRUE(ok(hint(*pair.at(1), "none", "lanyard_route")));
  refused([&] { return hint(*pair.at(0), "lane", "lanyard_route"); }, MPI_ERR_INFO_VALUE,
          {"lanyard_route is card or none, not lane"});
  pair.match();
  EXPECT_EQ(facts_of(*pair.at(0))["lanyard_route"], "card");
  verify_pair(pair);
}

TEST_F(Exchanges, OtherKeysAndNoNameChangeNothing) {
  Requests pair;
  add_pair(pair);
  hint_all(pair, "halo");
  EXPECT_TRUE(ok(hint(*pair.at(0), "whatever", "somebody_elses")));
  EXPECT_EQ(facts_of(*pair.at(0)).count("lanyard_exchange_why"), 1u) << "it has its name still";
  hint_all(pair, "none");
  pair.match();
  EXPECT_EQ(facts_of(*pair.at(0))["lanyard_exchange"], "none");
  EXPECT_EQ(facts_of(*pair.at(0)).count("lanyard_exchange_why"), 0u);
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, pair.at(i))));
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, pair.at(i))));
  queue.wait();
}

TEST_F(Exchanges, HintsThatAreRefusedChangeNothing) {
  Requests pair;
  add_pair(pair);
  MPI_Info info = MPI_INFO_NULL;
  refused([&] { return MPIX_Request_set_info(*pair.at(0), MPI_INFO_NULL); }, MPI_ERR_INFO);
  refused([&] { return hint(MPI_REQUEST_NULL, "halo"); }, MPI_ERR_REQUEST);
  refused([&] { return MPIX_Request_get_info(MPI_REQUEST_NULL, &info); }, MPI_ERR_REQUEST);
  refused([&] { return MPIX_Request_get_info(*pair.at(0), nullptr); }, MPI_ERR_ARG);
  EXPECT_EQ(info, MPI_INFO_NULL);
  MPI_Request barrier = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_SELF, &barrier);
  refused([&] { return hint(barrier, "halo"); }, MPI_ERR_REQUEST, {"not a persistent"});
  refused([&] { return MPIX_Request_get_info(barrier, &info); }, MPI_ERR_REQUEST, {"not a persistent"});
  MPI_Wait(&barrier, MPI_STATUS_IGNORE);
  hint_all(pair, "halo");
  pair.match();
  const Facts before = facts_of(*pair.at(0));
  refused([&] { return hint(*pair.at(0), "other"); }, MPI_ERR_REQUEST, {"is matched already", myself()});
  refused([&] { return hint(*pair.at(0), "none"); }, MPI_ERR_REQUEST);
  EXPECT_EQ(facts_of(*pair.at(0)), before);
  verify_pair(pair);
}

TEST_F(Exchanges, NoHintWhileTheMatchIsUnderWay) {
  Requests pair;
  add_pair(pair);
  MPI_Request match = MPI_REQUEST_NULL;
  EXPECT_TRUE(ok(MPIX_Imatch(pair.at(0), &match)));
  refused([&] { return hint(*pair.at(0), "halo"); }, MPI_ERR_REQUEST, {"is being matched"});
  EXPECT_TRUE(ok(hint(*pair.at(1), "halo"))) << "has not begun";
  EXPECT_TRUE(ok(MPIX_Match(pair.at(1), MPI_STATUS_IGNORE)));
  EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  verify_pair(pair);
}

// ---- Calls

TEST_F(Exchanges, PartOfOneIsRefused) {
  Requests pair;
  add_pair(pair);
  hint_all(pair, "halo");
  pair.match();
  refused([&] { return MPIX_Enqueue_start(queue, pair.at(0)); }, MPI_ERR_REQUEST,
          {"exchange \"halo\" (1 sends, 1 receives)", "1 of its 2 requests"});
  EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue, 2, pair.data())));
  queue.wait();
  refused([&] { return MPIX_Enqueue_wait(queue, pair.at(1)); }, MPI_ERR_REQUEST, {"1 of its 2 requests"});
  EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue, 2, pair.data())));
  queue.wait();
  verify_pair(pair);
}

TEST_F(Exchanges, TheFirstThatIsFreedEndsIt) {
  Requests pair, other;
  add_pair(pair);
  other.receive(in.data(), in.count(), MPI_PROC_NULL, 0);
  hint_all(pair, "halo");
  hint_all(other, "halo");
  std::array<MPI_Request, 3> all{*pair.at(0), *other.at(0), *pair.at(1)};
  EXPECT_TRUE(ok(MPIX_Matchall(3, all.data(), MPI_STATUSES_IGNORE)));
  EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue, 3, all.data())));
  EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue, 3, all.data())));
  queue.wait();
  other.free();
  EXPECT_EQ(facts_of(*pair.at(0))["lanyard_exchange"], "none");
  EXPECT_EQ(facts_of(*pair.at(0))["lanyard_exchange_why"], "a member of the exchange was freed");
  refused([&] { return MPIX_Enqueue_startall(queue, 2, pair.data()); }, MPI_ERR_REQUEST, {"has lost a member"});
}

// ---- Transfers

// Every rank with every rank, itself included, in one exchange each, or as single requests on the odd ranks.
struct Halo {
  Halo(Stream& stream, Queue& queue, bool merged) : stream(stream), queue(queue) {
    for (int peer = 0; peer < ranks(); ++peer) {
      in.emplace_back(40 + 3 * peer);
      out.emplace_back(40 + 3 * rank());
    }
    for (int peer = 0; peer < ranks(); ++peer) {
      requests.receive(in[peer].data(), in[peer].count(), peer, 5);
      requests.send(out[peer].data(), out[peer].count(), peer, 5);
    }
    if (merged)
      hint_all(requests, "halo");
    requests.match();
  }
  void run(int first, int iterations) {
    for (int i = first; i < first + iterations; ++i) {
      stream.launch([this, i] {
        for (int peer = 0; peer < ranks(); ++peer)
          out[peer].fill(seed_of(rank(), peer, i));
      });
      requests.start(queue);
      requests.wait(queue);
      stream.launch([this, i] {
        for (int peer = 0; peer < ranks(); ++peer) {
          mistakes += in[peer].mistakes(seed_of(peer, rank(), i));
          in[peer].poison();
        }
      });
    }
    queue.wait();
    EXPECT_EQ(mistakes, 0u);
  }
  Stream& stream;
  Queue& queue;
  std::vector<Buffer> in, out;
  Requests requests;
  size_t mistakes = 0;
};

TEST_F(Exchanges, AllWithAll) {
  Halo halo(stream, queue, true);
  const uint64_t before = queue.figure("entries_posted");
  const uint64_t triggers = queue.figure("triggers");
  halo.run(0, 50);
  const auto peers = static_cast<uint64_t>(ranks());
  EXPECT_EQ(queue.figure("entries_posted") - before, 50 * ((flags(queue) ? 3 : 2) * peers + 1));
  EXPECT_EQ(queue.figure("triggers") - triggers, 50u);
}

TEST_F(Exchanges, OneSideAlone) {
  Halo halo(stream, queue, rank() % 2 == 0);
  halo.run(0, 50);
}

TEST_F(Exchanges, OnOneQueueAfterAnother) {
  Stream second_stream;
  Queue second(second_stream);
  Halo halo(stream, queue, true);
  for (int turn = 0; turn < 6; ++turn) {
    Halo* at = &halo;
    for (int i = 0; i < ranks(); ++i)
      at->out[i].fill(seed_of(rank(), i, turn));
    halo.requests.start(turn % 2 == 0 ? queue : second);
    halo.requests.wait(turn % 2 == 0 ? queue : second);
    (turn % 2 == 0 ? queue : second).wait();
    for (int peer = 0; peer < ranks(); ++peer)
      EXPECT_EQ(at->in[peer].mistakes(seed_of(peer, rank(), turn)), 0u);
  }
}

}  // namespace
}  // namespace lanyard::api_test
