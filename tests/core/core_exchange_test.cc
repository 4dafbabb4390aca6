// Exchanges by hand: what their starts and waits cost, which calls are refused, and how they end. Random ones, in
// random orders, are in core_random_test.cc. What becomes of failures: core_exchange_failures.cc.
#include "tests/core/core_exchange_test.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace lanyard {
namespace {

using core::Direction;

// ---- What it costs

TEST_F(ExchangeTest, RegularHaloTakesSeventeenEntriesOneRingAndOneWait) {
  build(8, 8);
  iteration();
  EXPECT_EQ(us().endpoint.entries_posted(), 17u);
  EXPECT_EQ(us().stream.enqueued.size(), 2u) << "a ring and a wait";
  EXPECT_EQ(us().queue->figures().triggers, 1u);
  EXPECT_EQ(us().nic().usage().counters, usage[0] + 2);
  for (int i = 0; i < 5; ++i)
    iteration();
  EXPECT_EQ(us().endpoint.entries_posted(), 6 * 17u);
  EXPECT_EQ(us().queue->figures().starts, 6 * 16u);
  free_all();
}

// A call that has the members in the order in which they were merged is made at once, another member by member.
TEST_F(ExchangeTest, CallsInItsOrderAndInOthersMayTakeTurns) {
  build(3, 3);
  const std::vector<Request*> merged = ours;
  for (const bool in_order : {true, true, true, false, true, false, false, true, true}) {
    ours = merged;
    if (!in_order)
      std::reverse(ours.begin(), ours.end());
    iteration();
  }
  EXPECT_EQ(us().endpoint.entries_posted(), 9 * 7u);
  EXPECT_EQ(us().queue->figures().starts, 9 * 6u);
  EXPECT_EQ(us().queue->figures().waits, 9 * 6u);
  EXPECT_EQ(us().queue->figures().bytes, 9 * 3 * kBytes);
  EXPECT_EQ(us().queue->figures().triggers, 9u);
  EXPECT_EQ(us().queue->unwaited(), 0u);
  EXPECT_EQ(us().queue->epoch_entries(), 0u);
  free_all();
}

// Each member is under way again, though a call for the whole looks at one alone.
TEST_F(ExchangeTest, AllOfItAreUnderWayAgain) {
  build(2, 2);
  iteration();
  ASSERT_TRUE(us().queue->settled());
  for (const Request* member : ours)
    EXPECT_EQ(member->listed, nullptr);
  EXPECT_TRUE(works(us().queue->start(ours)));
  for (const Request* member : ours)
    EXPECT_EQ(member->listed, us().queue.get());
  start_theirs();
  EXPECT_TRUE(works(us().queue->wait(ours)));
  wait_theirs();
  job.run();
  EXPECT_TRUE(job.over());
  free_all();
}

TEST_F(ExchangeTest, ReadyHaloTakesNine) {
  build(8, 8, true);
  // As their users have promised: each side's receives have started when the other sends.
  std::vector<Request*> receives(theirs.begin(), theirs.begin() + 8), sends(theirs.begin() + 8, theirs.end());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(works(peer().queue->start(receives)));
    job.run();
    EXPECT_TRUE(works(us().queue->start(ours)));
    job.run();
    EXPECT_TRUE(works(peer().queue->start(sends)));
    EXPECT_TRUE(works(us().queue->wait(ours)));
    wait_theirs();
    job.run();
    EXPECT_TRUE(job.over());
  }
  EXPECT_EQ(us().endpoint.entries_posted(), 3 * 9u);
  EXPECT_EQ(us().stream.enqueued.size(), 3 * 2u);
  free_all();
}

TEST_F(ExchangeTest, OfReceivesFromReadySendsRingsNothing) {
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

TEST_F(ExchangeTest, OfNobodyIsDoneAtOnce) {
  ours = {fresh(us(), Direction::kSend, 0, false, core::kNobody),
          fresh(us(), Direction::kReceive, 0, false, core::kNobody)};
  make(ours);
  match();
  iteration();
  EXPECT_EQ(us().endpoint.entries_posted(), 0u);
  EXPECT_TRUE(us().stream.enqueued.empty());
  refused(us().queue->start(std::array{ours[0]}), "1 of its 2 requests");
  free_all();
}

// ---- Which calls are refused

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

TEST_F(ExchangeTest, OthersMayStandBesideIt) {
  add(2, 2, false);
  Request* single = fresh(us(), Direction::kSend, 9);
  std::vector<Request*> second{fresh(us(), Direction::kReceive, 8), fresh(us(), Direction::kSend, 8)};
  make(ours);
  make(second);
  ours.insert(ours.begin() + 1, single);
  ours.insert(ours.begin() + 3, second.begin(), second.end());
  theirs.push_back(fresh(peer(), Direction::kReceive, 9));
  theirs.push_back(fresh(peer(), Direction::kSend, 8));
  theirs.push_back(fresh(peer(), Direction::kReceive, 8));
  match();
  for (int i = 0; i < 3; ++i)
    iteration();
  EXPECT_EQ(us().endpoint.entries_posted(), 3 * (5 + 3 + 2u));
  std::vector<Request*> part = ours;
  std::erase(part, second[1]);
  refused(us().queue->start(part), "1 of its 2 requests");
  free_all();
}

TEST_F(ExchangeTest, IsOneOnceAllAreMatched) {
  add(1, 1, false);
  make(ours);
  begin(us(), ours);
  begin(peer(), {theirs[0]});
  job.match();
  EXPECT_TRUE(ours[0]->matched());
  refused(us().queue->start(std::array{ours[0]}), "has a member that is not matched (recv, peer 1, tag 0, 64 B)");
  // Whose match failed matches again, and is a member still.
  us().matcher.withdraw(*ours[1]);
  begin(us(), {ours[1]});
  begin(peer(), {theirs[1]});
  job.match();
  iteration();
  free_all();
}

TEST_F(ExchangeTest, EndsWithTheFirstThatIsFreed) {
  build(2, 1);
  iteration();
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_EQ(us().endpoint.free_request(ours[0]).code(), Code::kInvalidState) << "not waited for";
  EXPECT_TRUE(works(us().queue->wait(ours)));
  EXPECT_EQ(us().endpoint.free_request(ours[0]).code(), Code::kInvalidState) << "under way";
  start_theirs();
  wait_theirs();
  job.run();
  free(us(), ours[0]);
  job.match();
  ours.erase(ours.begin());
  refused(us().queue->start(ours), "has lost a member, which was freed");
  free_all();
}

TEST_F(ExchangeTest, IsNeverOneWhereAMemberIsFreedBeforeItsMatch) {
  add(1, 1, false);
  make(ours);
  begin(us(), {ours[0]});
  begin(peer(), {theirs[0]});
  job.match();
  free(us(), ours[1]);
  ours.pop_back();
  refused(us().queue->start(ours), "has lost a member, which was freed");
  free(peer(), theirs[1]);
  theirs.pop_back();
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

// Its bell is rung by another stream then, and by another kind of doorbell.
TEST_F(ExchangeTest, GoesOnOnAnotherQueue) {
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

// ---- Who can have none

TEST(ExchangeObstacles, AreOfTheCard) {
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

// A receive whose sender merges needs a counter more, which it is known to need once they meet.
struct NoTrigger : ExchangeTest {
  NoTrigger() : ExchangeTest({.limits = {.max_counters = 4}}) {
    add(1, 0, false);
    make(ours);
    for (uint32_t left = 4 - usage[1]; left > 1; --left)
      taken.push_back(peer().nic().open_counter().value());
  }
  void give_back() {
    for (const nic::CounterId counter : taken)
      EXPECT_TRUE(works(peer().nic().close_counter(counter)));
    taken.clear();
  }
  std::vector<nic::CounterId> taken;
};
TEST_F(NoTrigger, TheCallIsRefusedAndTheOfferStays) {
  begin(us(), ours);
  job.match();
  const Status status = peer().matcher.begin(*theirs[0]);
  EXPECT_EQ(status.code(), Code::kExhausted) << status.to_string();
  EXPECT_EQ(theirs[0]->state, Request::State::kFresh);
  EXPECT_EQ(ours[0]->state, Request::State::kMatching);
  give_back();
  begin(peer(), theirs);
  job.match();
  iteration();
  free_all();
}
TEST_F(NoTrigger, OfAPostedReceiveBothSidesAreToldAndMayMatchAgain) {
  match();
  for (const Request* request : {ours[0], theirs[0]}) {
    EXPECT_EQ(request->state, Request::State::kFresh);
    EXPECT_EQ(request->match_error.code(), Code::kExhausted) << request->match_error.to_string();
  }
  EXPECT_EQ(peer().nic().usage().counters, usage[1] + taken.size());
  give_back();
  match();
  iteration();
  free_all();
}

// ---- Ready sends

// All that is promised is that the other's last wait has passed: so two exchanges in turn need nothing else.
TEST_F(ExchangeTest, ReadyMessagesMayComeBeforeTheirStart) {
  Mail mail(2);
  ModelFabric fabric(2);
  Process receiver(fabric.nic(0), 0, mail, {.overflow_thread = false, .check_ready_sends = true});
  Process sender(fabric.nic(1), 1, mail, {.overflow_thread = false});
  ManualStream in, out;
  auto receiving = std::move(core::Queue::create(receiver.endpoint, in).value());
  auto sending = std::move(core::Queue::create(sender.endpoint, out).value());
  const auto run = [&] {
    do {
      fabric.quiesce();
    } while (in.step() || out.step());
  };
  std::vector<Request*> members{receiver.endpoint.new_request(receiver.transfer(Direction::kReceive, 1, 1, kBytes)),
                                receiver.endpoint.new_request(receiver.transfer(Direction::kReceive, 1, 2, kBytes))};
  EXPECT_TRUE(works(receiver.endpoint.make_exchange("halo", members)));
  for (Request* member : members)
    EXPECT_TRUE(works(receiver.matcher.begin(*member)));
  std::vector<Request*> sends{&sender.send(0, 1, kBytes, true), &sender.send(0, 2, kBytes, true)};
  receiver.matcher.progress();
  sender.matcher.progress();
  for (uint64_t i = 1; i <= 3; ++i) {
    fill(*sends[0], i);
    EXPECT_TRUE(works(sending->start(sends)));
    EXPECT_TRUE(works(sending->wait(sends)));
    run();
    EXPECT_TRUE(works(receiving->start(members)));
    EXPECT_TRUE(works(receiving->wait(members)));
    run();
    EXPECT_TRUE(in.empty() && out.empty());
    EXPECT_TRUE(holds(*members[0], i));
  }
}

}  // namespace
}  // namespace lanyard
