// Matcher: MPI's matching rules, between simulated processes. Its queues, compared with lists that
// are searched from the front.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/contract/model_fabric.h"
#include "tests/core/core_process.h"
#include "transport/core/match_queues.h"
#include "transport/core/matcher.h"

namespace lanyard {
namespace {

using core::Direction;
using core::kAnySource;
using core::kAnyTag;
using core::MatchCard;
using core::OfferQueue;
using core::PostedQueue;
using core::Transfer;

class MatcherTest : public ::testing::Test {
 protected:
  void build(uint32_t ranks, const nicsim::ModelLimits& limits = {}) {
    fabric = std::make_unique<ModelFabric>(ranks, limits);
    mail = std::make_unique<Mail>(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank)
      processes.push_back(std::make_unique<Process>(fabric->nic(rank), rank, *mail, core::Endpoint::Options{}));
  }
  Process& rank(uint32_t which) { return *processes[which]; }
  void carry() {
    while (mail->under_way() > 0)
      for (auto& process : processes)
        process->matcher.progress();
  }
  nic::Usage usage(uint32_t which) { return fabric->nic(which).usage(); }

  // Whether the two are matched with each other.
  static ::testing::AssertionResult paired(const Request& send, const Request& receive) {
    if (!send.matched() || !receive.matched())
      return ::testing::AssertionFailure() << "a request is not matched";
    if (receive.matched_bytes != send.transfer.bytes || receive.matched_tag != send.transfer.tag ||
        receive.matched_peer != send.transfer.rank)
      return ::testing::AssertionFailure() << "the receive has matched " << receive.describe();
    return ::testing::AssertionSuccess();
  }

  std::unique_ptr<ModelFabric> fabric;
  std::unique_ptr<Mail> mail;
  std::vector<std::unique_ptr<Process>> processes;
};

// Two processes with different strategies: the match fails on both sides and leaves nothing.
TEST_F(MatcherTest, StrategiesMustBeTheSame) {
  fabric = std::make_unique<ModelFabric>(2, nicsim::ModelLimits{});
  mail = std::make_unique<Mail>(2);
  for (const core::Strategy strategy : {core::Strategy::kTargetCounter, core::Strategy::kSenderFlag}) {
    const auto rank = static_cast<uint32_t>(processes.size());
    processes.push_back(
        std::make_unique<Process>(fabric->nic(rank), rank, *mail, core::Endpoint::Options{.strategy = strategy}));
  }
  Request& send = rank(0).send(1, 5, 10);
  Request& receive = rank(1).receive(0, 5, 10);
  carry();
  for (const Request* request : {&send, &receive}) {
    EXPECT_EQ(request->state, Request::State::kFresh);
    EXPECT_EQ(request->match_error.code(), Code::kInvalidArgument);
    EXPECT_TRUE(has(request->match_error, "LANYARD_STRATEGY"));
  }
  EXPECT_EQ(usage(0).counters, 0u);
  EXPECT_EQ(usage(1).counters, 0u);
}

TEST_F(MatcherTest, WildcardsTakeTheValuesTheyMatch) {
  build(3);
  Request& any = rank(2).receive(kAnySource, kAnyTag, 100);
  Request& from1 = rank(2).receive(1, kAnyTag, 100);
  Request& tag9 = rank(2).receive(kAnySource, 9, 100);
  EXPECT_EQ(any.describe(), "recv, peer any, tag any, 100 B");
  Request& send1 = rank(1).send(2, 9, 41);
  carry();
  EXPECT_TRUE(paired(send1, any)) << "expected the oldest send that fits";
  EXPECT_EQ(any.describe(), "recv, peer 1, tag 9, 41 B");
  Request& send0 = rank(0).send(2, 8, 42);
  carry();
  EXPECT_FALSE(send0.matched()) << "no receive fits tag 8 from rank 0";
  Request& send0_tag9 = rank(0).send(2, 9, 43);
  carry();
  EXPECT_TRUE(paired(send0_tag9, tag9));
  EXPECT_EQ(tag9.matched_nic, 0u);
  Request& send1_again = rank(1).send(2, 3, 44);
  carry();
  EXPECT_TRUE(paired(send1_again, from1));
  Request& last = rank(2).receive(kAnySource, 8, 100);
  EXPECT_TRUE(last.matched()) << "a receive must match a waiting offer at once";
  carry();
  EXPECT_TRUE(paired(send0, last));
}

// Equal ranks and tags in two communicators never match, with or without wildcards.
TEST_F(MatcherTest, CommunicatorsNeverCross) {
  build(2);
  Transfer in2 = rank(1).transfer(Direction::kReceive, kAnySource, kAnyTag, 100);
  in2.communicator = 2;
  Request& receive2 = rank(1).begin(in2);
  Request& send1 = rank(0).send(1, 5, 11);
  carry();
  EXPECT_FALSE(send1.matched() || receive2.matched());
  Transfer out2 = rank(0).transfer(Direction::kSend, 1, 5, 12);
  out2.communicator = 2;
  Request& send2 = rank(0).begin(out2);
  Request& receive1 = rank(1).receive(0, 5, 100);
  carry();
  EXPECT_TRUE(paired(send1, receive1));
  EXPECT_TRUE(paired(send2, receive2));
}

// Ranks belong to the communicator, NICs to the job.
TEST_F(MatcherTest, RanksOfACommunicatorAreNotNics) {
  build(3);
  Transfer out = rank(2).transfer(Direction::kSend, 1, 5, 8);  // to the communicator's rank 1, which is NIC 0
  out.communicator = 9;
  out.rank = 0;
  out.peer_nic = 0;
  Transfer in = rank(0).transfer(Direction::kReceive, 0, 5, 8);
  in.communicator = 9;
  in.rank = 1;
  Request& send = rank(2).begin(out);
  Request& receive = rank(0).begin(in);
  carry();
  EXPECT_TRUE(paired(send, receive));
  EXPECT_EQ(receive.matched_peer, 0);
  EXPECT_EQ(receive.matched_nic, 2u);
  EXPECT_EQ(send.matched_nic, 0u);
}

TEST_F(MatcherTest, AMatchedOrMatchingRequestDoesNotMatchAgain) {
  build(2);
  Request& send = rank(0).send(1, 5, 8);
  EXPECT_EQ(rank(0).matcher.begin(send).code(), Code::kInvalidState);
  Request& receive = rank(1).receive(0, 5, 8);
  carry();
  const nic::Usage before = usage(0);
  EXPECT_EQ(rank(0).matcher.begin(send).code(), Code::kInvalidState);
  EXPECT_EQ(rank(1).matcher.begin(receive).code(), Code::kInvalidState);
  EXPECT_TRUE(paired(send, receive));
  EXPECT_EQ(usage(0).counters, before.counters);
  EXPECT_EQ(mail->under_way(), 0u);
}

// ---- Failure

// A send longer than its receive fails on both sides. Both may match again.
TEST_F(MatcherTest, TruncationFailsBothSides) {
  for (const bool send_first : {true, false}) {
    build(2);
    Request* send = nullptr;
    Request* receive = nullptr;
    const auto post = [&](bool sending) {
      if (sending)
        send = &rank(0).send(1, 5, 101);
      else
        receive = &rank(1).receive(0, 5, 100);
      carry();
    };
    post(send_first);
    post(!send_first);
    for (Request* request : {send, receive}) {
      EXPECT_EQ(request->state, Request::State::kFresh);
      EXPECT_EQ(request->match_error.code(), Code::kTruncated);
      EXPECT_TRUE(has(request->match_error, "101"));
      EXPECT_TRUE(has(request->match_error, "100"));
      EXPECT_EQ(request->failures, 0u);
    }
    for (uint32_t which : {0u, 1u}) {
      EXPECT_EQ(usage(which).counters, 0u);
      EXPECT_LE(usage(which).regions, 1u) << "more than the slab of words is left";
    }
    Request& fits = rank(0).send(1, 5, 100);
    EXPECT_TRUE(works(rank(1).matcher.begin(*receive)));
    EXPECT_TRUE(receive->match_error.ok()) << "a new attempt keeps the old error";
    carry();
    EXPECT_TRUE(paired(fits, *receive));
    EXPECT_TRUE(works(rank(0).matcher.begin(*send)));
    Request& roomy = rank(1).receive(0, 5, 101);
    carry();
    EXPECT_TRUE(paired(*send, roomy));
    processes.clear();
  }
}

// A resource runs out at any point: begin() fails, frees what it had opened and sends no card.
TEST_F(MatcherTest, ExhaustionHalfWayLeavesNothingOpen) {
  struct Case {
    uint32_t counters, regions;
    bool sending, ready, fits;
  };
  for (const Case& c : {Case{2, 3, true, false, true}, Case{1, 3, true, false, false}, Case{2, 2, true, false, false},
                        Case{2, 1, true, false, false}, Case{1, 2, true, true, true}, Case{1, 1, true, true, false},
                        Case{1, 2, false, false, true}, Case{1, 1, false, false, false}}) {
    SCOPED_TRACE(std::to_string(c.counters) + " counters, " + std::to_string(c.regions) + " regions");
    build(2, {.max_counters = c.counters, .max_regions = c.regions});
    Transfer transfer = rank(0).transfer(c.sending ? Direction::kSend : Direction::kReceive, 1, 5, 8);
    transfer.ready = c.ready;
    Request& request = *rank(0).endpoint.new_request(transfer);
    for (int tries = 0; tries < 3; ++tries) {
      const Status status = rank(0).matcher.begin(request);
      ASSERT_EQ(status.ok(), c.fits) << status.to_string();
      if (c.fits)
        break;
      EXPECT_EQ(status.code(), Code::kExhausted);
      EXPECT_EQ(request.state, Request::State::kFresh);
      EXPECT_EQ(usage(0).counters, 0u);
      EXPECT_LE(usage(0).regions, 1u);
      EXPECT_EQ(mail->sent(), 0u);
    }
    if (!c.fits) {
      EXPECT_TRUE(works(rank(0).endpoint.free_request(&request)));
    }
    processes.clear();
  }
}

TEST_F(MatcherTest, AnOfferThatCannotBeSentChangesNothing) {
  build(2);
  mail->break_down(0);
  Request& send = *rank(0).endpoint.new_request(rank(0).transfer(Direction::kSend, 1, 5, 8));
  EXPECT_EQ(rank(0).matcher.begin(send).code(), Code::kFailed);
  EXPECT_EQ(send.state, Request::State::kFresh);
  EXPECT_EQ(usage(0).counters, 0u);
  mail->repair(0);
  EXPECT_TRUE(works(rank(0).matcher.begin(send)));
  Request& receive = rank(1).receive(0, 5, 8);
  carry();
  EXPECT_TRUE(paired(send, receive));
}

// A receive that begins after its peer has ended fails at once.
TEST_F(MatcherTest, AReceiveFromAnEndedRankFailsAtOnce) {
  build(3);
  mail->end(1);
  Request& receive = *rank(0).endpoint.new_request(rank(0).transfer(Direction::kReceive, 1, 5, 8));
  const Status status = rank(0).matcher.begin(receive);
  EXPECT_EQ(status.code(), Code::kFailed);
  EXPECT_TRUE(has(status, "rank 1 has ended"));
  EXPECT_EQ(receive.state, Request::State::kFresh);
  EXPECT_EQ(usage(0).counters, 0u);
  Request& from_any = rank(0).receive(kAnySource, 5, 8);
  Request& send = rank(2).send(0, 5, 8);
  carry();
  EXPECT_TRUE(paired(send, from_any)) << "other ranks may still send";
}

// Cards come from other processes: invalid ones are ignored.
TEST_F(MatcherTest, InvalidCardsAreIgnored) {
  build(3);
  core::Courier& forger = mail->courier(2);
  Request& receive = rank(0).receive(1, 5, 8);
  Request& send = rank(0).send(1, 6, 8);
  MatchCard offer;
  offer.from_nic = 2;
  offer.communicator = receive.transfer.communicator;
  offer.source = 1;
  offer.tag = 5;
  offer.bytes = 8;
  ASSERT_EQ(offer.longest, 0u);
  ASSERT_TRUE(works(forger.send(0, offer)));
  MatchCard answer;
  answer.kind = MatchCard::Kind::kAccept;
  answer.from_nic = 2;
  answer.send = send.number;
  answer.longest = 64;
  ASSERT_TRUE(works(forger.send(0, answer)));
  answer.send = receive.number;
  ASSERT_TRUE(works(forger.send(0, answer)));
  carry();
  EXPECT_EQ(receive.state, Request::State::kMatching);
  EXPECT_EQ(send.state, Request::State::kMatching);
  Request& theirs = rank(1).send(0, 5, 8);
  Request& in = rank(1).receive(0, 6, 8);
  carry();
  EXPECT_TRUE(paired(theirs, receive));
  EXPECT_TRUE(paired(send, in));
}

TEST_F(MatcherTest, AnAnswerThatCannotBeSentFailsTheReceive) {
  build(2);
  rank(0).send(1, 5, 8);
  rank(0).send(1, 6, 8);
  carry();
  mail->break_down(1);
  Request& offered = rank(1).receive(0, 5, 8);  // its offer has arrived
  EXPECT_EQ(offered.state, Request::State::kFresh);
  EXPECT_EQ(offered.match_error.code(), Code::kFailed);
  EXPECT_EQ(usage(1).counters, 0u);
  Request& posted = rank(1).receive(0, 7, 8);  // its offer arrives later
  rank(0).send(1, 7, 8);
  carry();
  EXPECT_EQ(posted.state, Request::State::kFresh);
  EXPECT_EQ(posted.match_error.code(), Code::kFailed);
  EXPECT_EQ(usage(1).counters, 0u);
  mail->repair(1);
  Request& fine = rank(1).receive(0, 6, 8);
  carry();
  EXPECT_TRUE(fine.matched()) << "a later match must work";
}

TEST_F(MatcherTest, AnOfferOfAnEndedProcessIsIgnored) {
  build(3);
  Request& receive = rank(2).receive(kAnySource, 5, 8);
  rank(0).send(2, 5, 8);
  mail->end(0);
  carry();
  rank(2).matcher.lose_peer(0, "rank 0 has ended");
  EXPECT_EQ(receive.state, Request::State::kMatching) << "another rank may still send";
  Request& send = rank(1).send(2, 5, 8);
  carry();
  EXPECT_TRUE(paired(send, receive));

  rank(1).send(2, 6, 8);
  carry();
  mail->end(1);
  Request& later = rank(2).receive(kAnySource, 6, 8);
  EXPECT_EQ(later.state, Request::State::kMatching) << "it matches the offer of a rank that has ended";
}

// ---- PostedQueue and OfferQueue

class MatchQueues : public ::testing::TestWithParam<uint64_t> {
 protected:
  static bool fits(const Transfer& receive, const MatchCard& offer) {
    return receive.communicator == offer.communicator && (receive.peer == kAnySource || receive.peer == offer.source) &&
           (receive.tag == kAnyTag || receive.tag == offer.tag);
  }
  uint64_t draw(uint64_t n) { return random_() % n; }

  // Draws from few values, so that many are equal. `wildcards` percent use each wildcard.
  Transfer receive(uint64_t wildcards) {
    Transfer transfer{.direction = Direction::kReceive};
    transfer.communicator = draw(2);
    transfer.peer = draw(100) < wildcards ? kAnySource : static_cast<int>(draw(3));
    transfer.tag = draw(100) < wildcards ? kAnyTag : static_cast<int>(draw(tags_));
    return transfer;
  }
  MatchCard offer() {
    MatchCard card;
    card.communicator = draw(2);
    card.source = static_cast<int32_t>(draw(3));
    card.tag = static_cast<int32_t>(draw(tags_));
    card.from_nic = static_cast<uint32_t>(draw(3));
    card.send = ++sends_;
    return card;
  }

  std::mt19937_64 random_{GetParam()};
  const uint64_t tags_ = GetParam() % 2 == 0 ? 4 : 2000;
  uint64_t sends_ = 0;
};

TEST_P(MatchQueues, AnOfferFindsTheOldestReceive) {
  PostedQueue queue;
  std::vector<std::unique_ptr<Request>> owned;
  std::list<Request*> right;
  EXPECT_TRUE(queue.empty());
  const uint64_t wildcards = draw(60);
  for (int step = 0; step < 6000; ++step) {
    if (draw(100) < 55) {
      owned.push_back(std::make_unique<Request>());
      owned.back()->transfer = receive(wildcards);
      queue.add(*owned.back());
      right.push_back(owned.back().get());
    } else if (draw(100) < 80) {
      const MatchCard card = offer();
      const auto expected =
          std::find_if(right.begin(), right.end(), [&](const Request* each) { return fits(each->transfer, card); });
      Request* found = queue.find({card.communicator, card.source, card.tag});
      ASSERT_EQ(found, expected == right.end() ? nullptr : *expected) << "step " << step;
      if (found == nullptr)
        continue;
      queue.remove(*found);
      right.erase(expected);
    } else if (!right.empty()) {
      const auto withdrawn = std::next(right.begin(), static_cast<std::ptrdiff_t>(draw(right.size())));
      queue.remove(**withdrawn);
      right.erase(withdrawn);
    }
    ASSERT_EQ(queue.empty(), right.empty());
  }
}

TEST_P(MatchQueues, AReceiveFindsTheOldestOffer) {
  OfferQueue queue;
  std::list<MatchCard> right;
  const uint64_t wildcards = draw(60);
  const auto remove = [&](OfferQueue::Offer* found, std::list<MatchCard>::iterator expected) {
    ASSERT_EQ(found == nullptr, expected == right.end());
    if (found == nullptr)
      return;
    ASSERT_EQ(found->card.send, expected->send);
    queue.remove(*found);
    right.erase(expected);
  };
  for (int step = 0; step < 6000; ++step) {
    const uint64_t what = draw(100);
    if (what < 55) {
      const MatchCard card = offer();
      queue.add(card);
      right.push_back(card);
    } else if (what < 85) {
      const Transfer wanted = receive(wildcards);
      const uint32_t dead = static_cast<uint32_t>(draw(12));
      const auto lives = [&](const MatchCard& card) { return card.from_nic != dead; };
      remove(queue.find({wanted.communicator, wanted.peer, wanted.tag}, lives),
             std::find_if(right.begin(), right.end(),
                          [&](const MatchCard& card) { return fits(wanted, card) && lives(card); }));
    } else if (what < 99) {
      const uint64_t send = 1 + draw(sends_ + 1);
      const auto expected =
          std::find_if(right.begin(), right.end(), [&](const MatchCard& card) { return card.send == send; });
      const uint32_t from = expected == right.end() ? 0 : expected->from_nic;
      EXPECT_EQ(queue.find_send(from + 1, send), nullptr) << "finds a send of another process";
      remove(queue.find_send(from, send), expected);
    } else {
      const uint32_t from = static_cast<uint32_t>(draw(3));
      queue.remove_all_of(from);
      right.remove_if([&](const MatchCard& card) { return card.from_nic == from; });
    }
    if (HasFatalFailure())
      FAIL() << "step " << step;
    const uint32_t from = static_cast<uint32_t>(draw(3));
    const auto oldest = std::find_if(right.begin(), right.end(), [&](const MatchCard& card) {
      return card.from_nic == from && card.communicator == 1;
    });
    const MatchCard* found = queue.oldest_of(from, 1);
    ASSERT_EQ(found == nullptr, oldest == right.end()) << "step " << step;
    ASSERT_TRUE(found == nullptr || found->send == oldest->send) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MatchQueues, ::testing::Range<uint64_t>(1, 17));

}  // namespace
}  // namespace lanyard
