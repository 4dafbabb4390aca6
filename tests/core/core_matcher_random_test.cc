// Matcher under random interleavings: cards of different pairs of processes arrive in any order,
// between any two in theirs.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/core/core_process.h"
#include "tests/contract/model_fabric.h"

namespace lanyard {
namespace {

using core::kAnySource;
using core::kAnyTag;

class RandomMatch {
 public:
  explicit RandomMatch(uint64_t seed)
      : random_(seed), ranks_(static_cast<uint32_t>(1 + draw(4))), fabric_(ranks_), mail_(ranks_) {
    mail_.shuffle(seed + 1'000'000);
    for (uint32_t rank = 0; rank < ranks_; ++rank)
      processes_.push_back(std::make_unique<Process>(fabric_.nic(rank), rank, mail_, core::Endpoint::Options{}));
  }

  void run() {
    for (uint64_t left = 5 + draw(60); left > 0;) {
      Process& process = *processes_[draw(ranks_)];
      if (draw(3) == 0) {
        process.matcher.progress();
        continue;
      }
      post(process);
      --left;
    }
    while (mail_.under_way() > 0)
      for (auto& process : processes_)
        process->matcher.progress();
  }

  // Every pair is one (both know it), and MPI's rules hold whatever the order of arrival was.
  void check() {
    pair_up();
    for (const Request* send : sends_) {
      for (const Request* receive : receives_) {
        if (!fits(*send, *receive))
          continue;
        ASSERT_TRUE(send->matched() || receive->matched())
            << send->describe() << " and " << receive->describe() << " wait side by side";
        if (partner_.contains(send) && partner_[send] == receive)
          continue;
        check_overtaking(*send, *receive);
      }
    }
  }

 private:
  uint64_t draw(uint64_t n) { return random_() % n; }

  void post(Process& process) {
    core::Transfer transfer = process.transfer(draw(2) == 0 ? core::Direction::kSend : core::Direction::kReceive,
                                               static_cast<int>(draw(ranks_)), static_cast<int>(draw(3)), 8);
    transfer.communicator = 1 + draw(2);
    if (transfer.direction == core::Direction::kSend) {
      transfer.ready = draw(4) == 0;
      sends_.push_back(&process.begin(transfer));
      return;
    }
    if (draw(4) == 0)
      transfer.peer = kAnySource;
    if (draw(4) == 0)
      transfer.tag = kAnyTag;
    receives_.push_back(&process.begin(transfer));
    owner_[receives_.back()] = process.rank;
  }

  bool fits(const Request& send, const Request& receive) {
    const core::Transfer& s = send.transfer;
    const core::Transfer& r = receive.transfer;
    return s.communicator == r.communicator && s.peer_nic == owner_[&receive] &&
           (r.peer == kAnySource || r.peer == s.rank) && (r.tag == kAnyTag || r.tag == s.tag);
  }

  // By the key that the send writes to.
  void pair_up() {
    std::map<std::pair<uint32_t, uint64_t>, const Request*> by_key;
    size_t matched = 0;
    for (const Request* receive : receives_) {
      if (!receive->matched())
        continue;
      const uint32_t at = owner_[receive];
      by_key[{at, fabric_.nic(at).key(receive->buffer).value().value}] = receive;
      ++matched;
    }
    for (const Request* send : sends_) {
      if (!send->matched())
        continue;
      const nic::RemoteSpan& to = send->plan.front().op.op.remote;
      const auto found = by_key.find({to.peer, to.key.value});
      ASSERT_NE(found, by_key.end());
      const Request* receive = found->second;
      by_key.erase(found);
      partner_[send] = receive;
      partner_[receive] = send;
      ASSERT_TRUE(fits(*send, *receive)) << send->describe() << " with " << receive->describe();
      ASSERT_EQ(receive->matched_peer, send->transfer.rank);
      ASSERT_EQ(receive->matched_tag, send->transfer.tag);
      ASSERT_EQ(receive->plan.size(), send->transfer.ready ? 1u : 2u);
      if (send->transfer.ready)
        continue;
      const nic::RemoteSpan& back = receive->plan.back().op.op.remote;
      const auto sender = static_cast<uint32_t>(send->transfer.rank);
      ASSERT_EQ(back.peer, sender);
      ASSERT_EQ(back.key, fabric_.nic(sender).key(send->clear_to_send).value());
    }
    ASSERT_TRUE(by_key.empty()) << "of " << matched << " matched receives";
  }

  // These two fit and are not each other's. Whoever took its place must have been there before.
  // Requests of one process are numbered in the order of posting.
  void check_overtaking(const Request& send, const Request& receive) {
    const Request* other_receive = partner_.contains(&send) ? partner_[&send] : nullptr;
    const Request* other_send = partner_.contains(&receive) ? partner_[&receive] : nullptr;
    if (other_send != nullptr && other_send->transfer.rank == send.transfer.rank && other_send->number > send.number) {
      // A later send of the same process got this receive: then ours had an older one.
      ASSERT_NE(other_receive, nullptr) << "send " << send.number << " was overtaken";
      ASSERT_LT(other_receive->number, receive.number);
    }
    if (other_receive != nullptr && other_receive->number > receive.number) {
      // A later receive got this send: then ours was taken, and not by a later send.
      ASSERT_NE(other_send, nullptr) << "receive " << receive.number << " was overtaken";
      if (other_send->transfer.rank == send.transfer.rank) {
        ASSERT_LT(other_send->number, send.number);
      }
    }
  }

  std::mt19937_64 random_;
  const uint32_t ranks_;
  ModelFabric fabric_;
  Mail mail_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<const Request*> sends_, receives_;
  std::map<const Request*, uint32_t> owner_;  // the process of a receive
  std::map<const Request*, const Request*> partner_;
};

TEST(RandomMatching, OneThousandSeeds) {
  for (uint64_t seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomMatch match(seed);
    match.run();
    ASSERT_NO_FATAL_FAILURE(match.check());
  }
}

}  // namespace
}  // namespace lanyard
