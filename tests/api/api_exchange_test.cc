// Requests that start together: exchanges with one set and with two, their hints, effect, turns and
// messages; and sets of requests that kernels start and wait for.
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Exchanges : MisuseOfPair {};

TEST_F(Exchanges, HintsInEffectAreReported) {
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
        << "expected a clear-to-send, a flush and a done word; or a write, with sender flags also a flag";
  }
  verify_pair(pair);
}

TEST_F(Exchanges, ARouteIsTheCardOrAny) {
  EXPECT_TRUE(ok(hint(*pair.at(0), "card", "lanyard_route")));
  EXPECT_TRUE(ok(hint(*pair.at(1), "none", "lanyard_route")));
  refused([&] { return hint(*pair.at(0), "lane", "lanyard_route"); }, MPI_ERR_INFO_VALUE,
          {"lanyard_route must be card or none, not lane"});
  pair.match();
  EXPECT_EQ(facts_of(*pair.at(0))["lanyard_route"], "card");
  verify_pair(pair);
}

TEST_F(Exchanges, OtherKeysAndNoNameChangeNothing) {
  hint_all(pair, "halo");
  EXPECT_TRUE(ok(hint(*pair.at(0), "whatever", "somebody_elses")));
  EXPECT_EQ(facts_of(*pair.at(0)).count("lanyard_exchange_why"), 1u) << "the request has lost its exchange's name";
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

TEST_F(Exchanges, RefusedHintsChangeNothing) {
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

TEST_F(Exchanges, NoHintWhileTheMatchIsInProgress) {
  MPI_Request match = MPI_REQUEST_NULL;
  EXPECT_TRUE(ok(MPIX_Imatch(pair.at(0), &match)));
  refused([&] { return hint(*pair.at(0), "halo"); }, MPI_ERR_REQUEST, {"is being matched"});
  EXPECT_TRUE(ok(hint(*pair.at(1), "halo"))) << "its match has not begun";
  EXPECT_TRUE(ok(MPIX_Match(pair.at(1), MPI_STATUS_IGNORE)));
  EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  verify_pair(pair);
}

TEST_F(Exchanges, PartOfOneIsRefused) {
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

TEST_F(Exchanges, FreeingAMemberEndsIt) {
  Requests other;
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

// ---- Two sets

constexpr const char* kSet = "lanyard_exchange_set";
constexpr const char* kWhy = "lanyard_exchange_set_why";

void hint_set(Requests& requests, int first, int count, const char* set) {
  for (int i = first; i < first + count; ++i)
    EXPECT_TRUE(ok(hint(*requests.at(i), set, kSet)));
}

struct TwoSets : Misuse {
  // Two pairs from the rank to itself: requests 0 and 1 are set 0, requests 2 and 3 set 1.
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

TEST_F(TwoSets, HintsInEffectAreReported) {
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
        << "expected a flush and a done word; or a write, with sender flags also a flag";
  }
  verify_sets(requests, 0, 6);
}

TEST_F(TwoSets, RefusedHintsChangeNothing) {
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

TEST_F(TwoSets, ASetWithoutAnExchangeIsIgnored) {
  Requests requests;
  add_pair(requests);
  hint_set(requests, 0, 2, "0");
  requests.match();
  EXPECT_EQ(facts_of(*requests.at(0))[kSet], "none");
  EXPECT_EQ(facts_of(*requests.at(0))[kWhy], "the request has no lanyard_exchange");
  verify_pair(requests);
}

// One matching call must get both sets. Here two calls make two exchanges with one set each.
TEST_F(TwoSets, SetsMatchedByTwoCallsAreTwoExchanges) {
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

TEST_F(TwoSets, StartsUseTheSetsInTurn) {
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

// ---- Messages

// Every rank sends to every rank, also to itself. The requests form an exchange if this rank hints.
struct Halo {
  Halo(Misuse& test, size_t set_count, bool hints) : stream(test.stream), queue(test.queue), sets(set_count) {
    std::vector<MPI_Request> all;
    for (Messages& set : sets) {
      const bool is_first = &set == &sets[0];
      for (int peer = 0; peer < ranks(); ++peer)
        set.add(static_cast<size_t>(40 + 3 * (rank() + peer)), peer, is_first ? 5 : 6);
      if (hints && set_count == 2)
        hint_set(set.requests, 0, set.requests.count(), is_first ? "0" : "1");
      if (hints)
        hint_all(set.requests, "halo");
      all.insert(all.end(), set.requests.data(), set.requests.data() + set.requests.count());
    }
    EXPECT_TRUE(ok(MPIX_Matchall(static_cast<int>(all.size()), all.data(), MPI_STATUSES_IGNORE)));
  }
  // The host does not wait between iterations.
  void run(int iterations) {
    for (int i = 0; i < iterations; ++i)
      sets[static_cast<size_t>(i) % sets.size()].run(stream, queue, i);
    queue.wait();
    for (const Messages& set : sets)
      EXPECT_EQ(set.wrong, 0u);
  }
  // The same, and expects that a start takes `entries` entries and one ring.
  void run(int iterations, uint64_t entries) {
    const Enqueued before(queue);
    run(iterations);
    EXPECT_EQ(Enqueued(queue).entries_posted - before.entries_posted, iterations * entries);
    EXPECT_EQ(Enqueued(queue).triggers - before.triggers, static_cast<uint64_t>(iterations));
  }
  std::string set_of_send_to(int peer, const char* key = kSet) { return facts_of(*sets[1].send(peer))[key]; }
  Stream& stream;
  Queue& queue;
  std::vector<Messages> sets;
};

TEST_F(Exchanges, AllWithAll) {
  Halo halo(*this, 1, true);
  halo.run(50, (flags(queue) ? 3u : 2u) * static_cast<uint64_t>(ranks()) + 1);
}

TEST_F(Exchanges, OneSideAlone) {
  Halo halo(*this, 1, rank() % 2 == 0);
  halo.run(50);
}

TEST_F(TwoSets, AllWithAll) {
  Halo halo(*this, 2, true);
  halo.run(200, (flags(queue) ? 2u : 1u) * static_cast<uint64_t>(ranks()) + 1);
  EXPECT_EQ(halo.set_of_send_to(ranks() - 1), "1");
}

// A hint given by one side only is ignored for the messages with that peer.
TEST_F(TwoSets, OneSideAlone) {
  const bool hints = rank() % 2 == 0;
  Halo halo(*this, 2, hints);
  halo.run(100);
  if (!hints)
    return;
  for (int peer = 0; peer < ranks(); ++peer) {
    EXPECT_EQ(halo.set_of_send_to(peer), "1") << "messages to the rank itself must have two sets";
    EXPECT_EQ(halo.set_of_send_to(peer, kWhy),
              peer % 2 == 0 ? "" : "rank " + std::to_string(peer) + " has no exchange with two sets there");
  }
}

// ---- Sets of device requests. Host threads stand in for kernels, with the same header.

class DeviceRequests : public ::testing::Test {
 protected:
  DeviceRequests() : out(1000), in(1000), queue(stream) {
    requests.send(out.data(), out.count(), partner(), 5);
    requests.receive(in.data(), in.count(), partner(), 5);
    requests.match();
    in.poison();
  }
  void create() {
    ASSERT_TRUE(ok(MPIX_Device_requests_create(queue, requests.count(), requests.data(), &set)));
    ASSERT_NE(set, nullptr);
  }
  void run(int from, int to) {
    std::thread kernel([&] {
      for (int i = from; i < to; ++i) {
        out.fill(seed_of(rank(), partner(), i));
        MPIX_Device_startall(set);
        if (i % 2 == 0) {
          MPIX_Device_waitall(set);
        } else {
          while (MPIX_Device_testall(set) == 0)
            std::this_thread::yield();
        }
        wrong += in.mistakes(seed_of(partner(), rank(), i));
        in.poison();
      }
    });
    kernel.join();
  }

  Stream stream;
  Buffer out, in;
  Queue queue;
  Requests requests;
  MPIX_Device_requests* set = nullptr;
  size_t wrong = 0;
};

TEST_F(DeviceRequests, AKernelStartsAndWaitsByItself) {
  create();
  run(0, 300);
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(ok(MPIX_Queue_wait(queue)));
  EXPECT_TRUE(ok(MPIX_Device_requests_free(queue, &set)));
  EXPECT_EQ(set, nullptr);
  // Ordinary requests again, then another set.
  verify_exchange(queue, stream);
  stream.launch([&] { out.fill(seed_of(rank(), partner(), 300)); });
  requests.run(queue);
  EXPECT_EQ(in.mistakes(seed_of(partner(), rank(), 300)), 0u);
  in.poison();
  create();
  run(301, 320);
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(ok(MPIX_Device_requests_free(queue, &set)));
}

// Two sends are in one set. Only the first has completed when the set is freed.
TEST_F(DeviceRequests, ARefusedFreeLeavesTheWholeSet) {
  Buffer from[] = {Buffer(1000), Buffer(1000)}, to[] = {Buffer(1000), Buffer(1000)};
  Requests pairs;
  for (int i = 0; i < 2; ++i)
    pairs.send(from[i].data(), from[i].count(), partner(), 11 + i);
  for (int i = 0; i < 2; ++i)
    pairs.receive(to[i].data(), to[i].count(), partner(), 11 + i);
  pairs.match();
  MPIX_Device_requests *sends = nullptr, *receives[2] = {};
  ASSERT_TRUE(ok(MPIX_Device_requests_create(queue, 2, pairs.data(), &sends)));
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(ok(MPIX_Device_requests_create(queue, 1, pairs.at(2 + i), &receives[i])));
  const auto start_sends = [&](int iteration) {
    for (int i = 0; i < 2; ++i) {
      from[i].fill(seed_of(rank(), partner(), iteration, i));
      to[i].poison();
    }
    MPIX_Device_startall(sends);
  };
  const auto receive = [&](int iteration, int i) {
    MPIX_Device_startall(receives[i]);
    MPIX_Device_waitall(receives[i]);
    EXPECT_EQ(to[i].mistakes(seed_of(partner(), rank(), iteration, i)), 0u);
  };
  start_sends(0);
  receive(0, 0);
  while (!lanyard_are_complete(sends, 0, 1))
    std::this_thread::yield();
  MPIX_Device_requests* const before = sends;
  for (int again = 0; again < 2; ++again) {
    EXPECT_TRUE(fails(MPIX_Device_requests_free(queue, &sends), MPIX_ERR_BUSY, {"tag 12"}));
    EXPECT_EQ(sends, before);
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, pairs.at(i)), MPI_ERR_REQUEST, {"kernel"}));
  }
  MPIX_Queue handle = queue.handle();
  EXPECT_TRUE(fails(MPIX_Queue_free(&handle), MPIX_ERR_BUSY, {"sets"}));
  MPI_Request copy = pairs[0];
  MPIX_Device_requests* another = nullptr;
  EXPECT_TRUE(fails(MPIX_Enqueue_wait(queue, &copy), MPI_ERR_REQUEST, {"kernel"}));
  EXPECT_TRUE(fails(MPIX_Device_requests_create(queue, 1, &copy, &another), MPI_ERR_REQUEST));
  EXPECT_TRUE(fails(MPI_Request_free(&copy), MPI_ERR_REQUEST, {"set"}));
  MPI_Barrier(MPI_COMM_WORLD);  // until here no rank starts its receive of the second send
  receive(0, 1);
  MPIX_Device_waitall(sends);
  // The refused calls have not changed the set.
  start_sends(1);
  for (int i = 0; i < 2; ++i)
    receive(1, i);
  MPIX_Device_waitall(sends);
  EXPECT_TRUE(ok(MPIX_Device_requests_free(queue, &sends)));
  for (auto& set : receives)
    EXPECT_TRUE(ok(MPIX_Device_requests_free(queue, &set)));
  EXPECT_EQ(sends, nullptr);
}

TEST_F(DeviceRequests, BadArguments) {
  MPIX_Device_requests* made = nullptr;
  EXPECT_TRUE(fails(MPIX_Device_requests_create(MPIX_QUEUE_NULL, 1, requests.data(), &made), MPIX_ERR_QUEUE));
  EXPECT_TRUE(fails(MPIX_Device_requests_create(queue, 1, requests.data(), nullptr), MPI_ERR_ARG));
  MPI_Request none = MPI_REQUEST_NULL;
  EXPECT_TRUE(fails(MPIX_Device_requests_create(queue, 1, &none, &made), MPI_ERR_REQUEST));
  EXPECT_EQ(made, nullptr);
  EXPECT_TRUE(fails(MPIX_Device_requests_free(queue, &made), MPI_ERR_ARG));
  MPIX_Device_requests stranger{};
  made = &stranger;
  EXPECT_TRUE(fails(MPIX_Device_requests_free(queue, &made), MPI_ERR_ARG));
}

}  // namespace
}  // namespace lanyard::api_test
