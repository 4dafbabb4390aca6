// Mail: delivers match cards between simulated processes in one thread.
#ifndef LANYARD_TESTS_CORE_MAIL_H_
#define LANYARD_TESTS_CORE_MAIL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/lane.h"
#include "transport/core/match_queues.h"

namespace lanyard {

// Keeps the order between any two processes. Otherwise cards arrive in the order of their
// senders' ranks.
class Mail {
 public:
  explicit Mail(uint32_t processes) {
    for (uint32_t rank = 0; rank < processes; ++rank)
      boxes_.push_back(std::make_unique<Box>(*this, rank, processes));
  }

  core::Courier& courier(uint32_t rank) { return *boxes_[rank]; }

  // Later sends of that process fail, after `after` more that succeed.
  void break_down(uint32_t rank, uint64_t after = 0) { boxes_[rank]->left_to_send = after; }
  void repair(uint32_t rank) { boxes_[rank]->left_to_send.reset(); }
  // The process has ended: no more cards come from it, and every process knows.
  void end(uint32_t rank) { ended_.push_back(rank); }

  uint64_t sent() const { return sent_; }
  size_t under_way() const {
    size_t count = 0;
    for (const auto& box : boxes_)
      for (const auto& from : box->from)
        count += from.size();
    return count;
  }

 private:
  struct Letter {
    core::MatchCard card;
    gpu::LaneOffer lane;  // valid if the card announces one
  };
  struct Box final : core::Courier {
    Box(Mail& mail, uint32_t rank, uint32_t processes) : mail(mail), rank(rank), from(processes) {}

    Status send(uint32_t to, const core::MatchCard& card, const gpu::LaneOffer* lane) override {
      if (left_to_send == 0)
        return {Code::kFailed, "the test has broken the mail down"};
      if (left_to_send)
        --*left_to_send;
      mail.boxes_.at(to)->from[rank].push_back({card, lane != nullptr ? *lane : gpu::LaneOffer()});
      ++mail.sent_;
      return {};
    }
    std::optional<std::string> why_unreachable(uint32_t nic) const override {
      const bool ended = std::find(mail.ended_.begin(), mail.ended_.end(), nic) != mail.ended_.end();
      return ended ? std::optional("rank " + std::to_string(nic) + " has ended") : std::nullopt;
    }
    std::optional<core::MatchCard> receive() override {
      for (auto& letters : from) {
        if (letters.empty())
          continue;
        const Letter letter = letters.front();
        letters.pop_front();
        last_lane = letter.lane;
        return letter.card;
      }
      return std::nullopt;
    }
    const gpu::LaneOffer& lane() const override { return last_lane; }

    Mail& mail;
    const uint32_t rank;
    std::vector<std::deque<Letter>> from;
    gpu::LaneOffer last_lane;
    std::optional<uint64_t> left_to_send;
  };

  std::vector<std::unique_ptr<Box>> boxes_;
  uint64_t sent_ = 0;
  std::vector<uint32_t> ended_;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_CORE_MAIL_H_
