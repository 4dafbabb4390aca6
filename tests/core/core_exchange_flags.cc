// Exchanges whose members' senders raise flags, by hand: what starts cost, what the counters wait for, and what becomes
// of failures, which raise flags, too. Random ones are in core_random_test.cc and the deterministic engine.
#include <array>
#include <string>
#include <vector>

#include "tests/core/core_exchange_test.h"
#include "transport/core/exchange_sets.h"

namespace lanyard {
namespace {

using core::Direction;

struct ExchangeFlags : ExchangeTest {
  explicit ExchangeFlags(core::Strategy strategy = core::Strategy::kSenderFlag)
      : ExchangeTest({.strategy = strategy}) {}
  // Until both have heard of each other how their sends went.
  void hear() {
    for (int round = 0; round < 4; ++round) {
      job.run();
      for (uint32_t rank : {0u, 1u}) {
        (void)job[rank].queue->settled();
        job[rank].matcher.progress();
      }
    }
    job.run();
  }
  void expect_over() {
    hear();
    EXPECT_TRUE(job.over());
  }
  void iterate() {
    EXPECT_TRUE(works(us().queue->start(ours)));
    start_theirs();
    EXPECT_TRUE(works(us().queue->wait(ours)));
    wait_theirs();
    expect_over();
  }
  void start_one(size_t which) { EXPECT_TRUE(works(peer().queue->start(std::array{theirs[which]}))); }
  void wait_one(size_t which) { EXPECT_TRUE(works(peer().queue->wait(std::array{theirs[which]}))); }
  uint64_t counted() { return us().nic().read(exchange().shared.completion).value().success; }
};

TEST_F(ExchangeFlags, RegularHaloTakesTwentyFiveEntriesOneRingAndOneWait) {
  build(8, 8);
  iterate();
  EXPECT_EQ(us().endpoint.entries_posted(), 25u) << "8 writes, 8 flags, 8 clear-to-sends and the done word";
  EXPECT_EQ(us().stream.enqueued.size(), 2u) << "a ring and a wait";
  EXPECT_EQ(us().nic().usage().counters, usage[0] + 2 + 8) << "one for each send's writes";
  for (int i = 0; i < 3; ++i)
    iterate();
  EXPECT_EQ(us().endpoint.entries_posted(), 4 * 25u);
  EXPECT_EQ(counted(), 4 * 16u);
  free_all();
}

TEST_F(ExchangeFlags, ReadyHaloTakesSeventeen) {
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
    expect_over();
  }
  EXPECT_EQ(us().endpoint.entries_posted(), 3 * 17u);
  free_all();
}

TEST_F(ExchangeFlags, CountsMessagesNotPieces) {
  ours = {us().endpoint.new_request(us().transfer(Direction::kSend, 1, 0, 3 * kBytes)),
          us().endpoint.new_request(us().transfer(Direction::kReceive, 1, 1, 3 * kBytes))};
  theirs = {peer().endpoint.new_request(peer().transfer(Direction::kReceive, 0, 0, 3 * kBytes)),
            peer().endpoint.new_request(peer().transfer(Direction::kSend, 0, 1, 3 * kBytes))};
  make(ours);
  match();
  EXPECT_EQ(exchange().messages, 2u);
  EXPECT_EQ(ours[0]->completions, 2u);
  for (uint64_t i = 1; i <= 3; ++i) {
    fill(*ours[0], i);
    fill(*theirs[1], 10 + i);
    iterate();
    EXPECT_TRUE(holds(*theirs[0], i));
    EXPECT_TRUE(holds(*ours[1], 10 + i));
    EXPECT_EQ(ours[1]->flag_word.read(), i);
  }
  free_all();
}

TEST_F(ExchangeFlags, WaitsForEachFlag) {
  build(1, 3);
  iterate();
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  for (size_t which : {0, 1, 3})
    start_one(which);
  job.run();
  EXPECT_EQ(us().stream.size(), 1u);
  EXPECT_EQ(counted(), 4 + 3u);
  start_one(2);
  wait_theirs();
  expect_over();
  free_all();
}

// Its sender is an exchange that waits for what it does next.
TEST_F(ExchangeFlags, WhoAsksIsAnsweredBeforeTheExchangeIsComplete) {
  build(1, 1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(works(us().queue->start(ours)));
    EXPECT_TRUE(works(us().queue->wait(ours)));
    start_one(0);
    wait_one(0);
    hear();
    EXPECT_TRUE(peer().queue->settled());
    EXPECT_FALSE(us().stream.empty()) << "the message is still to be sent";
    start_one(1);
    wait_one(1);
    expect_over();
  }
  EXPECT_EQ(exchange().lead, ours[1]) << "no send, which is asked, waits for another's message";
  free_all();
}

TEST_F(ExchangeFlags, AFailedWriteRaisesItsFlagAndIsToldBeforeTheQueueIsSettled) {
  build(1, 2);
  iterate();
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  start_theirs();
  wait_theirs();
  // The memory is not there any more, its flag's word is.
  EXPECT_TRUE(works(us().nic().deregister_region(ours[2]->buffer)));
  ours[2]->buffer = {};
  job.run();
  EXPECT_TRUE(us().stream.empty()) << "no card can tell the flag from a good one";
  EXPECT_FALSE(us().queue->settled());
  hear();
  EXPECT_EQ(told(peer()), std::vector<const Request*>{theirs[2]});
  hear();
  EXPECT_EQ(told(us()), std::vector<const Request*>{ours[2]});
  EXPECT_EQ(ours[0]->failures + ours[1]->failures, 0u) << "they have done their part";
  EXPECT_EQ(us().queue->start(ours).code(), Code::kFailed);
  hear();
  EXPECT_TRUE(us().queue->settled());
  free_all();
}

TEST_F(ExchangeFlags, AFailedFlagIsNotTakenForRaised) {
  build(1, 2);
  iterate();
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  EXPECT_TRUE(works(us().nic().deregister_region(ours[1]->flag)));
  ours[1]->flag = {};
  start_theirs();
  wait_theirs();
  hear();
  EXPECT_EQ(us().stream.size(), 1u);
  EXPECT_FALSE(us().queue->settled());
  EXPECT_EQ(told(peer()), std::vector<const Request*>{theirs[1]});
  hear();
  EXPECT_EQ(told(us()), std::vector<const Request*>{ours[1]});
  hear();
  EXPECT_TRUE(us().stream.empty());
  EXPECT_EQ(ours[0]->failures, 1u) << "along with it";
  for (Request* request : ours)
    free(us(), request);
  ours.clear();
  hear();
  (void)told(peer());
  free_all();
}

TEST_F(ExchangeFlags, TheWordsOfWhatFailedAreNobodys) {
  build(0, 1);
  iterate();
  const uint64_t* word = ours[0]->flag_word.address;
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  free(peer(), theirs[0]);
  theirs.clear();
  hear();
  EXPECT_EQ(told(us()).size(), 1u);
  hear();
  free(us(), ours[0]);
  ours.clear();
  for (int tag = 20; tag < 24; ++tag) {
    ours.push_back(fresh(us(), Direction::kReceive, tag));
    begin(us(), {ours.back()});
    EXPECT_NE(ours.back()->done.address, word);
  }
  for (Request* request : ours)
    us().matcher.withdraw(*request);
  free_all();
}

// ---- Both sides have two sets

struct SetsOfFlags : ::testing::Test {
  SetsOfFlags() : job(2, {.strategy = core::Strategy::kSenderFlag}) {}
  void build(size_t each_way) {
    for (size_t set : {0, 1})
      for (size_t i = 0; i < each_way; ++i)
        for (uint32_t from : {0u, 1u}) {
          const int tag = static_cast<int>(100 * set + 10 * i + from);
          ManualJob::Rank &sender = job[from], &receiver = job[1 - from];
          sets[from][set].push_back(
              sender.endpoint.new_request(sender.transfer(Direction::kSend, static_cast<int>(1 - from), tag, kBytes)));
          sets[1 - from][set].push_back(receiver.endpoint.new_request(
              receiver.transfer(Direction::kReceive, static_cast<int>(from), tag, kBytes)));
        }
    for (uint32_t rank : {0u, 1u}) {
      EXPECT_TRUE(works(job[rank].endpoint.make_exchange("halo", sets[rank][0], sets[rank][1])));
      for (const auto& set : sets[rank])
        for (Request* request : set)
          EXPECT_TRUE(works(job[rank].matcher.begin(*request)));
    }
    job.match();
  }

  ManualJob job;
  std::vector<Request*> sets[2][2];
};

TEST_F(SetsOfFlags, HaloTakesSeventeenEntriesAndNoClearToSend) {
  build(8);
  for (uint64_t i = 0; i < 6; ++i) {
    for (uint32_t rank : {0u, 1u}) {
      for (Request* request : sets[rank][i % 2])
        if (request->transfer.direction == Direction::kSend)
          fill(*request, 1000 * (i + 1) + static_cast<uint64_t>(request->transfer.tag));
      EXPECT_TRUE(works(job[rank].queue->start(sets[rank][i % 2])));
      EXPECT_TRUE(works(job[rank].queue->wait(sets[rank][i % 2])));
    }
    job.run();
    for (uint32_t rank : {0u, 1u}) {
      EXPECT_TRUE(job[rank].stream.empty());
      for (Request* request : sets[rank][i % 2])
        if (request->transfer.direction == Direction::kReceive) {
          EXPECT_TRUE(holds(*request, 1000 * (i + 1) + static_cast<uint64_t>(request->transfer.tag)));
        }
    }
  }
  EXPECT_EQ(job[0].endpoint.entries_posted(), 6 * 17u);
  EXPECT_EQ(job[0].stream.enqueued.size(), 6 * 2u);
  for (int round = 0; round < 4; ++round)
    for (uint32_t rank : {0u, 1u}) {
      (void)job[rank].queue->settled();
      job[rank].matcher.progress();
    }
  EXPECT_TRUE(job.over());
}

// A neighbour may be a start ahead, and its flags count for that start alone.
TEST_F(SetsOfFlags, TheNextStartsFlagsAreCountedElsewhere) {
  build(2);
  for (uint64_t i : {0, 1}) {
    EXPECT_TRUE(works(job[1].queue->start(sets[1][i])));
    EXPECT_TRUE(works(job[1].queue->wait(sets[1][i])));
  }
  EXPECT_TRUE(works(job[0].queue->start(sets[0][0])));
  EXPECT_TRUE(works(job[0].queue->wait(sets[0][0])));
  job.run();
  EXPECT_TRUE(job[0].stream.empty());
  const auto counted = [&](uint64_t set) {
    return job[0].nic().read(sets[0][set].front()->completion).value().success;
  };
  EXPECT_EQ(counted(0), 4u);
  EXPECT_EQ(counted(1), 2u);
  EXPECT_TRUE(works(job[0].queue->start(sets[0][1])));
  EXPECT_TRUE(works(job[0].queue->wait(sets[0][1])));
  job.run();
  EXPECT_TRUE(job[0].stream.empty() && job[1].stream.empty());
  EXPECT_EQ(counted(1), 4u);
}

}  // namespace
}  // namespace lanyard
