// Exchanges with two sets: the cost of a start, refused starts, clear-to-sends that are not
// implied, and how exchanges end. Random orders: world_merged_test.cc. Thresholds:
// api/doc/protocol.md, P10 to P13.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/core_manual_job.h"
#include "transport/core/exchange.h"

namespace lanyard {
namespace {

using core::Clearance;
using core::Direction;
using Set = std::vector<Request*>;

constexpr uint64_t kBytes = 64;

struct SetsTest : ::testing::Test {
  explicit SetsTest(uint32_t ranks = 2, const ManualJobOptions& options = {}) : job(ranks, options), sides(ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank)
      usage.push_back(job[rank].nic().usage());
  }
  // Adds `count` messages to each of the sets `of`.
  void connect(uint32_t from, uint32_t to, size_t count = 1, bool ready = false, std::vector<size_t> of = {0, 1}) {
    for (const size_t set : of)
      for (size_t i = 0; i < count; ++i, ++tag)
        add(from, set, to, set, ready);
  }
  void add(uint32_t from, size_t from_set, uint32_t to, size_t to_set, bool ready = false) {
    core::Transfer sent = job[from].transfer(Direction::kSend, static_cast<int>(to), tag, kBytes);
    sent.ready = ready;
    sides[from][from_set].push_back(job[from].endpoint.new_request(sent));
    sides[to][to_set].push_back(
        job[to].endpoint.new_request(job[to].transfer(Direction::kReceive, static_cast<int>(from), tag, kBytes)));
    ++tag;
  }
  void make(uint32_t rank) {
    EXPECT_TRUE(works(job[rank].endpoint.make_exchange("halo", sides[rank][0], sides[rank][1])));
  }
  void begin(uint32_t rank) {
    for (const Set& set : sides[rank])
      for (Request* request : set)
        EXPECT_TRUE(works(job[rank].matcher.begin(*request)));
  }
  void match() {
    for (uint32_t rank = 0; rank < job.size(); ++rank)
      begin(rank);
    job.match();
  }
  // Gives all ranks two sets.
  void build() {
    for (uint32_t rank = 0; rank < job.size(); ++rank)
      make(rank);
    match();
  }
  void build_both(size_t each_way, bool ready = false) {
    connect(0, 1, each_way, ready);
    connect(1, 0, each_way, ready);
    build();
  }
  Set& set(uint32_t rank, uint64_t iteration) { return sides[rank][(iteration + 1) % 2]; }  // iterations count from 1
  static uint64_t seed(const Request& request, uint64_t iteration) {
    return 1000 * iteration + static_cast<uint64_t>(request.transfer.tag);
  }
  void start(uint32_t rank, uint64_t iteration) {
    job[rank].stream.launch([this, rank, iteration] {
      for (Request* request : set(rank, iteration))
        if (request->transfer.direction == Direction::kSend)
          fill(*request, seed(*request, iteration));
    });
    EXPECT_TRUE(works(job[rank].queue->start(set(rank, iteration))));
  }
  void wait_unread(uint32_t rank, uint64_t iteration) {
    EXPECT_TRUE(works(job[rank].queue->wait(set(rank, iteration))));
  }
  void wait(uint32_t rank, uint64_t iteration) {
    wait_unread(rank, iteration);
    job[rank].stream.launch([this, rank, iteration] {
      for (Request* request : set(rank, iteration))
        if (request->transfer.direction == Direction::kReceive) {
          EXPECT_TRUE(holds(*request, seed(*request, iteration))) << "rank " << rank << ", iteration " << iteration;
          clear(*request);
        }
    });
  }
  void run(uint64_t first, uint64_t last) {
    for (uint32_t rank = 0; rank < job.size(); ++rank)
      for (uint64_t i = first; i <= last; ++i) {
        start(rank, i);
        wait(rank, i);
      }
    job.run();
    EXPECT_TRUE(job.over());
  }
  void refused(uint32_t rank, const Set& requests, const std::string& why, Code code = Code::kInvalidState) {
    const uint64_t posted = job[rank].endpoint.entries_posted();
    const size_t items = job[rank].stream.size();
    const Status status = job[rank].queue->start(requests);
    EXPECT_EQ(status.code(), code);
    EXPECT_TRUE(has(status, why));
    EXPECT_EQ(job[rank].endpoint.entries_posted(), posted);
    EXPECT_EQ(job[rank].stream.size(), items);
  }
  size_t count(uint32_t rank, Clearance clearance) {
    size_t found = 0;
    for (const Set& set : sides[rank])
      for (const Request* request : set)
        found += request->clearance == clearance ? 1 : 0;
    return found;
  }
  bool has_two_sets(uint32_t rank) { return sides[rank][0].front()->exchange->other != nullptr; }
  void deliver_news() {
    for (int i = 0; i < 3; ++i) {
      job.run();
      for (uint32_t rank = 0; rank < job.size(); ++rank)
        job[rank].matcher.progress();
      job.match();
    }
  }
  std::vector<const Request*> release_failed(uint32_t rank) {
    std::vector<const Request*> all;
    while (const Request* failed = job[rank].endpoint.take_failed(*job[rank].queue)) {
      all.push_back(failed);
      job[rank].endpoint.release(*job[rank].endpoint.find(failed->number));
    }
    return all;
  }
  void free(uint32_t rank, Request* request) { EXPECT_TRUE(works(job[rank].matcher.free(*request))); }
  void free_set(uint32_t rank, size_t which) {
    for (Request* request : std::exchange(sides[rank][which], {}))
      free(rank, request);
  }
  void free_all() {
    for (uint32_t rank = 0; rank < job.size(); ++rank)
      for (size_t which : {0, 1})
        free_set(rank, which);
    job.match();
    job.run();
    for (uint32_t rank = 0; rank < job.size(); ++rank) {
      EXPECT_EQ(job[rank].nic().usage().counters, usage[rank].counters);
      EXPECT_LE(job[rank].nic().usage().regions, usage[rank].regions + 1) << "more than the slab of words is left";
      EXPECT_EQ(job[rank].endpoint.unclosed(), 0u);
    }
  }

  ManualJob job;
  std::vector<nic::Usage> usage;  // before the test
  std::vector<std::array<Set, 2>> sides;
  int tag = 0;
};

// ---- Cost

TEST_F(SetsTest, AHaloTakesNineEntriesOneRingAndOneWait) {
  build_both(8);
  EXPECT_EQ(count(0, Clearance::kImplied), 32u);
  EXPECT_EQ(job[0].nic().usage().counters, usage[0].counters + 4);
  run(1, 6);
  for (uint32_t rank : {0u, 1u}) {
    EXPECT_EQ(job[rank].endpoint.entries_posted(), 6 * 9u);
    EXPECT_EQ(job[rank].queue->figures().triggers, 6u);
    EXPECT_EQ(job[rank].stream.enqueued.size(), 6 * 2u) << "expected a ring and a wait per start";
  }
  free_all();
}

struct FlagSets : SetsTest {
  FlagSets() : SetsTest(2, {.strategy = core::Strategy::kSenderFlag}) {}
};
TEST_F(FlagSets, TakeSeventeenEntriesAndNoClearToSend) {
  build_both(8);
  for (uint64_t i = 1; i <= 6; ++i)
    for (uint32_t rank : {0u, 1u}) {
      start(rank, i);
      wait(rank, i);
    }
  job.run();
  EXPECT_TRUE(job[0].stream.empty() && job[1].stream.empty());
  EXPECT_EQ(job[0].endpoint.entries_posted(), 6 * 17u);
  EXPECT_EQ(job[0].stream.enqueued.size(), 6 * 2u);
  for (int round = 0; round < 4 && !job.over(); ++round)
    deliver_news();
  EXPECT_TRUE(job.over());
}

// ---- The sets take turns

TEST_F(SetsTest, AStartOfTheWrongSetIsRefused) {
  build_both(2);
  refused(0, sides[0][1],
          "exchange \"halo\", set 1 (2 sends, 2 receives) cannot be started: it is the other set's turn");
  start(0, 1);
  refused(0, sides[0][1], "the wait for the other set's last start was not enqueued");
  refused(0, sides[0][0], "the wait for the request's previous start was not enqueued");
  wait(0, 1);
  refused(0, sides[0][0], "set 0 (2 sends, 2 receives) cannot be started: it is the other set's turn");
  start(0, 2);
  wait(0, 2);
  refused(0, sides[0][1], "it is the other set's turn");
  for (uint64_t i : {1u, 2u}) {
    start(1, i);
    wait(1, i);
  }
  run(3, 6);
  free_all();
}

TEST_F(SetsTest, PartOfASetIsRefused) {
  build_both(2);
  refused(0, {sides[0][0][0]}, "1 of its 4 requests");
  refused(0, {sides[0][0][0], sides[0][0][1], sides[0][1][2], sides[0][1][3]}, "2 of its 4 requests");
  run(1, 2);
  free_all();
}

TEST_F(SetsTest, MayChangeQueuesWhenTheOtherSetHasCompleted) {
  build_both(1);
  ManualStream stream;
  auto queue = std::move(core::Queue::create(job[0].endpoint, stream).value());
  ++usage[0].counters;
  start(0, 1);
  wait(0, 1);
  const Status status = queue->start(sides[0][1]);
  EXPECT_EQ(status.code(), Code::kInvalidState);
  EXPECT_TRUE(has(status, "the other set's last start is on another queue and has not completed"));
  EXPECT_TRUE(stream.empty());
  start(1, 1);
  wait(1, 1);
  job.run();
  // The same while a message of the other set is not unpacked yet.
  uint64_t unpacked = 0;
  Request& receive = *sides[0][0].back();
  ASSERT_NE(&receive, receive.exchange->lead);
  receive.moved.address = &unpacked;
  EXPECT_EQ(queue->start(sides[0][1]).code(), Code::kInvalidState);
  unpacked = 1;
  EXPECT_TRUE(works(queue->start(sides[0][1])));
  receive.moved = {};
  EXPECT_TRUE(works(queue->wait(sides[0][1])));
  start(1, 2);
  for (Request* request : sides[0][1])
    fill(*request, seed(*request, 2));
  wait(1, 2);
  while (stream.step())
    job.run();
  job.run();
  EXPECT_TRUE(stream.empty());
  EXPECT_TRUE(queue->settled());
  run(3, 4);
  free_all();
}

// ---- Clear-to-sends that are not implied

TEST_F(SetsTest, AHintOfOneSideIsIgnored) {
  connect(0, 1, 8);
  connect(1, 0, 8);
  make(0);
  match();
  EXPECT_EQ(count(0, Clearance::kOneSided), 32u);
  EXPECT_FALSE(has_two_sets(0));
  EXPECT_EQ(core::why_not_implied(*sides[0][1][0]), "rank 1 has no exchange with two sets there");
  EXPECT_EQ(sides[0][0][0]->exchange->describe(), "exchange \"halo\" (8 sends, 8 receives)");
  run(1, 4);
  EXPECT_EQ(job[0].endpoint.entries_posted(), 4 * 17u);
  free_set(0, 0);
  EXPECT_FALSE(sides[0][1][0]->exchange->ended) << "the hint of one side makes two exchanges";
  free_set(1, 0);
  free_all();
}

TEST_F(SetsTest, NothingIsImpliedWithoutMessagesBack) {
  connect(0, 1, 2);
  build();
  EXPECT_EQ(count(0, Clearance::kOneWay), 4u);
  EXPECT_EQ(count(1, Clearance::kOneWay), 4u);
  EXPECT_FALSE(has_two_sets(0) || has_two_sets(1));
  EXPECT_EQ(core::why_not_implied(*sides[0][0][0]),
            "in the other set nothing comes from rank 1, or not between the same exchanges");
  EXPECT_EQ(core::why_not_implied(*sides[1][0][0]),
            "in the other set nothing goes to rank 0, or not between the same exchanges");
  run(1, 5);
  free_all();
}

// Set 0 sends one way and set 1 the other: no message of a set answers a message of the same set.
TEST_F(SetsTest, AnswersMustComeInTheOtherSet) {
  connect(0, 1, 1, false, {0});
  connect(1, 0, 1, false, {1});
  build();
  EXPECT_EQ(count(0, Clearance::kImplied), 2u) << "each set's message proves that the other set's buffer is free";
  run(1, 6);
  free_all();
}

TEST_F(SetsTest, NothingIsImpliedBetweenUnlikeSets) {
  add(0, 0, 1, 1);
  add(0, 1, 1, 0);
  add(1, 0, 0, 1);
  add(1, 1, 0, 0);
  build();
  EXPECT_EQ(count(0, Clearance::kCrossed), 4u);
  EXPECT_FALSE(has_two_sets(0) || has_two_sets(1));
  EXPECT_EQ(core::why_not_implied(*sides[0][0][0]), "rank 1 has its request in the other set");
  free_all();
}

struct ThreeRanks : SetsTest {
  ThreeRanks() : SetsTest(3) {}
};

// ---- How it begins and ends

struct FewForSets : SetsTest {
  FewForSets() : SetsTest(2, {.limits = {.max_counters = 4}}) {}
};
TEST_F(FewForSets, IsRefusedAndNothingHasChanged) {
  connect(0, 1);
  EXPECT_EQ(job[0].endpoint.make_exchange("halo", sides[0][0], sides[0][1]).code(), Code::kExhausted);
  EXPECT_EQ(sides[0][0][0]->exchange, nullptr);
  EXPECT_EQ(sides[0][1][0]->exchange, nullptr);
  free_all();
}

TEST_F(SetsTest, StartsWhenBothSetsAreMatched) {
  connect(0, 1);
  connect(1, 0);
  make(0);
  make(1);
  for (Request* request : sides[0][0])
    EXPECT_TRUE(works(job[0].matcher.begin(*request)));
  begin(1);
  job.match();
  EXPECT_TRUE(sides[0][0][0]->matched() && sides[0][0][1]->matched());
  refused(0, sides[0][0], "has a member of its other set that is not matched (send, peer 1, tag 2, 64 B)");
  for (Request* request : sides[0][1])
    EXPECT_TRUE(works(job[0].matcher.begin(*request)));
  job.match();
  run(1, 4);
  free_all();
}

TEST_F(SetsTest, EndsWhenAMemberOfEitherSetIsFreed) {
  build_both(2);
  run(1, 3);
  free(0, sides[0][0].front());
  sides[0][0].erase(sides[0][0].begin());
  job.match();
  refused(0, sides[0][0], "has lost a member, which was freed");
  refused(0, sides[0][1], "has lost a member, which was freed");
  free_all();
}

TEST_F(SetsTest, AReceiveLearnsOfItsSendersEnd) {
  connect(0, 1, 1, false, {0});
  connect(1, 0, 1, false, {1});
  build();
  run(1, 2);
  free_set(0, 0);
  job.match();
  refused(1, sides[1][0], "rank 0 has freed its request", Code::kFailed);
  free_all();
}

// ---- Failures

struct SetsFailures : ThreeRanks {
  // All ranks exchange with each other, rank 0 also with MPI_PROC_NULL.
  void build_triangle() {
    for (uint32_t rank : {0u, 1u, 2u}) {
      connect(rank, (rank + 1) % 3);
      connect((rank + 1) % 3, rank);
    }
    for (Set& set : sides[0])
      set.insert(set.begin(),
                 job[0].endpoint.new_request(job[0].transfer(Direction::kSend, core::kNobody, 99, kBytes)));
    build();
    run(1, 4);
  }
  Request* receive_of(uint32_t rank, size_t which, uint32_t from) {
    for (Request* request : sides[rank][which])
      if (request->transfer.direction == Direction::kReceive && request->matched_nic == from)
        return request;
    return nullptr;
  }
};

TEST_F(SetsFailures, AStartIsRefusedAfterAFailureInTheOtherSet) {
  build_triangle();
  start(0, 5);
  wait_unread(0, 5);
  job[0].endpoint.end_peer(*receive_of(0, 0, 1), 4, true);
  refused(0, sides[0][1], "an operation of the other set of the exchange \"halo\", set 1 (3 sends, 2 receives) failed",
          Code::kFailed);
  EXPECT_EQ(release_failed(0).size(), 1u);
  job.run();
  EXPECT_TRUE(job[0].stream.empty());
}

// ---- Stall reports

TEST_F(SetsTest, TheStallReportNamesTheSet) {
  build_both(1);
  run(1, 4);
  start(0, 5);
  wait_unread(0, 5);
  EXPECT_EQ(job[0].queue->explain_stall(),
            "the exchange \"halo\", set 0 (1 sends, 1 receives) waits for iteration 3: done word 2 of 3 <- counter of "
            "messages 4 of 6 <- this stream has not reached start 3");
  job.run();
  EXPECT_EQ(job[0].queue->explain_stall(),
            "the exchange \"halo\", set 0 (1 sends, 1 receives) waits for iteration 3: done word 2 of 3 <- counter of "
            "messages 5 of 6 <- 1 missing, of the messages from rank 1 and the acknowledgements of rank 1");
  EXPECT_EQ(job[0].queue->explain_part(*sides[0][0][0], 3).missing, core::Queue::Missing::kAnswer);
  EXPECT_EQ(job[0].queue->explain_part(*sides[0][0][1], 3).about, sides[0][0][1]);
  start(1, 5);
  wait_unread(1, 5);
  job.run();
  EXPECT_TRUE(job.over());
  free_all();
}

}  // namespace
}  // namespace lanyard
