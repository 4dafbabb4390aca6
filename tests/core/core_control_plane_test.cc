// ControlPlane: matching messages, other messages and introductions between two simulated NICs.
#include "transport/core/control_plane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/core/core_process.h"
#include "tests/contract/local_fabric.h"

namespace lanyard {
namespace {

using core::ControlChannel;
using core::ControlPlane;

constexpr uint32_t kRanks = 2;

// Of a message between ranks 0 and 1.
core::Transfer transfer(uint32_t rank, core::Direction direction, std::span<uint8_t> memory) {
  core::Transfer made;
  made.direction = direction;
  made.buffer = memory.data();
  made.bytes = memory.size();
  made.communicator = 1;
  made.rank = static_cast<int>(rank);
  made.peer = static_cast<int>(1 - rank);
  made.peer_nic = 1 - rank;
  made.tag = 3;
  return made;
}

class Planes : public ::testing::Test {
 protected:
  struct Rank {
    Rank(nic::Nic& nic, uint32_t rank) : endpoint(nic, rank, {}) {}
    core::Endpoint endpoint;
    std::unique_ptr<ControlPlane> plane;
  };

  void SetUp() override {
    std::vector<std::unique_ptr<ControlChannel>> channels;
    std::vector<nic::RemoteKey> keys;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      channels.push_back(std::move(ControlChannel::open(fabric_.nic(rank), rank, kRanks, 8).value()));
      arrivals_.push_back(channels.back()->arrivals());
      keys.push_back(channels.back()->key());
    }
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      for (uint32_t peer = 0; peer < kRanks; ++peer)
        if (peer != rank)
          channels[rank]->introduce(peer, keys[peer]);
      ranks_.push_back(std::make_unique<Rank>(fabric_.nic(rank), rank));
      ranks_[rank]->plane = std::make_unique<ControlPlane>(ranks_[rank]->endpoint, std::move(channels[rank]));
    }
  }
  void TearDown() override { drain(); }
  // Waits until no message, credit or acknowledgement is in flight: they use the channels' memory.
  void drain() {
    constexpr int kHops = 4;
    for (int hop = 0; hop < kHops; ++hop)
      for (uint32_t rank = 0; rank < kRanks; ++rank)
        if (ranks_[rank] != nullptr)
          (void)arrivals(rank);
  }
  ControlPlane& plane(uint32_t rank) { return *ranks_[rank]->plane; }
  core::Endpoint& endpoint(uint32_t rank) { return ranks_[rank]->endpoint; }
  void tell(uint32_t from, uint32_t to, const std::string& text) {
    plane(from).tell(to, std::as_bytes(std::span(text.data(), text.size())));
  }
  void keep_what_arrives(uint32_t rank) {
    plane(rank).on_message([this](uint32_t, std::span<const std::byte> message) {
      got_.emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
    });
  }
  void drive(uint32_t rank) {
    fabric_.nic(rank).progress();
    plane(rank).notice();
    plane(rank).progress();
  }
  void drive_all() {
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      drive(rank);
    std::this_thread::yield();
  }
  uint64_t arrivals(uint32_t rank) { return fabric_.nic(rank).read(arrivals_[rank]).value().success; }
  template <typename Done>
  [[nodiscard]] bool until(Done done) {
    return eventually(done, [&] { drive_all(); });
  }
  uint8_t memory_[kRanks][64] = {};
  LocalFabric fabric_{kRanks};
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<nic::CounterId> arrivals_;  // by rank: counts the writes and sums for its channel
  std::vector<std::string> got_;
};

// The listener is not called for messages that arrived before listen(). listen() notices them.
TEST_F(Planes, ListenNoticesEarlierMessages) {
  keep_what_arrives(1);
  tell(0, 1, "first");
  ASSERT_TRUE(until([&] { return got_.size() == 1 && plane(0).has_taken_all(1); }));
  const uint64_t a_message = arrivals(1);
  ASSERT_GT(a_message, 0u);
  tell(0, 1, "early");
  ASSERT_TRUE(eventually([&] { return arrivals(1) == 2 * a_message; }, [&] { drive(0); }));
  std::atomic<int> calls{0};
  ASSERT_TRUE(plane(1).listen({[](void* count) { static_cast<std::atomic<int>*>(count)->fetch_add(1); }, &calls}));
  EXPECT_TRUE(plane(1).pending());
  while (plane(1).pending())
    plane(1).progress();
  EXPECT_EQ(got_, (std::vector<std::string>{"first", "early"}));
  EXPECT_EQ(calls.load(), 0);
  plane(1).stop_listening();
}

// Both kinds of message use one channel, and each kind arrives in order.
TEST_F(Planes, MatchCardsGoToTheMatcherAndMessagesToTheListener) {
  keep_what_arrives(1);
  core::Request& send = *endpoint(0).new_request(transfer(0, core::Direction::kSend, memory_[0]));
  core::Request& receive = *endpoint(1).new_request(transfer(1, core::Direction::kReceive, memory_[1]));
  tell(0, 1, "first");
  ASSERT_TRUE(works(plane(0).matcher().begin(send)));
  tell(0, 1, "");
  ASSERT_TRUE(works(plane(1).matcher().begin(receive)));
  tell(0, 1, "last");
  ASSERT_TRUE(until([&] { return got_.size() == 3 && send.matched() && receive.matched(); }));
  EXPECT_EQ(got_, (std::vector<std::string>{"first", "", "last"}));
  EXPECT_EQ(send.matched_bytes, sizeof memory_[0]);
}

// Match cards of a batch wait until it ends. Then few messages carry them, in order.
TEST_F(Planes, MatchCardsOfABatchGoTogether) {
  constexpr size_t kPairs = 100;
  std::vector<core::Request*> sends, receives;
  const uint64_t before = arrivals(1);
  {
    const ControlPlane::Batch batch(plane(0));
    for (size_t i = 0; i < kPairs; ++i) {
      sends.push_back(endpoint(0).new_request(transfer(0, core::Direction::kSend, memory_[0])));
      ASSERT_TRUE(works(plane(0).matcher().begin(*sends.back())));
    }
    EXPECT_FALSE(plane(0).has_taken_all(1));
    drive(1);
    EXPECT_EQ(arrivals(1), before) << "a match card was sent before the batch ended";
  }
  for (size_t i = 0; i < kPairs; ++i) {
    receives.push_back(endpoint(1).new_request(transfer(1, core::Direction::kReceive, memory_[1])));
    ASSERT_TRUE(works(plane(1).matcher().begin(*receives.back())));
  }
  ASSERT_TRUE(until([&] { return sends.back()->matched() && receives.back()->matched(); }));
  for (size_t i = 0; i < kPairs; ++i) {
    ASSERT_TRUE(sends[i]->matched() && receives[i]->matched()) << i;
    EXPECT_EQ(sends[i]->matched_number, receives[i]->number);
  }
  EXPECT_LT(arrivals(1) - before, kPairs) << "a card that is sent alone takes a write and a sum";
}

// A match with a peer that has ended fails with its name. Messages to the peer are dropped.
TEST_F(Planes, AnEndedPeerFailsItsMatches) {
  core::Request& before = *endpoint(0).new_request(transfer(0, core::Direction::kReceive, memory_[0]));
  ASSERT_TRUE(works(plane(0).matcher().begin(before)));
  tell(0, 1, "only a peer with messages is checked for its end");
  ASSERT_TRUE(until([&] { return plane(0).has_taken_all(1); }));
  drain();
  ranks_[1].reset();
  fabric_.end(1);
  const auto serve = [&] { drive(0); };
  ASSERT_TRUE(eventually([&] { return before.state == core::Request::State::kFresh; }, serve));
  EXPECT_TRUE(has(before.match_error, "rank 1"));
  EXPECT_TRUE(plane(0).lost(1));
  EXPECT_TRUE(has(plane(0).why_lost(1), "rank 1"));
  tell(0, 1, "dropped");
  ASSERT_TRUE(eventually([&] { return plane(0).has_taken_all(1); }, serve));
}

// ---- Introductions

// Two processes that do not know each other's address.
class Strangers : public ::testing::Test {
 protected:
  void SetUp() override {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      nic::Nic& nic = fabric_.nic(rank);
      std::vector<nic::Address> addresses(2);
      addresses[rank] = nic.address();
      ASSERT_TRUE(works(nic.set_peers(addresses, rank)));
      endpoints_[rank] = std::make_unique<core::Endpoint>(nic, rank, core::Endpoint::Options{});
      planes_[rank] =
          std::make_unique<ControlPlane>(*endpoints_[rank], std::move(ControlChannel::open(nic, rank, 2, 8).value()));
    }
  }
  // The NIC may use memory of a plane until its messages have ended.
  void TearDown() override { EXPECT_TRUE(leave()); }
  void drive(uint32_t rank) {
    fabric_.nic(rank).progress();
    if (planes_[rank] == nullptr)
      return;
    planes_[rank]->notice();
    planes_[rank]->progress();
  }
  [[nodiscard]] bool until(const std::function<bool()>& done) {
    return eventually(done, [&] {
      drive(0);
      drive(1);
    });
  }

  [[nodiscard]] bool leave() {
    bool left[2] = {false, false};
    return until([&] {
      for (uint32_t rank : {0u, 1u})
        left[rank] = left[rank] || planes_[rank] == nullptr || planes_[rank]->leave();
      return left[0] && left[1];
    });
  }

  uint8_t memory_[2][64] = {};
  LocalFabric fabric_{2, {.limits = {}, .connected = false}};
  std::unique_ptr<core::Endpoint> endpoints_[2];
  std::unique_ptr<ControlPlane> planes_[2];
};

TEST_F(Strangers, OneIntroductionMakesBothKnown) {
  std::vector<std::string> got;
  planes_[1]->on_message([&](uint32_t, std::span<const std::byte> message) {
    got.emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
  });
  planes_[0]->tell(1, std::as_bytes(std::span("waits", 5)));
  EXPECT_FALSE(planes_[0]->knows(1));
  planes_[1]->meet(0, planes_[0]->introduction());
  EXPECT_TRUE(planes_[1]->knows(0));
  ASSERT_TRUE(until([&] { return !got.empty(); }));
  EXPECT_EQ(got, std::vector<std::string>{"waits"});
  EXPECT_TRUE(planes_[0]->knows(1));
  planes_[0]->meet(1, planes_[1]->introduction());  // a second one changes nothing
  EXPECT_FALSE(planes_[0]->lost(1));
}

TEST_F(Strangers, APeerWithABadAddressIsLostAndTheReasonIsReported) {
  core::Introduction nonsense = planes_[0]->introduction();
  nonsense.address[0] ^= std::byte{0xff};
  planes_[1]->meet(0, nonsense);
  EXPECT_FALSE(planes_[1]->knows(0));
  ASSERT_TRUE(planes_[1]->lost(0));
  EXPECT_TRUE(has(planes_[1]->why_lost(0), "rank 0 cannot be reached: "));
}

TEST_F(Strangers, LeaveWaitsForTheKnownPeers) {
  planes_[1]->meet(0, planes_[0]->introduction());
  ASSERT_TRUE(until([&] { return planes_[0]->knows(1); }));
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(planes_[0]->leave());
    drive(0);
    drive(1);
  }
  ASSERT_TRUE(leave());
  EXPECT_FALSE(planes_[0]->left_without_leave(1));
}

// Their match cards are longer than a message may be.
TEST_F(Strangers, AnyNumberOfOffersMayWaitForAnIntroduction) {
  constexpr size_t kPairs = 1300;
  std::vector<core::Request*> sends, receives;
  for (size_t i = 0; i < kPairs; ++i) {
    sends.push_back(endpoints_[0]->new_request(transfer(0, core::Direction::kSend, memory_[0])));
    receives.push_back(endpoints_[1]->new_request(transfer(1, core::Direction::kReceive, memory_[1])));
    ASSERT_TRUE(works(planes_[0]->matcher().begin(*sends.back())));
    ASSERT_TRUE(works(planes_[1]->matcher().begin(*receives.back())));
  }
  planes_[1]->meet(0, planes_[0]->introduction());
  ASSERT_TRUE(until([&] { return sends.back()->matched() && receives.back()->matched(); }));
  for (size_t i = 0; i < kPairs; ++i)
    ASSERT_EQ(sends[i]->matched_number, receives[i]->number) << i;
}

// The peer's introduction has arrived, but its process ended before it knew this one.
TEST_F(Strangers, AnOfferThatIsWithdrawnBeforeTheyMeetIsNeverSent) {
  core::Request& first = *endpoints_[0]->new_request(transfer(0, core::Direction::kSend, memory_[0]));
  core::Request& second = *endpoints_[0]->new_request(transfer(0, core::Direction::kSend, memory_[0]));
  core::Request& receive = *endpoints_[1]->new_request(transfer(1, core::Direction::kReceive, memory_[1]));
  ASSERT_TRUE(works(planes_[0]->matcher().begin(first)));
  planes_[0]->matcher().withdraw(first);
  EXPECT_TRUE(planes_[0]->has_taken_all(1));
  ASSERT_TRUE(works(planes_[0]->matcher().begin(second)));
  ASSERT_TRUE(works(planes_[1]->matcher().begin(receive)));
  planes_[1]->meet(0, planes_[0]->introduction());
  ASSERT_TRUE(until([&] { return second.matched() && receive.matched(); }));
  EXPECT_EQ(receive.matched_bytes, sizeof memory_[0]);
}

TEST_F(Strangers, LeaveDoesNotWaitForALostPeerThatNeverSentAnything) {
  planes_[1]->meet(0, planes_[0]->introduction());
  planes_[0].reset();
  endpoints_[0].reset();
  planes_[1]->give_up(0, "has ended");
  EXPECT_TRUE(until([&] { return planes_[1]->leave(); }));
  EXPECT_FALSE(planes_[1]->left_without_leave(0));
}

}  // namespace
}  // namespace lanyard
