// PostedQueue and OfferQueue, compared with lists that are searched from the front.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <vector>

#include "transport/core/match_queues.h"

namespace lanyard::core {
namespace {

bool fits(const Transfer& receive, const MatchCard& offer) {
  return receive.communicator == offer.communicator && (receive.peer == kAnySource || receive.peer == offer.source) &&
         (receive.tag == kAnyTag || receive.tag == offer.tag);
}

class MatchQueues : public ::testing::TestWithParam<uint64_t> {
 protected:
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
}  // namespace lanyard::core
