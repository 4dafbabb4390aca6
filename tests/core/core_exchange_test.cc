// Exchanges: the cost of starts and waits, refused calls, how exchanges end, and their failures
// (api/doc/protocol.md, P5 to P9 and P14). Random orders: world_merged_test.cc.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/core_manual_job.h"
#include "transport/core/exchange.h"

namespace lanyard {
namespace {

using core::Direction;

constexpr uint64_t kBytes = 64;

// Rank 0 has the exchange; the other sides are single requests of rank 1.
struct ExchangeTest : ::testing::Test {
  explicit ExchangeTest(const ManualJobOptions& options = {}) : job(2, options) {
    for (uint32_t rank : {0u, 1u})
      usage.push_back(job[rank].nic().usage().counters);
  }
  ManualJob::Rank& us() { return job[0]; }
  ManualJob::Rank& peer() { return job[1]; }
  Request* fresh(ManualJob::Rank& rank, core::Direction direction, int tag, bool ready = false, int to = -3) {
    core::Transfer made = rank.transfer(direction, to == -3 ? static_cast<int>(1 - rank.rank) : to, tag, kBytes);
    made.ready = ready;
    return rank.endpoint.new_request(made);
  }
  void begin(ManualJob::Rank& rank, const std::vector<Request*>& requests) {
    for (Request* request : requests)
      EXPECT_TRUE(works(rank.matcher.begin(*request)));
  }
  void make(const std::vector<Request*>& members) { EXPECT_TRUE(works(us().endpoint.make_exchange("halo", members))); }
  void add(size_t sends, size_t receives, bool ready) {
    for (size_t i = 0; i < sends; ++i) {
      ours.push_back(fresh(us(), Direction::kSend, static_cast<int>(i), ready));
      theirs.push_back(fresh(peer(), Direction::kReceive, static_cast<int>(i)));
    }
    for (size_t i = 0; i < receives; ++i) {
      ours.push_back(fresh(us(), Direction::kReceive, static_cast<int>(i)));
      theirs.push_back(fresh(peer(), Direction::kSend, static_cast<int>(i), ready));
    }
  }
  void build(size_t sends, size_t receives, bool ready = false) {
    add(sends, receives, ready);
    make(ours);
    match();
    for (const Request* request : ours)
      ASSERT_TRUE(request->matched());
    ASSERT_TRUE(exchange().bound);
  }
  void match() {
    begin(us(), ours);
    begin(peer(), theirs);
    job.match();
  }
  core::Exchange& exchange() { return *ours.front()->exchange; }
  void start_theirs() { EXPECT_TRUE(works(peer().queue->start(theirs))); }
  void wait_theirs() { EXPECT_TRUE(works(peer().queue->wait(theirs))); }
  void iteration() {
    EXPECT_TRUE(works(us().queue->start(ours)));
    start_theirs();
    EXPECT_TRUE(works(us().queue->wait(ours)));
    wait_theirs();
    expect_over();
  }
  // With sender flags each side first asks the other whether its sends succeeded.
  void expect_over() {
    job.run();
    for (int round = 0; round < 4 && !job.over(); ++round) {
      for (uint32_t rank : {0u, 1u})
        job[rank].matcher.progress();
      job.run();
    }
    EXPECT_TRUE(job.over());
  }
  // Keeps the rule of ready sends: each receive has started before its send starts.
  void run_ready_halo(uint64_t entries) {
    build(8, 8, true);
    const std::vector<Request*> receives(theirs.begin(), theirs.begin() + 8), sends(theirs.begin() + 8, theirs.end());
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(works(peer().queue->start(receives)));
      job.run();
      EXPECT_TRUE(works(us().queue->start(ours)));
      job.run();
      EXPECT_TRUE(works(peer().queue->start(sends)));
      EXPECT_TRUE(works(us().queue->wait(ours)));
      wait_theirs();
      expect_over();
    }
    EXPECT_EQ(us().endpoint.entries_posted(), 3 * entries);
    EXPECT_EQ(us().stream.enqueued.size(), 3 * 2u);
    free_all();
  }
  // Expects the refusal `why`, and that the call left nothing on the stream.
  void refused(const Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), Code::kInvalidState);
    EXPECT_TRUE(has(status, why));
    EXPECT_TRUE(us().stream.empty());
  }
  // Releases the rank's failed requests and returns them in order.
  std::vector<const Request*> release_failed(ManualJob::Rank& rank) {
    std::vector<const Request*> all;
    while (const Request* failed = rank.endpoint.take_failed(*rank.queue)) {
      all.push_back(failed);
      rank.endpoint.release(*rank.endpoint.find(failed->number));
    }
    EXPECT_EQ(rank.endpoint.take_unrecorded_failures(), 0u);
    return all;
  }
  void free(ManualJob::Rank& rank, Request* request) { EXPECT_TRUE(works(rank.matcher.free(*request))); }
  void free_all() { free_all_but(0); }
  // Expects that only the counters of `queues` additional queues are left.
  void free_all_but(uint32_t queues) {
    for (Request* request : ours)
      free(us(), request);
    for (Request* request : theirs)
      free(peer(), request);
    job.match();
    job.run();
    for (uint32_t rank : {0u, 1u})
      EXPECT_EQ(job[rank].nic().usage().counters, usage[rank] + (rank == 0 ? queues : 0));
  }

  ManualJob job;
  std::vector<uint32_t> usage;  // counters in use before the test
  std::vector<Request*> ours, theirs;
};

// ---- Cost

TEST_F(ExchangeTest, RegularHaloTakesSeventeenEntriesOneRingAndOneWait) {
  build(8, 8);
  iteration();
  EXPECT_EQ(us().endpoint.entries_posted(), 17u);
  EXPECT_EQ(us().stream.enqueued.size(), 2u) << "expected a ring and a wait";
  EXPECT_EQ(us().queue->figures().triggers, 1u);
  EXPECT_EQ(us().nic().usage().counters, usage[0] + 2);
  for (int i = 0; i < 5; ++i)
    iteration();
  EXPECT_EQ(us().endpoint.entries_posted(), 6 * 17u);
  EXPECT_EQ(us().queue->figures().starts, 6 * 16u);
  free_all();
}

TEST_F(ExchangeTest, ReadyHaloTakesNine) { run_ready_halo(9); }

struct ExchangeFlags : ExchangeTest {
  ExchangeFlags() : ExchangeTest({.strategy = core::Strategy::kSenderFlag}) {}
};

TEST_F(ExchangeFlags, RegularHaloTakesTwentyFiveEntriesOneRingAndOneWait) {
  build(8, 8);
  iteration();
  EXPECT_EQ(us().endpoint.entries_posted(), 25u) << "expected 8 writes, 8 flags, 8 clear-to-sends and the done word";
  EXPECT_EQ(us().stream.enqueued.size(), 2u) << "expected a ring and a wait";
  EXPECT_EQ(us().nic().usage().counters, usage[0] + 2 + 8) << "expected one more per send, for its writes";
  for (int i = 0; i < 3; ++i)
    iteration();
  EXPECT_EQ(us().endpoint.entries_posted(), 4 * 25u);
  EXPECT_EQ(us().nic().read(exchange().shared.completion).value().success, 4 * 16u);
  free_all();
}

TEST_F(ExchangeFlags, ReadyHaloTakesSeventeen) { run_ready_halo(17); }

TEST_F(ExchangeTest, OfReceivesFromReadySendsDoesNotRing) {
  build(0, 3, true);
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(us().stream.empty());
  EXPECT_TRUE(works(us().queue->wait(ours)));
  start_theirs();
  wait_theirs();
  job.run();
  EXPECT_TRUE(job.over());
  EXPECT_EQ(us().endpoint.entries_posted(), 1u);
  free_all();
}

// ---- Refused calls

TEST_F(ExchangeTest, PartOfItIsRefused) {
  build(2, 2);
  std::vector<Request*> part(ours.begin(), ours.end() - 1);
  refused(us().queue->start(part),
          "exchange \"halo\" (2 sends, 2 receives) is started and waited for by one call: 3 of "
          "its 4 requests stand in this one, not (recv, peer 1, tag 1, 64 B)");
  part.push_back(part.front());
  refused(us().queue->start(part), "twice");
  EXPECT_EQ(us().endpoint.entries_posted(), 0u);
  std::vector<Request*> backwards(ours.rbegin(), ours.rend());
  EXPECT_TRUE(works(us().queue->start(backwards)));
  start_theirs();
  job.run();
  part.pop_back();
  refused(us().queue->wait(part), "3 of its 4 requests");
  EXPECT_EQ(us().queue->unwaited(), 4u);
  EXPECT_TRUE(works(us().queue->wait(ours)));
  wait_theirs();
  job.run();
  iteration();
  free_all();
}

TEST_F(ExchangeTest, ExistsWhenAllAreMatched) {
  add(1, 1, false);
  make(ours);
  begin(us(), ours);
  begin(peer(), {theirs[0]});
  job.match();
  EXPECT_TRUE(ours[0]->matched());
  refused(us().queue->start(std::array{ours[0]}), "has a member that is not matched (recv, peer 1, tag 0, 64 B)");
  // A request whose match failed may match again and is still a member.
  us().matcher.withdraw(*ours[1]);
  begin(us(), {ours[1]});
  begin(peer(), {theirs[1]});
  job.match();
  iteration();
  free_all();
}

TEST_F(ExchangeTest, EndsWhenAMemberIsFreed) {
  build(2, 1);
  iteration();
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_EQ(us().endpoint.free_request(ours[0]).code(), Code::kInvalidState) << "no wait has been enqueued";
  EXPECT_TRUE(works(us().queue->wait(ours)));
  EXPECT_EQ(us().endpoint.free_request(ours[0]).code(), Code::kInvalidState) << "the exchange is in flight";
  start_theirs();
  wait_theirs();
  job.run();
  free(us(), ours[0]);
  job.match();
  ours.erase(ours.begin());
  refused(us().queue->start(ours), "has lost a member, which was freed");
  free_all();
}

TEST_F(ExchangeTest, GraphsAndKernelsDoNotStartIt) {
  build(1, 1);
  us().stream.capture = 1;
  const Status status = us().queue->start(ours);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_TRUE(has(status, "match it without the hint"));
  us().stream.capture = 0;
  EXPECT_EQ(us().queue->stand(ours).code(), Code::kUnsupported);
  iteration();
  free_all();
}

TEST_F(ExchangeTest, CountsAsFarAsItsLargestCounter) {
  build(3, 1);
  EXPECT_EQ(exchange().trigger_step(), 7u);
  EXPECT_EQ(exchange().messages, 4u);
  for (const Request* request : ours)
    EXPECT_EQ(request->most_starts, nic::kMaxSuccess / 7);
  iteration();
  ours[0]->starts = ours[0]->waits = ours[0]->most_starts;
  const Status status = us().queue->start(ours);
  EXPECT_TRUE(has(status, "cannot count another start"));
  ours[0]->starts = ours[0]->waits = 1;
  iteration();
  free_all();
}

TEST_F(ExchangeTest, MayChangeQueues) {
  build(2, 2);
  iteration();
  ManualStream stream;
  stream.calls = false;
  auto queue = std::move(core::Queue::create(us().endpoint, stream).value());
  EXPECT_TRUE(works(queue->start(ours)));
  refused(us().queue->wait(ours), "another queue");
  EXPECT_TRUE(works(queue->wait(ours)));
  refused(us().queue->start(ours), "on another queue and has not completed");
  start_theirs();
  wait_theirs();
  job.run();
  while (stream.step())
    job.run();
  EXPECT_TRUE(stream.empty());
  EXPECT_TRUE(queue->settled());
  for (int i = 0; i < 2; ++i)
    iteration();
  free_all_but(1);
}

// ---- NICs that cannot have exchanges

TEST(ExchangeObstacles, DependOnTheNic) {
  nic::Caps caps;
  caps.name = "poor";
  EXPECT_TRUE(has(*core::obstacle_to_exchanges(caps), "poor"));
  caps.counters_count_both = true;
  EXPECT_EQ(core::obstacle_to_exchanges(caps), std::nullopt);
}

struct FewCounters : ExchangeTest {
  FewCounters() : ExchangeTest({.limits = {.max_counters = 2}}) {}
};
TEST_F(FewCounters, AreRefusedAndNothingHasChanged) {
  add(1, 1, false);
  EXPECT_EQ(us().endpoint.make_exchange("halo", ours).code(), Code::kExhausted);
  EXPECT_EQ(ours[0]->exchange, nullptr);
  free_all();
}

// A receive from a member of an exchange needs one more counter, requested at the match. On failure
// both sides may match again.
struct NoTrigger : ExchangeTest {
  NoTrigger() : ExchangeTest({.limits = {.max_counters = 4}}) {}
};
TEST_F(NoTrigger, BothSidesFail) {
  add(1, 0, false);
  make(ours);
  std::vector<nic::CounterId> taken;
  for (uint32_t left = 4 - usage[1]; left > 1; --left)
    taken.push_back(peer().nic().open_counter().value());
  match();
  for (const Request* request : {ours[0], theirs[0]}) {
    EXPECT_EQ(request->state, Request::State::kFresh);
    EXPECT_EQ(request->match_error.code(), Code::kExhausted) << request->match_error.to_string();
  }
  EXPECT_EQ(peer().nic().usage().counters, usage[1] + taken.size());
  for (const nic::CounterId counter : taken)
    EXPECT_TRUE(works(peer().nic().close_counter(counter)));
  match();
  iteration();
  free_all();
}

// ---- Failures: which requests learn of them, and what the stream does

struct ExchangeFailures : ExchangeTest {
  std::string stall() { return us().queue->explain_stall(); }
  void start_one(size_t which) { EXPECT_TRUE(works(peer().queue->start(std::array{theirs[which]}))); }
  void deliver_news() {
    job.run();
    for (uint32_t rank : {0u, 1u})
      job[rank].matcher.progress();
    job.match();
    job.run();
  }
};

TEST_F(ExchangeFailures, AFreedReceiverFailsTheWholeExchange) {
  build(3, 2);
  iteration();
  free(peer(), theirs[1]);  // the other side of a regular send; our side does not know yet
  theirs.erase(theirs.begin() + 1);
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  start_theirs();
  wait_theirs();
  deliver_news();
  EXPECT_FALSE(us().stream.empty());
  EXPECT_FALSE(us().queue->settled());
  EXPECT_EQ(us().endpoint.free_request(ours[0]).code(), Code::kInvalidState);
  EXPECT_EQ(release_failed(us()), std::vector<const Request*>{ours[1]});
  job.run();
  EXPECT_TRUE(us().stream.empty());
  EXPECT_TRUE(us().queue->settled());
  EXPECT_TRUE(release_failed(us()).empty()) << "a request is reported twice";
  EXPECT_EQ(us().queue->start(ours).code(), Code::kFailed);
  EXPECT_EQ(us().endpoint.explain_failure(*ours[0]),
            "its exchange \"halo\" has failed with (send, peer 1, tag 1, 64 B)");
  EXPECT_EQ(us().endpoint.explain_failure(*ours[1]), "rank 1 has freed its request");
  // Nothing was sent to the other requests, which would wait forever: they must fail too.
  deliver_news();
  EXPECT_EQ(release_failed(peer()).size(), 2u) << "only the receives fail; the sends have completed";
  job.run();
  EXPECT_TRUE(peer().stream.empty());
  EXPECT_EQ(peer().queue->start(std::array{theirs[3]}).code(), Code::kFailed) << "its receive has failed";
  free_all();
}

// ---- Stall reports

TEST_F(ExchangeFailures, NamesTheMissingClearToSends) {
  build(3, 1);
  iteration();
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  EXPECT_EQ(stall(),
            "the exchange \"halo\" (3 sends, 1 receives) waits for iteration 2: done word 1 of 2 <- counter of "
            "messages 4 of 8 <- this stream has not reached start 2");
  job.run();
  start_one(0);
  start_one(3);
  job.run();
  EXPECT_EQ(stall(),
            "the exchange \"halo\" (3 sends, 1 receives) waits for iteration 2: done word 1 of 2 <- counter of "
            "messages 5 of 8 <- clear-to-send 2 from rank 1 has not arrived (send, peer 1, tag 1, 64 B) <- "
            "clear-to-send 2 from rank 1 has not arrived (send, peer 1, tag 2, 64 B)");
  const core::Queue::Explanation why = us().queue->explain(*ours[0], 2);
  EXPECT_EQ(why.about, ours[1]);
  EXPECT_EQ(why.missing, core::Queue::Missing::kPeer);
  EXPECT_EQ(us().queue->head().request, ours[0]);
  EXPECT_EQ(us().queue->progress_of(*ours[3], 2), core::Queue::Progress::kReached);
  EXPECT_EQ(us().queue->progress_of(*ours[3], 3), core::Queue::Progress::kNotStarted);
}

TEST_F(ExchangeFailures, CountsTheMissingMessages) {
  build(1, 2);
  iteration();
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  start_one(0);
  start_one(2);
  job.run();
  EXPECT_EQ(stall(),
            "the exchange \"halo\" (1 sends, 2 receives) waits for iteration 2: done word 1 of 2 <- counter of "
            "messages 5 of 6 <- 1 missing, of the messages from rank 1, rank 1 and the acknowledgements of rank 1");
  EXPECT_EQ(us().queue->explain(*ours[0], 2).about, ours[1]);
  // For a member, the report names the member itself.
  EXPECT_EQ(us().queue->explain_part(*ours[0], 2).missing, core::Queue::Missing::kAnswer);
  EXPECT_EQ(us().queue->explain_part(*ours[2], 2).about, ours[2]);
}

}  // namespace
}  // namespace lanyard
