// Process: one process's part of the protocol for tests, with its requests' buffers. Mail: delivers
// match cards between simulated processes in one thread.
#ifndef LANYARD_TESTS_CORE_CORE_PROCESS_H_
#define LANYARD_TESTS_CORE_CORE_PROCESS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/lane.h"
#include "tests/support/expect.h"
#include "transport/core/endpoint.h"
#include "transport/core/match_queues.h"
#include "transport/core/matcher.h"
#include "transport/core/queue.h"

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

using core::Request;

// Message content that differs by seed. No byte is zero.
inline uint8_t pattern(uint64_t seed, uint64_t at) {
  return static_cast<uint8_t>(((seed + 1) * 0x9e3779b97f4a7c15u + at * 0xd1342543de82ef95u) >> 40 | 1);
}

// A rank of communicator 1, which has all ranks of the job. The NIC and the mail must outlive it.
class Process {
 public:
  Process(nic::Nic& nic, uint32_t rank, Mail& mail, core::Endpoint::Options options)
      : rank(rank), endpoint(nic, rank, options), matcher(endpoint, mail.courier(rank)) {}

  core::Transfer transfer(core::Direction direction, int peer, int tag, uint64_t bytes) {
    core::Transfer made;
    made.direction = direction;
    buffers_.emplace_back(bytes);
    made.buffer = buffers_.back().data();
    made.bytes = bytes;
    made.communicator = 1;
    made.rank = static_cast<int>(rank);
    made.peer = peer;
    made.peer_nic = static_cast<uint32_t>(peer < 0 ? 0 : peer);
    made.tag = tag;
    return made;
  }
  // A new request; its match has begun.
  Request& begin(const core::Transfer& transfer) {
    Request* request = endpoint.new_request(transfer);
    EXPECT_TRUE(works(matcher.begin(*request)));
    return *request;
  }
  Request& send(int peer, int tag, uint64_t bytes, bool ready = false) {
    core::Transfer made = transfer(core::Direction::kSend, peer, tag, bytes);
    made.ready = ready;
    return begin(made);
  }
  Request& receive(int peer, int tag, uint64_t bytes) {
    return begin(transfer(core::Direction::kReceive, peer, tag, bytes));
  }

  const uint32_t rank;
  core::Endpoint endpoint;
  core::Matcher matcher;

 private:
  std::deque<std::vector<uint8_t>> buffers_;
};

// ---- Contents of a request's buffer

inline uint8_t* bytes_of(Request& request) { return static_cast<uint8_t*>(request.transfer.buffer); }
inline void fill(Request& request, uint64_t seed) {
  for (uint64_t i = 0; i < request.transfer.bytes; ++i)
    bytes_of(request)[i] = pattern(seed, i);
}
inline void clear(Request& request) {
  for (uint64_t i = 0; i < request.transfer.bytes; ++i)
    bytes_of(request)[i] = 0;
}
// Whether the buffer holds the message of that seed and zeros after it.
inline bool holds(Request& request, uint64_t seed) {
  for (uint64_t i = 0; i < request.transfer.bytes; ++i)
    if (bytes_of(request)[i] != (i < request.matched_bytes ? pattern(seed, i) : 0))
      return false;
  return true;
}
inline bool is_clear(Request& request) {
  for (uint64_t i = 0; i < request.transfer.bytes; ++i)
    if (bytes_of(request)[i] != 0)
      return false;
  return true;
}

}  // namespace lanyard

#endif  // LANYARD_TESTS_CORE_CORE_PROCESS_H_
