// Exchanges of which some members go by lanes, or all.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/core_lanes_job.h"
#include "transport/core/exchange.h"
#include "transport/core/exchange_sets.h"

namespace lanyard {
namespace {

using core::Clearance;
using core::Direction;
using core::Request;
using Requests = std::vector<Request*>;

// The pairs of one exchange at each rank, or of ordinary requests where a rank does not merge.
class Halo {
 public:
  struct Pair {
    uint32_t from = 0;
    uint32_t to = 1;
    bool by_card = false;
    size_t set = 0;
    bool ready = false;
    uint64_t bytes = 1000;
    Request* send = nullptr;
    Request* receive = nullptr;
  };

  Halo(LaneJob& job, std::vector<Pair> made, std::array<bool, 2> merged = {true, true})
      : pairs(std::move(made)), job_(job) {
    for (size_t tag = 0; tag < pairs.size(); ++tag) {
      Pair& pair = pairs[tag];
      pair.send = fresh(pair.from, Direction::kSend, pair, tag);
      pair.receive = fresh(pair.to, Direction::kReceive, pair, tag);
    }
    for (uint32_t rank : {0u, 1u})
      if (merged[rank]) {
        EXPECT_TRUE(works(job_.process(rank).endpoint.make_exchange("halo", sides[rank][0], sides[rank][1])));
      }
    for (uint32_t rank : {0u, 1u})
      for (const Requests& set : sides[rank])
        for (Request* request : set)
          EXPECT_TRUE(works(job_.process(rank).matcher.begin(*request)));
    job_.settle();
    for (const Pair& pair : pairs)
      EXPECT_TRUE(pair.send->matched() && pair.receive->matched());
  }

  void start(uint32_t rank, size_t set = 0) { EXPECT_TRUE(works(job_.queue(rank).start(sides[rank][set]))); }
  void wait(uint32_t rank, size_t set = 0) { EXPECT_TRUE(works(job_.queue(rank).wait(sides[rank][set]))); }
  void write(uint64_t seed, size_t set = 0) {
    for_each_byte(set, [&](size_t tag, uint64_t at, std::byte& sent, std::byte& received) {
      sent = static_cast<std::byte>(pattern(seed + tag, at));
      received = {};
    });
  }
  void expect(uint64_t seed, size_t set = 0) {
    size_t wrong = 0;
    for_each_byte(set, [&](size_t tag, uint64_t at, std::byte&, std::byte& received) {
      wrong += received != static_cast<std::byte>(pattern(seed + tag, at)) ? 1 : 0;
    });
    EXPECT_EQ(wrong, 0u) << "of seed " << seed;
  }
  void iterate(uint64_t seed, size_t set = 0) {
    write(seed, set);
    for (uint32_t rank : {0u, 1u})
      start(rank, set);
    for (uint32_t rank : {0u, 1u})
      wait(rank, set);
    EXPECT_TRUE(job_.run(0) && job_.run(1));
    expect(seed, set);
  }
  void free() {
    for (const Pair& pair : pairs) {
      job_.free(pair.from, *pair.send);
      job_.free(pair.to, *pair.receive);
    }
    job_.expect_nothing_left();
  }

  std::vector<Pair> pairs;
  std::array<std::array<Requests, 2>, 2> sides;  // by rank and set

 private:
  Request* fresh(uint32_t rank, Direction direction, const Pair& pair, size_t tag) {
    const auto peer = static_cast<int>(direction == Direction::kSend ? pair.to : pair.from);
    core::Transfer made = job_.transfer(rank, direction, peer, pair.bytes);
    made.tag = static_cast<int>(tag);
    made.ready = pair.ready && direction == Direction::kSend;
    made.by_card = pair.by_card && direction == Direction::kSend;
    return sides[rank][pair.set].emplace_back(job_.process(rank).endpoint.new_request(made));
  }
  template <typename Visit>
  void for_each_byte(size_t set, Visit visit) {
    for (size_t tag = 0; tag < pairs.size(); ++tag)
      for (uint64_t at = 0; pairs[tag].set == set && at < pairs[tag].bytes; ++at)
        visit(tag, at, job_.content(*pairs[tag].send)[at], job_.content(*pairs[tag].receive)[at]);
  }

  LaneJob& job_;
};

bool has(const Status& status, const std::string& text) { return status.message().find(text) != std::string::npos; }

class ExchangeLanes : public testing::TestWithParam<core::Strategy> {};
INSTANTIATE_TEST_SUITE_P(Strategies, ExchangeLanes,
                         testing::Values(core::Strategy::kTargetCounter, core::Strategy::kSenderFlag,
                                         core::Strategy::kWriteBack, core::Strategy::kLoopbackFlush));

TEST_P(ExchangeLanes, OneByLanesAloneNeedsNoCard) {
  LaneJob job({.strategy = GetParam()});
  const auto counters = [&](uint32_t rank) { return job.fabric.nic(rank).usage().counters; };
  const std::array<uint64_t, 2> before{counters(0), counters(1)};
  Halo halo(job, {{.from = 0}, {.from = 1, .to = 0}, {.from = 0}, {.from = 1, .to = 1}});
  for (const Halo::Pair& pair : halo.pairs)
    EXPECT_TRUE(pair.send->lane != nullptr && pair.receive->lane != nullptr);
  for (uint32_t rank : {0u, 1u})
    EXPECT_EQ(counters(rank), before[rank]) << rank;
  const uint64_t kernels = job.driver.submissions("small_lanes");
  for (uint64_t i = 0; i < 10; ++i)
    halo.iterate(100 * i);
  EXPECT_EQ(job.driver.submissions("small_lanes") - kernels, 10 * 4u) << "a start and a wait of each rank's";
  EXPECT_EQ(job.process(0).endpoint.entries_posted() + job.process(1).endpoint.entries_posted(), 0u);
  halo.free();
}

TEST_P(ExchangeLanes, SomeMembersGoByTheCard) {
  for (const std::array<bool, 2> merged : {std::array{true, true}, std::array{true, false}, std::array{false, true}}) {
    LaneJob job({.strategy = GetParam()});
    Halo halo(job,
              {{.from = 0},
               {.from = 0, .by_card = true},
               {.from = 1, .to = 0},
               {.from = 1, .to = 0, .by_card = true},
               {.from = 0, .to = 0},
               {.from = 0, .to = 0, .by_card = true, .ready = true}},
              merged);
    for (const Halo::Pair& pair : halo.pairs)
      EXPECT_EQ(pair.send->lane == nullptr && pair.receive->lane == nullptr, pair.by_card);
    for (uint64_t i = 0; i < 10; ++i)
      halo.iterate(100 * i);
    halo.free();
  }
}

// 2 sends and 2 receives by the card, as if there were no others.
TEST(ExchangeLanesTest, TheCardsMembersAloneTakeEntries) {
  LaneJob job;
  Halo halo(job, {{.from = 0, .by_card = true},
                  {.from = 0},
                  {.from = 1, .to = 0, .by_card = true},
                  {.from = 0, .by_card = true},
                  {.from = 1, .to = 0, .by_card = true}});
  uint64_t entries = 0;
  for (const Request* member : halo.sides[0][0])
    entries += member->entries;
  EXPECT_EQ(entries, 5u);
  halo.iterate(1);
  EXPECT_EQ(job.process(0).endpoint.entries_posted(), 5u);
  halo.free();
}

TEST(ExchangeLanesTest, AllAreStartedByOneCall) {
  LaneJob job;
  Halo halo(job, {{.from = 0}, {.from = 1, .to = 0}});
  const Requests one{halo.pairs[0].send};
  EXPECT_TRUE(has(job.queue(0).start(one), "started and waited for by one call"));
  halo.start(0);
  EXPECT_TRUE(has(job.queue(0).wait(one), "started and waited for by one call"));
  halo.start(1);
  for (uint32_t rank : {0u, 1u})
    halo.wait(rank);
  EXPECT_TRUE(job.run(0) && job.run(1));
  halo.iterate(1);
  halo.free();
}

// Two sets by lanes have nothing to imply; of others what the card brings back alone says that a buffer is free.
TEST(ExchangeLanesTest, TwoSets) {
  const std::vector<Halo::Pair> by_lanes = {
      {.from = 0}, {.from = 1, .to = 0}, {.from = 0, .set = 1}, {.from = 1, .to = 0, .set = 1}};
  {
    LaneJob job;
    Halo halo(job, by_lanes);
    for (const Requests& set : halo.sides[0]) {
      EXPECT_EQ(set.front()->exchange->other, nullptr);
      EXPECT_EQ(core::why_not_implied(*set.front()), "its lane to rank 1 tells of starts by itself");
    }
    for (uint64_t i = 0; i < 10; ++i)
      halo.iterate(100 * i, i % 2);
    halo.iterate(7, 1);
    halo.free();
  }
  {
    LaneJob job;
    std::vector<Halo::Pair> pairs = by_lanes;
    for (Halo::Pair pair : by_lanes) {
      pair.by_card = true;
      pairs.push_back(pair);
    }
    Halo halo(job, pairs);
    for (const Halo::Pair& pair : halo.pairs)
      for (const Request* side : {pair.send, pair.receive})
        EXPECT_EQ(side->clearance, pair.by_card ? Clearance::kImplied : Clearance::kLane);
    EXPECT_TRUE(has(job.queue(0).start(halo.sides[0][1]), "the other set's turn"));
    for (uint64_t i = 0; i < 10; ++i)
      halo.iterate(100 * i, i % 2);
    halo.free();
  }
  {
    LaneJob job;
    std::vector<Halo::Pair> pairs = by_lanes;
    pairs[0].by_card = pairs[2].by_card = true;
    Halo halo(job, pairs);
    for (size_t pair : {0, 2})
      for (const Request* side : {halo.pairs[pair].send, halo.pairs[pair].receive})
        EXPECT_EQ(side->clearance, Clearance::kOneWay);
    for (uint64_t i = 0; i < 10; ++i)
      halo.iterate(100 * i, i % 2);
    halo.free();
  }
}

// It counts on by itself, in a graph as without one.
TEST(ExchangeLanesTest, OneByLanesAloneIsReplayed) {
  LaneJob job;
  Halo halo(job, {{.from = 0}, {.from = 1, .to = 0}});
  halo.iterate(1);
  const gpu::StreamHandle handle = job.handles[0];
  job.driver.begin_capture(handle);
  const Requests one{halo.pairs[0].send};
  EXPECT_TRUE(has(job.queue(0).start(one), "started and waited for by one call"));
  halo.start(0);
  EXPECT_TRUE(has(job.queue(0).wait(one), "started and waited for by one call"));
  halo.wait(0);
  const auto graph = job.driver.end_capture(handle);
  ASSERT_TRUE(graph.has_value());
  for (uint64_t i = 0; i < 10; ++i) {
    halo.write(i);
    job.driver.replay(*graph, handle);
    halo.start(1);
    halo.wait(1);
    ASSERT_TRUE(job.run(0) && job.run(1));
    halo.expect(i);
  }
  EXPECT_TRUE(has(job.queue(0).start(halo.sides[0][0]), "started by a graph"));
  halo.free();
}

TEST(ExchangeLanesTest, OneWithMembersByCardIsNotCaptured) {
  LaneJob job;
  Halo halo(job, {{.from = 0}, {.from = 0, .by_card = true}});
  job.driver.begin_capture(job.handles[0]);
  EXPECT_EQ(job.queue(0).start(halo.sides[0][0]).code(), Code::kUnsupported);
  EXPECT_TRUE(job.driver.end_capture(job.handles[0]).has_value());
  EXPECT_EQ(job.queue(0).stand(halo.sides[0][0]).code(), Code::kUnsupported);
  halo.iterate(1);
  halo.free();
}

// Whichever of them fails: the waits of what the card carries pass, too. What a lane carries the other side may come to
// yet, so that it must not be freed; and nothing follows it.
TEST(ExchangeLanesTest, WhatFailsLetsGoOfAllButLanes) {
  for (const bool by_card : {false, true}) {
    LaneJob job;
    Halo halo(job,
              {{.from = 0, .by_card = by_card, .bytes = kBeyondSlots},
               {.from = 0, .ready = true, .bytes = kBeyondSlots},
               {.from = 1, .to = 0, .by_card = true}},
              {true, false});
    halo.iterate(1);
    Request& failed = *halo.pairs[0].send;
    Request& kept = *halo.pairs[1].send;
    halo.start(0);
    halo.wait(0);
    job.free(1, *halo.pairs[0].receive);
    job.settle();
    job.process(0).endpoint.fail_requests_of_lost_peers();
    Requests told;
    while (const Request* each = job.process(0).endpoint.take_failed(job.queue(0))) {
      told.push_back(job.process(0).endpoint.find(each->number));
      job.process(0).endpoint.release(*told.back());
    }
    EXPECT_EQ(told, Requests{&failed});
    for (const Request* member : halo.sides[0][0])
      EXPECT_EQ(member->released, member != &kept);
    EXPECT_TRUE(has(job.queue(0).start(halo.sides[0][0]), "failed before"));
    job.process(0).matcher.talk();
    job.settle();
    // Its other side makes that start, and none behind it.
    const Requests other{halo.pairs[1].receive};
    ASSERT_TRUE(works(job.queue(1).start(other)));
    ASSERT_TRUE(works(job.queue(1).wait(other)));
    EXPECT_TRUE(job.run(0) && job.run(1));
    EXPECT_EQ(kept.failures + halo.pairs[1].receive->failures, 0u);
    EXPECT_EQ(job.queue(1).start(other).code(), Code::kFailed);
    for (Request* member : Requests(halo.sides[0][0]))
      job.free(0, *member);
    job.settle();
    job.free(1, *halo.pairs[1].receive);
    job.free(1, *halo.pairs[2].send);
    job.expect_nothing_left();
  }
}

// It would be copied to memory that may be somebody else's.
TEST(ExchangeLanesTest, WhatALaneCarriesIsNotFreedWithItsExchange) {
  LaneJob job;
  Halo halo(job, {{.from = 0, .ready = true}, {.from = 0, .by_card = true}}, {false, true});
  Request& kept = *halo.pairs[0].receive;
  halo.iterate(1);
  halo.write(2);
  halo.start(1);
  halo.wait(1);
  job.free(0, *halo.pairs[1].send);
  job.settle();
  job.process(1).endpoint.fail_requests_of_lost_peers();
  const Request* failed = job.process(1).endpoint.take_failed(job.queue(1));
  ASSERT_EQ(failed, halo.pairs[1].receive);
  job.process(1).endpoint.release(*halo.pairs[1].receive);
  EXPECT_EQ(job.process(1).matcher.free(kept).code(), Code::kInvalidState);
  job.settle();
  job.start_and_wait(0, *halo.pairs[0].send);
  EXPECT_TRUE(job.run(0) && job.run(1));
  for (uint64_t at = 0; at < kept.transfer.bytes; ++at)
    ASSERT_EQ(job.content(kept)[at], static_cast<std::byte>(pattern(2, at))) << at;
  job.free(1, kept);
  job.free(1, *halo.pairs[1].receive);
  job.free(0, *halo.pairs[0].send);
  job.expect_nothing_left();
}

// The lanes that nobody has started are named, each by itself.
TEST(ExchangeLanesTest, AStallIsExplained) {
  LaneJob job;
  Halo halo(job, {{.from = 0}, {.from = 1, .to = 0}, {.from = 0, .by_card = true}}, {true, false});
  const Request& by_card = *halo.pairs[2].receive;
  Request* const part[] = {halo.pairs[0].receive, halo.pairs[2].receive};
  halo.start(0);
  halo.wait(0);
  ASSERT_TRUE(works(job.queue(1).start(part)));
  ASSERT_TRUE(works(job.queue(1).wait(part)));
  EXPECT_TRUE(job.run(1));
  EXPECT_EQ(by_card.iterations_done(), 1u);
  const std::string text = job.queue(0).explain_stall();
  EXPECT_NE(text.find("request (recv, peer 1"), std::string::npos) << text;
  EXPECT_NE(text.find("no GPU has told that it has carried the message: rank 1"), std::string::npos) << text;
  Request* const rest[] = {halo.pairs[1].send};
  ASSERT_TRUE(works(job.queue(1).start(rest)));
  ASSERT_TRUE(works(job.queue(1).wait(rest)));
  EXPECT_TRUE(job.run(0) && job.run(1));
  halo.free();
}

// Of a lane's send there is no clear-to-send to miss.
TEST(ExchangeLanesTest, WhatTheCardLacksIsExplainedWithoutLanes) {
  LaneJob job;
  Halo halo(job, {{.from = 0}, {.from = 1, .to = 0, .by_card = true}});
  halo.start(0);
  halo.wait(0);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::string text;
  while (text.find("1 missing, of the messages from rank 1") == std::string::npos &&
         std::chrono::steady_clock::now() < until) {
    job.fabric.progress_all();
    text = job.queue(0).explain_stall();
  }
  EXPECT_NE(text.find("1 missing, of the messages from rank 1"), std::string::npos) << text;
  EXPECT_EQ(text.find("clear-to-send"), std::string::npos) << text;
  halo.start(1);
  halo.wait(1);
  EXPECT_TRUE(job.run(0) && job.run(1));
  halo.free();
}

// A message of no bytes is of the device that the queues are of.
TEST(ExchangeLanesTest, OfEmptyMessages) {
  LaneJob job;
  const std::vector<Halo::Pair> pairs = {{.from = 0, .bytes = 0}, {.from = 1, .to = 0, .bytes = 0}};
  Halo halo(job, pairs);
  EXPECT_TRUE(halo.sides[0][0].front()->exchange->is_without_card());
  for (uint64_t i = 0; i < 5; ++i)
    halo.iterate(i);
  halo.free();
  // Of several nobody knows on which it will be started.
  gpu::Device& other = *job.gpus[0]->devices.of_ordinal(1).value();
  const gpu::StreamHandle handle = job.driver.make_program_stream(1);
  const auto stream = std::move(gpu::DeviceStream::make(other, job.gpus[0]->pages, handle, {}).value());
  {
    const auto queue = std::move(core::Queue::create(job.process(0).endpoint, *stream).value());
    Halo by_card(job, pairs);
    for (const Halo::Pair& pair : by_card.pairs)
      EXPECT_TRUE(pair.send->lane == nullptr && pair.receive->lane == nullptr);
    by_card.iterate(1);
    by_card.free();
  }
  stream->halt();
}

TEST(ExchangeLanesTest, WhereOneSideCannotTheCardCarries) {
  for (const auto& options :
       {LaneJobOptions{.lanes = {true, false}}, LaneJobOptions{.confined = 0}, LaneJobOptions{.confined = 1}}) {
    LaneJob job(options);
    Halo halo(job, {{.from = 0}, {.from = 1, .to = 0}, {.from = 0, .set = 1}, {.from = 1, .to = 0, .set = 1}});
    for (const Halo::Pair& pair : halo.pairs)
      EXPECT_EQ(pair.send->clearance, Clearance::kImplied);
    for (uint64_t i = 0; i < 4; ++i)
      halo.iterate(100 * i, i % 2);
    halo.free();
  }
}

// Halos that nobody wrote, with starts that come in any order of the ranks, and waits too.
TEST_P(ExchangeLanes, RandomOnes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t limit) { return random() % limit; };
    LaneJob job({.strategy = GetParam()});
    const size_t sets = 1 + below(2);
    std::vector<Halo::Pair> pairs;
    for (size_t set = 0; set < sets; ++set)
      for (uint32_t rank : {0u, 1u})  // each has one to start
        pairs.push_back({.from = rank, .to = 1 - rank, .by_card = below(2) == 0, .set = set});
    for (uint64_t more = below(8); more > 0; --more)
      pairs.push_back({.from = static_cast<uint32_t>(below(2)),
                       .to = static_cast<uint32_t>(below(2)),
                       .by_card = below(2) == 0,
                       .set = below(sets),
                       .ready = below(4) == 0,
                       .bytes = below(4) == 0 ? 0 : 1 + below(3000)});
    Halo halo(job, pairs, {below(4) != 0, below(4) != 0});
    for (uint64_t i = 0; i < 6; ++i) {
      const size_t set = i % sets;
      halo.write(100 * i, set);
      const auto first = static_cast<uint32_t>(below(2));
      halo.start(first, set);
      if (below(2) == 0)
        halo.wait(first, set);
      halo.start(1 - first, set);
      halo.wait(1 - first, set);
      if (halo.sides[first][set].front()->needs_wait())
        halo.wait(first, set);
      ASSERT_TRUE(job.run(0) && job.run(1));
      halo.expect(100 * i, set);
    }
    halo.free();
  }
}

}  // namespace
}  // namespace lanyard
