// Exchanges with two sets through the API: whose turn it is, what one side alone wants, and what is in force.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/api/api_hints.h"
#include "tests/api/api_misuse.h"

namespace lanyard::api_test {
namespace {

constexpr const char* kSet = "lanyard_exchange_set";
constexpr const char* kWhy = "lanyard_exchange_set_why";

void hint_set(Requests& requests, int first, int count, const char* set) {
  for (int i = first; i < first + count; ++i)
    EXPECT_TRUE(ok(hint(*requests.at(i), set, kSet)));
}

struct TwoSets : Misuse {
  // Two pairs to oneself: requests 0 and 1 are set 0, 2 and 3 set 1.
  void add_sets(Requests& requests) {
    add_pair(requests, 3);
    requests.receive(second_in.data(), second_in.count(), rank(), 4);
    requests.send(out.data(), out.count(), rank(), 4);
    hint_all(requests, "halo");
    hint_set(requests, 0, 2, "0");
    hint_set(requests, 2, 2, "1");
  }
  int start_set(Requests& requests, int set) { return MPIX_Enqueue_startall(queue, 2, requests.at(2 * set)); }
  int wait_set(Requests& requests, int set) { return MPIX_Enqueue_waitall(queue, 2, requests.at(2 * set)); }
  void verify_sets(Requests& requests, int first_set, int iterations) {
    for (int i = 0; i < iterations; ++i) {
      const int set = (first_set + i) % 2;
      Buffer& received = set == 0 ? in : second_in;
      out.fill(seed_of(rank(), rank(), i));
      received.poison();
      EXPECT_TRUE(ok(start_set(requests, set)));
      EXPECT_TRUE(ok(wait_set(requests, set)));
      queue.wait();
      EXPECT_EQ(received.mistakes(seed_of(rank(), rank(), i)), 0u) << "iteration " << i;
    }
  }
  Buffer second_in{40};
};

// ---- Hints

TEST_F(TwoSets, WhatIsInForceIsSaid) {
  Requests requests;
  add_sets(requests);
  EXPECT_EQ(facts_of(*requests.at(0))[kSet], "none");
  EXPECT_EQ(facts_of(*requests.at(0))[kWhy], "the request has not been given to a matching function");
  requests.match();
  for (int i = 0; i < 4; ++i) {
    Facts facts = facts_of(*requests.at(i));
    EXPECT_EQ(facts["lanyard_exchange"], "halo");
    EXPECT_EQ(facts[kSet], i < 2 ? "0" : "1");
    EXPECT_EQ(facts.count(kWhy), 0u) << facts[kWhy];
    EXPECT_EQ(facts["lanyard_entries"], i % 2 == 1 && flags(queue) ? "2" : "1")
        << "the flush and the done word; a write, and its flag";
  }
  verify_sets(requests, 0, 6);
}

TEST_F(TwoSets, TheLastHintBeforeTheMatchCounts) {
  Requests requests;
  add_sets(requests);
  EXPECT_TRUE(ok(hint(*requests.at(0), "whatever", "somebody_elses")));
  EXPECT_TRUE(ok(hint(*requests.at(0), "1", kSet)));
  EXPECT_TRUE(ok(hint(*requests.at(0), "0", kSet)));
  EXPECT_TRUE(ok(hint(*requests.at(1), "other"))) << "a request is of one exchange";
  EXPECT_TRUE(ok(hint(*requests.at(1), "halo")));
  requests.match();
  verify_sets(requests, 0, 4);
}

TEST_F(TwoSets, HintsThatAreRefusedChangeNothing) {
  Requests requests;
  add_sets(requests);
  for (const char* value : {"2", "first", "01", "-1"})
    refused([&] { return hint(*requests.at(0), value, kSet); }, MPI_ERR_INFO_VALUE, {"0, 1 or none", value});
  {
    MPI_Info both = MPI_INFO_NULL;
    MPI_Info_create(&both);
    MPI_Info_set(both, "lanyard_exchange", "other");
    MPI_Info_set(both, kSet, "2");
    refused([&] { return MPIX_Request_set_info(*requests.at(0), both); }, MPI_ERR_INFO_VALUE);
    MPI_Info_free(&both);
  }
  requests.match();
  const Facts before = facts_of(*requests.at(0));
  refused([&] { return hint(*requests.at(0), "1", kSet); }, MPI_ERR_REQUEST, {"is matched already", myself()});
  refused([&] { return hint(*requests.at(0), "none", kSet); }, MPI_ERR_REQUEST);
  EXPECT_EQ(facts_of(*requests.at(0)), before);
  verify_sets(requests, 0, 4);
}

TEST_F(TwoSets, ASetWithoutAnExchangeIsNone) {
  Requests requests;
  add_pair(requests);
  hint_set(requests, 0, 2, "0");
  requests.match();
  EXPECT_EQ(facts_of(*requests.at(0))[kSet], "none");
  EXPECT_EQ(facts_of(*requests.at(0))[kWhy], "the request has no lanyard_exchange");
  verify_pair(requests);
}

// Both must be given to one matching call: these are two exchanges, of one set each.
TEST_F(TwoSets, SetsThatAreMatchedByTwoCallsAreTwoExchanges) {
  Requests requests;
  add_sets(requests);
  EXPECT_TRUE(ok(MPIX_Matchall(2, requests.at(0), MPI_STATUSES_IGNORE)));
  EXPECT_TRUE(ok(MPIX_Matchall(2, requests.at(2), MPI_STATUSES_IGNORE)));
  EXPECT_EQ(facts_of(*requests.at(3))["lanyard_exchange"], "halo");
  EXPECT_EQ(facts_of(*requests.at(3))[kSet], "none");
  EXPECT_EQ(facts_of(*requests.at(3))[kWhy], "no request of the other set was given to the same matching function");
  verify_sets(requests, 1, 1);
  verify_sets(requests, 1, 3);
}

// ---- Calls

TEST_F(TwoSets, StartsGoToThemInTurn) {
  Requests requests;
  add_sets(requests);
  requests.match();
  refused([&] { return start_set(requests, 1); }, MPI_ERR_REQUEST,
          {"exchange \"halo\", set 1 (1 sends, 1 receives)", "it is the other set's turn"});
  refused([&] { return MPIX_Enqueue_startall(queue, 4, requests.data()); }, MPI_ERR_REQUEST, {"turn"});
  EXPECT_TRUE(ok(start_set(requests, 0)));
  queue.wait();
  refused([&] { return start_set(requests, 1); }, MPI_ERR_REQUEST, {"the other set's last start was not enqueued"});
  EXPECT_TRUE(ok(wait_set(requests, 0)));
  queue.wait();
  refused([&] { return start_set(requests, 0); }, MPI_ERR_REQUEST, {"it is the other set's turn"});
  verify_sets(requests, 1, 5);
}

TEST_F(TwoSets, PartOfASetIsRefused) {
  Requests requests;
  add_sets(requests);
  requests.match();
  refused([&] { return MPIX_Enqueue_start(queue, requests.at(0)); }, MPI_ERR_REQUEST, {"1 of its 2 requests"});
  refused([&] { return MPIX_Enqueue_startall(queue, 2, requests.at(1)); }, MPI_ERR_REQUEST, {"1 of its 2 requests"});
  EXPECT_TRUE(ok(start_set(requests, 0)));
  queue.wait();
  refused([&] { return MPIX_Enqueue_wait(queue, requests.at(1)); }, MPI_ERR_REQUEST, {"1 of its 2 requests"});
  refused([&] { return wait_set(requests, 1); }, MPI_ERR_REQUEST, {"no start to wait for"});
  EXPECT_TRUE(ok(wait_set(requests, 0)));
  queue.wait();
  verify_sets(requests, 1, 4);
}

TEST_F(TwoSets, TheFirstThatIsFreedEndsBoth) {
  Requests requests;
  add_sets(requests);
  requests.match();
  verify_sets(requests, 0, 2);
  EXPECT_TRUE(ok(MPI_Request_free(requests.at(0))));
  EXPECT_EQ(facts_of(*requests.at(3))[kSet], "none");
  EXPECT_EQ(facts_of(*requests.at(3))[kWhy], "a member of the exchange was freed");
  refused([&] { return MPIX_Enqueue_start(queue, requests.at(1)); }, MPI_ERR_REQUEST, {"has lost a member"});
  refused([&] { return start_set(requests, 1); }, MPI_ERR_REQUEST, {"has lost a member"});
}

// ---- Transfers

// Every rank with every rank, itself included, in two sets; merged where the rank does as `merges` says.
struct Halo {
  struct Set {
    std::vector<Buffer> in;
    int first = 0;  // request
  };
  Halo(Stream& stream, Queue& queue, bool hints) : stream(stream), queue(queue) {
    for (int peer = 0; peer < ranks(); ++peer)
      out.emplace_back(40 + 3 * rank());
    for (Set& set : sets) {
      const int tag = &set == &sets[0] ? 5 : 6;
      set.first = requests.count();
      for (int peer = 0; peer < ranks(); ++peer)
        set.in.emplace_back(40 + 3 * peer);
      for (int peer = 0; peer < ranks(); ++peer) {
        requests.receive(set.in[peer].data(), set.in[peer].count(), peer, tag);
        requests.send(out[peer].data(), out[peer].count(), peer, tag);
      }
      if (hints)
        hint_set(requests, set.first, count(), tag == 5 ? "0" : "1");
    }
    if (hints)
      hint_all(requests, "halo");
    requests.match();
  }
  int count() const { return 2 * ranks(); }
  // The host does not wait between.
  void run(int first, int iterations) {
    for (int i = first; i < first + iterations; ++i) {
      Set& set = sets[i % 2];
      stream.launch([this, i] {
        for (int peer = 0; peer < ranks(); ++peer)
          out[peer].fill(seed_of(rank(), peer, i));
      });
      EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue, count(), requests.at(set.first))));
      EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue, count(), requests.at(set.first))));
      stream.launch([this, &set, i] {
        for (int peer = 0; peer < ranks(); ++peer) {
          mistakes += set.in[peer].mistakes(seed_of(peer, rank(), i));
          set.in[peer].poison();
        }
      });
    }
    queue.wait();
    EXPECT_EQ(mistakes, 0u);
  }
  std::string set_of_send_to(int peer, const char* key = kSet) {
    return facts_of(*requests.at(sets[1].first + 2 * peer + 1))[key];
  }
  Stream& stream;
  Queue& queue;
  std::vector<Buffer> out;
  std::array<Set, 2> sets;
  Requests requests;
  size_t mistakes = 0;
};

TEST_F(TwoSets, AllWithAll) {
  Halo halo(stream, queue, true);
  const uint64_t before = queue.figure("entries_posted");
  const uint64_t triggers = queue.figure("triggers");
  halo.run(0, 200);
  EXPECT_EQ(queue.figure("entries_posted") - before,
            200 * ((flags(queue) ? 2 : 1) * static_cast<uint64_t>(ranks()) + 1));
  EXPECT_EQ(queue.figure("triggers") - triggers, 200u);
  EXPECT_EQ(halo.set_of_send_to(ranks() - 1), "1");
}

// The hint of one side is ignored, with each of those that did not give it.
TEST_F(TwoSets, OneSideAlone) {
  const bool hints = rank() % 2 == 0;
  Halo halo(stream, queue, hints);
  halo.run(0, 100);
  if (!hints)
    return;
  for (int peer = 0; peer < ranks(); ++peer) {
    EXPECT_EQ(halo.set_of_send_to(peer), "1") << "with itself it has two sets";
    EXPECT_EQ(halo.set_of_send_to(peer, kWhy),
              peer % 2 == 0 ? "" : "rank " + std::to_string(peer) + " has no exchange with two sets there");
  }
}

// A ring that goes round one way: nobody hears from whom it sends to.
TEST_F(TwoSets, OneWay) {
  if (ranks() < 3)
    return;
  Requests requests;
  const int next = (rank() + 1) % ranks(), last = (rank() + ranks() - 1) % ranks();
  for (const int tag : {7, 8}) {
    requests.receive((tag == 7 ? in : second_in).data(), in.count(), last, tag);
    requests.send(out.data(), out.count(), next, tag);
  }
  hint_all(requests, "ring");
  hint_set(requests, 0, 2, "0");
  hint_set(requests, 2, 2, "1");
  requests.match();
  Facts facts = facts_of(*requests.at(1));
  EXPECT_EQ(facts["lanyard_exchange"], "ring");
  EXPECT_EQ(facts[kSet], "none");
  EXPECT_EQ(facts[kWhy],
            "in the other set nothing comes from rank " + std::to_string(next) + ", or not between the same exchanges");
  for (int i = 0; i < 20; ++i) {
    out.fill(seed_of(rank(), next, i));
    EXPECT_TRUE(ok(start_set(requests, i % 2)));
    EXPECT_TRUE(ok(wait_set(requests, i % 2)));
    queue.wait();
    EXPECT_EQ((i % 2 == 0 ? in : second_in).mistakes(seed_of(last, rank(), i)), 0u) << i;
  }
}

}  // namespace
}  // namespace lanyard::api_test
