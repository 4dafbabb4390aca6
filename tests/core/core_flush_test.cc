// Strategy D: a receiver's NIC fetches from itself before it tells the stream. By hand, call by call: what starts cost,
// what waits for what, and what becomes of messages that fail. Random ones, on cards that count what is not in memory
// yet, are in the deterministic engine.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/core/core_exchange_test.h"

namespace lanyard {
namespace {

using core::Direction;
using core::Strategy;
using nicsim::PacketKind;
using Transit = ModelFabric::Transit;

bool is_flush(const Transit& transit) {
  return transit.from == transit.to && transit.packet.kind == PacketKind::kAtomic &&
         transit.packet.atomic == nic::AtomicKind::kFetchSum;
}

struct Flush : ::testing::Test {
  ManualJob job{2, {.limits = {.max_message_bytes = kBytes}, .strategy = Strategy::kLoopbackFlush}};
};

TEST_F(Flush, AReceiveTakesOneEntryMore) {
  for (const bool ready : {false, true}) {
    Pair pair(job, 0, 1, kBytes, ready, ready ? 8 : 7);
    const uint64_t sent = job[0].endpoint.entries_posted(), received = job[1].endpoint.entries_posted();
    for (uint64_t i = 1; i <= 3; ++i) {
      fill(pair.send, i);
      pair.start_receive();
      job.run();
      pair.start_send();
      pair.wait_receive();
      pair.wait_send();
      job.run();
      EXPECT_TRUE(job.over());
      EXPECT_TRUE(holds(pair.receive, i));
      EXPECT_EQ(job[1].nic().read(pair.receive.flushed).value(), (nic::CounterValue{i, 0}));
    }
    EXPECT_EQ(job[0].endpoint.entries_posted(), sent + 3 * 2u);
    EXPECT_EQ(job[1].endpoint.entries_posted(), received + (ready ? 3 * 2u : 3 * 3u));
  }
}

// The stream goes on when the fetch has been answered, of which there is one for all pieces.
TEST_F(Flush, AWaitIsForTheFetch) {
  Pair pair(job, 0, 1, 3 * kBytes);
  job.fabric.held = is_flush;
  for (uint64_t i = 1; i <= 2; ++i) {
    pair.start_receive();
    pair.start_send();
    pair.wait_receive();
    pair.wait_send();
    job.run();
    EXPECT_TRUE(job[0].stream.empty()) << "a sender flushes nothing";
    EXPECT_EQ(job[1].nic().read(pair.receive.completion).value().success, 3 * i);
    EXPECT_EQ(job[1].stream.size(), 1u);
    EXPECT_EQ(job.fabric.under_way(), 1u);
    const std::string why = job[1].queue->explain_stall();
    EXPECT_NE(why.find("<- the NIC's fetch from itself has not completed"), std::string::npos) << why;
    job.fabric.held = nullptr;
    job.run();
    EXPECT_TRUE(job.over());
    job.fabric.held = is_flush;
  }
}

// It hangs on the count of all pieces, and not on the start.
TEST_F(Flush, AFetchIsForAllPieces) {
  Pair pair(job, 0, 1, 3 * kBytes);
  size_t let_pass = 0;
  job.fabric.held = [&](const Transit& transit) {
    return transit.packet.kind == PacketKind::kWrite && transit.packet.offset / kBytes >= let_pass;
  };
  pair.start_receive();
  pair.start_send();
  pair.wait_receive();
  for (; let_pass < 3; ++let_pass) {
    job.run();
    EXPECT_EQ(job[1].nic().read(pair.receive.completion).value().success, let_pass);
    EXPECT_EQ(job[1].nic().read(pair.receive.flushed).value().success, 0u);
  }
  pair.wait_send();
  job.run();
  EXPECT_TRUE(job.over());
}

// Who sends to itself flushes, too.
TEST_F(Flush, ToOneself) {
  Pair pair(job, 1, 1, kBytes);
  job.fabric.held = is_flush;
  fill(pair.send, 5);
  pair.start_receive();
  pair.start_send();
  pair.wait_send();
  pair.wait_receive();
  job.run();
  EXPECT_EQ(job[1].stream.size(), 1u);
  job.fabric.held = nullptr;
  job.run();
  EXPECT_TRUE(job.over());
  EXPECT_TRUE(holds(pair.receive, 5));
}

// What was not counted is not flushed, and its stream waits until it is told.
TEST_F(Flush, AMessageThatFailsTellsNobody) {
  Pair pair(job, 0, 1, kBytes);
  pair.start_receive();
  pair.start_send();
  pair.wait_send();
  pair.wait_receive();
  EXPECT_TRUE(works(job[1].nic().deregister_region(pair.receive.buffer)));
  pair.receive.buffer = {};
  job.run();
  EXPECT_EQ(job[1].nic().read(pair.receive.flushed).value(), (nic::CounterValue{0, 0}));
  EXPECT_EQ(job[1].stream.size(), 1u);
  EXPECT_EQ(job[0].endpoint.take_failed(*job[0].queue), &pair.send);
  for (uint32_t rank : {0u, 1u, 0u})
    job[rank].matcher.progress();
  job.match();
  EXPECT_EQ(job[1].endpoint.take_failed(*job[1].queue), &pair.receive);
  job[1].endpoint.release(pair.receive);
  job.run();
  EXPECT_TRUE(job[1].stream.empty());
  EXPECT_EQ(job[1].nic().free_entries(), job[1].nic().caps().deferred_depth) << "flush and done word are taken back";
}

// With fewer entries than a start needs the overflow runs fetches itself.
TEST(FlushOverflow, OneEntryIsEnough) {
  ManualJob job(2, {.limits = {.deferred_depth = 1}, .strategy = Strategy::kLoopbackFlush});
  Pair pair(job, 0, 1, kBytes);
  for (uint64_t i = 1; i <= 5; ++i) {
    fill(pair.send, i);
    pair.start_receive();
    pair.start_send();
    pair.wait_receive();
    pair.wait_send();
    job.run();
    ASSERT_TRUE(job.over());
    EXPECT_TRUE(holds(pair.receive, i));
  }
  EXPECT_EQ(job[1].nic().read(pair.receive.flushed).value(), (nic::CounterValue{5, 0}));
}

TEST(FlushObstacle, TakesFetchingAtomics) {
  nic::Caps caps;
  EXPECT_STREQ(core::obstacle(Strategy::kLoopbackFlush, caps), "has no fetching atomics");
  caps.fetching_atomics = true;
  EXPECT_EQ(core::obstacle(Strategy::kLoopbackFlush, caps), nullptr);
  EXPECT_EQ(core::strategy_for(caps), Strategy::kSenderFlag) << "it must be asked for";
}

// ---- Exchanges

struct FlushedExchange : ExchangeTest {
  FlushedExchange() : ExchangeTest({.strategy = Strategy::kLoopbackFlush}) {}
};

TEST_F(FlushedExchange, RegularHaloTakesEighteenEntries) {
  build(8, 8);
  for (int i = 0; i < 3; ++i)
    iteration();
  EXPECT_EQ(us().endpoint.entries_posted(), 3 * 18u) << "8 writes, 8 clear-to-sends, the flush and the done word";
  EXPECT_EQ(us().stream.enqueued.size(), 3 * 2u) << "a ring and a wait";
  EXPECT_EQ(us().nic().usage().counters, usage[0] + 3);
  EXPECT_EQ(us().nic().read(exchange().shared.flushed).value(), (nic::CounterValue{3, 0}));
  free_all();
}

TEST_F(FlushedExchange, ReadyHaloTakesTen) {
  build(8, 8, true);
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
  EXPECT_EQ(us().endpoint.entries_posted(), 3 * 10u);
  free_all();
}

TEST_F(FlushedExchange, WithoutReceivesNothingIsFlushed) {
  build(3, 0);
  iteration();
  EXPECT_EQ(us().endpoint.entries_posted(), 3 + 1u);
  EXPECT_EQ(us().nic().usage().counters, usage[0] + 2);
  free_all();
}

TEST_F(FlushedExchange, ReceivesFromNobodyAreNotFlushed) {
  add(2, 0, false);
  ours.push_back(fresh(us(), Direction::kReceive, 9, false, core::kNobody));
  make(ours);
  match();
  iteration();
  EXPECT_EQ(us().endpoint.entries_posted(), 2 + 1u);
  free_all();
}

TEST_F(FlushedExchange, WaitsForTheFlush) {
  build(2, 2);
  EXPECT_FALSE(exchange().lead->transfer.direction == Direction::kSend) << "a flush that fails fails a receive";
  job.fabric.held = is_flush;
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  start_theirs();
  job.run();
  EXPECT_EQ(us().nic().read(exchange().shared.completion).value().success, 4u);
  EXPECT_EQ(us().stream.size(), 1u);
  const std::string why = us().queue->explain_stall();
  EXPECT_NE(why.find("<- the NIC's fetch from itself has not completed"), std::string::npos) << why;
  job.fabric.held = nullptr;
  wait_theirs();
  job.run();
  EXPECT_TRUE(job.over());
  free_all();
}

// Both sides have two sets.
TEST(FlushedSets, HaloTakesTenEntries) {
  ManualJob job(2, {.strategy = Strategy::kLoopbackFlush});
  std::vector<Request*> sets[2][2];
  for (size_t set : {0, 1})
    for (int i = 0; i < 8; ++i)
      for (uint32_t from : {0u, 1u}) {
        const int tag = static_cast<int>(100 * set) + 10 * i + static_cast<int>(from);
        ManualJob::Rank &sender = job[from], &receiver = job[1 - from];
        sets[from][set].push_back(
            sender.endpoint.new_request(sender.transfer(Direction::kSend, static_cast<int>(1 - from), tag, kBytes)));
        sets[1 - from][set].push_back(
            receiver.endpoint.new_request(receiver.transfer(Direction::kReceive, static_cast<int>(from), tag, kBytes)));
      }
  for (uint32_t rank : {0u, 1u}) {
    EXPECT_TRUE(works(job[rank].endpoint.make_exchange("halo", sets[rank][0], sets[rank][1])));
    for (const auto& set : sets[rank])
      for (Request* request : set)
        EXPECT_TRUE(works(job[rank].matcher.begin(*request)));
  }
  job.match();
  for (uint64_t i = 0; i < 6; ++i) {
    for (uint32_t rank : {0u, 1u}) {
      for (Request* request : sets[rank][i % 2])
        if (request->transfer.direction == Direction::kSend)
          fill(*request, 1000 * (i + 1) + static_cast<uint64_t>(request->transfer.tag));
      EXPECT_TRUE(works(job[rank].queue->start(sets[rank][i % 2])));
      EXPECT_TRUE(works(job[rank].queue->wait(sets[rank][i % 2])));
    }
    job.run();
    for (uint32_t rank : {0u, 1u})
      for (Request* request : sets[rank][i % 2])
        if (request->transfer.direction == Direction::kReceive) {
          EXPECT_TRUE(holds(*request, 1000 * (i + 1) + static_cast<uint64_t>(request->transfer.tag)));
        }
  }
  EXPECT_TRUE(job.over());
  EXPECT_EQ(job[0].endpoint.entries_posted(), 6 * 10u);
  EXPECT_EQ(job[0].stream.enqueued.size(), 6 * 2u);
}

}  // namespace
}  // namespace lanyard
