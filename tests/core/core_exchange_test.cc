// Exchanges: the cost of starts and waits, refused calls, and how exchanges end. Random
// orders: world_merged_test.cc. Failures: core_exchange_failures.cc. Thresholds:
// api/doc/protocol.md, P5 to P8.
#include "tests/core/core_exchange_test.h"

#include <array>
#include <utility>
#include <vector>

namespace lanyard {
namespace {

using core::Direction;

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
  EXPECT_TRUE(has(status, "match it without the hint")) << status.message();
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
  EXPECT_TRUE(has(status, "cannot count another start")) << status.message();
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
  EXPECT_TRUE(core::obstacle_to_exchanges(caps)->find("poor") != std::string::npos);
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

}  // namespace
}  // namespace lanyard
