// The rules of transport/core/control_channel.h as tests over every NIC that keeps the contract of
// nic.h. Instantiate it as the NIC contract (nic_contract.h).
#ifndef LANYARD_TESTS_CONTROL_CHANNEL_CONTRACT_H_
#define LANYARD_TESTS_CONTROL_CHANNEL_CONTRACT_H_

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tests/contract/nic_contract_fixture.h"
#include "transport/core/control_channel.h"
#include "transport/nic/nic.h"

namespace lanyard::nic_contract {

using core::ControlChannel;

// Counts the operations that the channel issues.
class CountingNic final : public nic::ForwardingNic {
 public:
  using ForwardingNic::ForwardingNic;
  Status issue(const Op& op) override {
    const Status status = inner().issue(op);
    if (!status.ok())
      return status;
    ++(op.kind == OpKind::kWrite ? writes : sums);
    longest_bytes = std::max(longest_bytes, op.bytes);
    return {};
  }
  uint64_t writes = 0, sums = 0, longest_bytes = 0;
};

// A NIC that delays and refuses issued operations at random. Later ones may overtake (N7), and it
// may be full (N9).
class UnrulyNic final : public nic::ForwardingNic {
 public:
  UnrulyNic(Nic& inner, uint64_t seed) : ForwardingNic(inner), random_(seed) {}
  Status issue(const Op& op) override {
    if (random_() % 4 == 0)
      return {Code::kAgain, "full"};
    held_.push_back(op);
    return {};
  }
  size_t progress() override {
    while (!held_.empty() && random_() % 3 != 0) {
      const size_t which = random_() % held_.size();
      if (!inner().issue(held_[which]).ok())
        break;
      held_.erase(held_.begin() + static_cast<ptrdiff_t>(which));
    }
    return inner().progress();
  }

 private:
  std::mt19937_64 random_;
  std::deque<Op> held_;
};

class ChannelContract : public NicContract {
 protected:
  using Bytes = std::vector<std::byte>;

  // Message `number` between two ranks; its bytes follow from the arguments.
  static Bytes message(uint32_t from, uint32_t to, uint64_t number, size_t bytes) {
    Bytes made(bytes);
    for (size_t i = 0; i < bytes; ++i)
      made[i] = Memory::pattern(from * 1000 + to * 100 + number * 7919, i);
    return made;
  }

  void open(uint32_t ranks, bool unruly = false, uint32_t slots = ControlChannel::kLeastSlots) {
    start({.nics = ranks, .max_regions = 64});
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (unruly)
        unruly_.push_back(std::make_unique<UnrulyNic>(nic(rank), rank + 1));
      nics_.push_back(unruly ? unruly_.back().get() : &nic(rank));
    }
    open_on_nics(slots);
  }
  void open_on_nics(uint32_t slots, bool introduced = true) {
    const auto ranks = static_cast<uint32_t>(nics_.size());
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      Result<std::unique_ptr<ControlChannel>> channel = ControlChannel::open(*nics_[rank], rank, ranks, slots);
      EXPECT_TRUE(works(channel.status()));
      channels_.push_back(std::move(channel.value()));
    }
    for (uint32_t rank = 0; rank < ranks; ++rank)
      for (uint32_t peer = 0; peer < ranks; ++peer)
        if (introduced && peer != rank)
          channels_[rank]->introduce(peer, channels_[peer]->key());
  }
  ControlChannel& channel(uint32_t rank) { return *channels_[rank]; }
  bool all_taken(uint32_t rank) {
    for (uint32_t peer = 0; peer < channel(rank).ranks(); ++peer)
      if (!channel(rank).has_taken_all(peer))
        return false;
    return true;
  }

  void drive(uint32_t rank) {
    nics_[rank]->progress();
    channel(rank).notice();
    channel(rank).progress();
    while (auto failure = nics_[rank]->take_failure())
      if (failure->context == ControlChannel::kContext)
        channel(rank).fail(failure->peer);
    while (auto message = channel(rank).receive())
      got_[{message->from, rank}].push_back(std::move(message->bytes));
  }
  template <typename Done>
  [[nodiscard]] bool until(Done done) {
    return eventually([&] {
      for (uint32_t rank = 0; rank < channels_.size(); ++rank)
        if (!idle_[rank])
          drive(rank);
      return done();
    });
  }
  void TearDown() override {
    if (!channels_.empty())
      settle();  // lets operations end, else memory they name would never be freed
    channels_.clear();
    unruly_.clear();
    NicContract::TearDown();
  }

  std::vector<std::unique_ptr<UnrulyNic>> unruly_;
  std::vector<Nic*> nics_;
  std::vector<std::unique_ptr<ControlChannel>> channels_;
  std::map<uint32_t, bool> idle_;  // ranks that do not progress
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Bytes>> got_;
};

// C1, C2: messages of all lengths, to another rank and to oneself, in lanes of any length, sent
// faster than they are read.
TEST_P(ChannelContract, OrderAndContentInLanesOfAnyLength) {
  constexpr uint64_t kMessages = 100;
  constexpr size_t kEdges[] = {0, 1, 7, 8, 223, 224, 225, 447, 448, 449, 896, 1000, 5000, 3};
  const auto bytes = [&](uint64_t i) { return i % 2 ? i * 89 % 1500 : kEdges[i / 2 % std::size(kEdges)]; };
  const std::pair<uint32_t, uint32_t> pairs[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  for (const uint32_t slots : {1u, 2u, 3u, 16u, ControlChannel::kMostSlots}) {
    for (const bool unruly : {false, true}) {
      SCOPED_TRACE(std::to_string(slots) + (unruly ? " slots, unruly" : " slots"));
      open(2, unruly, slots);
      for (uint64_t i = 0; i < kMessages; ++i) {
        for (const auto& [from, to] : pairs)
          channel(from).send(to, message(from, to, i, bytes(i)));
        if (i % 40 == 0)
          drive(i / 40 % 2);
      }
      ASSERT_TRUE(until([&] {
        return std::all_of(std::begin(pairs), std::end(pairs),
                           [&](auto pair) { return got_[pair].size() >= kMessages; });
      }));
      EXPECT_TRUE(until([&] { return all_taken(0) && all_taken(1); }));
      for (const auto& [from, to] : pairs)
        for (uint64_t i = 0; i < kMessages; ++i)
          ASSERT_EQ((got_[{from, to}][i]), message(from, to, i, bytes(i))) << from << " to " << to << ": " << i;
      got_.clear();
      TearDown();
      nics_.clear();
    }
  }
}

// C6: queued messages go out together, in few operations.
TEST_P(ChannelContract, QueuedMessagesGoTogether) {
  start({.nics = 2, .max_regions = 64});
  constexpr uint32_t kSlots = 8;
  constexpr uint64_t kMessages = 400;
  CountingNic counting(nic(0));
  nics_ = {&counting, &nic(1)};
  open_on_nics(kSlots);
  for (uint64_t number = 0; number < kMessages; ++number)
    channel(0).send(1, message(0, 1, number, 100));
  EXPECT_LE(counting.writes, kSlots);
  ASSERT_TRUE(until([&] { return got_[{0, 1}].size() == kMessages && all_taken(0); }));
  for (uint64_t number = 0; number < kMessages; ++number)
    ASSERT_EQ((got_[{0, 1}][number]), message(0, 1, number, 100)) << number;
  EXPECT_EQ(counting.sums, counting.writes) << "each write is announced once";
  EXPECT_LE(counting.longest_bytes, kSlots * 256u);
  if (nic(0).caps().max_message_bytes >= kSlots * 256u) {
    EXPECT_LE(counting.writes, kSlots + (kMessages - kSlots) / 2) << "of " << kMessages << " slots";
  }
  settle();
  channels_.clear();  // must end before `counting`
}

TEST_P(ChannelContract, LongestMessage) {
  open(2);
  const Bytes longest = message(0, 1, 1, ControlChannel::kMaxMessageBytes);
  channel(0).send(1, longest);
  channel(0).send(1, message(0, 1, 2, 10));
  ASSERT_TRUE(until([&] { return got_[{0, 1}].size() == 2; }));
  EXPECT_EQ((got_[{0, 1}][0]), longest);
  EXPECT_EQ((got_[{0, 1}][1]), message(0, 1, 2, 10));
}

// C5, C2, C3: a peer that reads nothing delays no other peer and uses no entry. Once it
// reads, everything arrives.
TEST_P(ChannelContract, APeerThatDoesNotReadDelaysNoOther) {
  open(3);
  idle_[2] = true;
  for (uint64_t number = 0; number < 40; ++number) {
    channel(0).send(2, message(0, 2, number, 300));
    channel(1).send(2, message(1, 2, number, 20));
  }
  for (uint64_t number = 0; number < 40; ++number) {
    channel(0).send(1, message(0, 1, number, 300));
    channel(1).send(0, message(1, 0, number, 100));
  }
  ASSERT_TRUE(until([&] { return got_[{0, 1}].size() == 40 && got_[{1, 0}].size() == 40; }));
  EXPECT_FALSE(got_.contains({0, 2}));
  EXPECT_EQ(nic(0).free_entries(), depth(0));
  EXPECT_FALSE(all_taken(0));
  idle_[2] = false;
  ASSERT_TRUE(until([&] { return got_[{0, 2}].size() == 40 && got_[{1, 2}].size() == 40; }));
  for (uint64_t number = 0; number < 40; ++number) {
    EXPECT_EQ((got_[{0, 2}][number]), message(0, 2, number, 300));
    EXPECT_EQ((got_[{1, 2}][number]), message(1, 2, number, 20));
  }
}

// C4: a peer whose memory is gone is lost; other peers are not.
TEST_P(ChannelContract, APeerThatCannotBeReachedIsLost) {
  open(3);
  channel(0).send(1, message(0, 1, 0, 10));
  ASSERT_TRUE(until([&] { return got_[{0, 1}].size() == 1 && all_taken(0); }));
  channels_[2].reset();
  idle_[2] = true;
  for (uint64_t number = 0; number < 20; ++number)
    channel(0).send(2, message(0, 2, number, 500));
  channel(0).send(1, message(0, 1, 1, 10));
  ASSERT_TRUE(until([&] { return channel(0).lost(2) && got_[{0, 1}].size() == 2; }));
  EXPECT_FALSE(channel(0).lost(1));
  EXPECT_TRUE(until([&] { return all_taken(0); }));
  channel(0).send(2, message(0, 2, 99, 500));
  EXPECT_TRUE(all_taken(0));
}

TEST_P(ChannelContract, C7_MessagesWaitForAnIntroduction) {
  start({.nics = 2, .max_regions = 64});
  nics_ = {&nic(0), &nic(1)};
  open_on_nics(16, /*introduced=*/false);
  EXPECT_FALSE(channel(0).knows(1));
  channel(0).send(1, message(0, 1, 0, 1000));
  EXPECT_FALSE(channel(0).has_taken_all(1));
  channel(1).introduce(0, channel(0).key());
  channel(1).send(0, message(1, 0, 0, 10));
  ASSERT_TRUE(until([&] { return got_[{1, 0}].size() == 1; }));
  EXPECT_EQ((got_[{1, 0}][0]), message(1, 0, 0, 10));
  EXPECT_TRUE((got_[{0, 1}].empty()));
  channel(0).introduce(1, channel(1).key());
  ASSERT_TRUE(until([&] { return got_[{0, 1}].size() == 1 && all_taken(0) && all_taken(1); }));
  EXPECT_EQ((got_[{0, 1}][0]), message(0, 1, 0, 1000));
}

TEST_P(ChannelContract, AClosedChannelSendsNothingAndHoldsNoRegion) {
  open(2);
  channel(0).send(1, message(0, 1, 0, 1000));
  ASSERT_TRUE(until([&] { return got_[{0, 1}].size() == 1 && all_taken(0); }));
  ASSERT_TRUE(eventually([&] {
    nic(0).progress();
    nic(1).progress();
    return channel(0).close();
  }));
  EXPECT_EQ(nic(0).usage().regions, 0u);
  channel(0).send(1, message(0, 1, 1, 10));
  settle();
  EXPECT_EQ((got_[{0, 1}].size()), 1u);
}

TEST_P(ChannelContract, ProgressDoesNothingIfNothingIsNoticed) {
  open(2);
  channel(0).send(1, message(0, 1, 0, 10));
  ASSERT_TRUE(eventually([&] { return nic(1).read(channel(1).arrivals()).value().success >= 2; }));
  EXPECT_FALSE(channel(1).noticed());
  EXPECT_EQ(channel(1).progress(), 0u);
  EXPECT_FALSE(channel(1).receive().has_value());
  ASSERT_TRUE(until([&] { return got_[{0, 1}].size() == 1; }));
}

TEST_P(ChannelContract, EverythingIsReleased) {
  start({.nics = 2, .max_regions = 64});
  const State before = state();
  nics_ = {&nic(0), &nic(1)};
  open_on_nics(16);
  channel(0).send(1, message(0, 1, 0, 1000));
  ASSERT_TRUE(until([&] { return got_[{0, 1}].size() == 1 && all_taken(0); }));
  settle();
  channels_.clear();
  EXPECT_EQ(state(), before);
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_CONTROL_CHANNEL_CONTRACT_H_
