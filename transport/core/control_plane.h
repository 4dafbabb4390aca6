// ControlPlane: all messages of a job besides data, over the control channel: introductions, match
// cards, leaving, and those of a listener. Threads: see Endpoint; any thread may call notice().
#ifndef LANYARD_TRANSPORT_CORE_CONTROL_PLANE_H_
#define LANYARD_TRANSPORT_CORE_CONTROL_PLANE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/core/control_channel.h"
#include "transport/core/endpoint.h"
#include "transport/core/matcher.h"

namespace lanyard::core {

// What a process needs to know of a peer before it can send to it. Plain data.
struct Introduction {
  uint32_t address_bytes = 0;
  uint32_t unused = 0;
  nic::RemoteKey control;  // of its control channel
  std::byte address[nic::Address::kMaxBytes] = {};
};

class ControlPlane final : private Courier {
 public:
  // Receives the messages of tell(). progress() calls it.
  using Listener = std::function<void(uint32_t from, std::span<const std::byte> message)>;

  // `endpoint` must outlive it.
  ControlPlane(Endpoint& endpoint, std::unique_ptr<ControlChannel> channel);

  // The introduction of this process. A peer that gets it answers with its own: see meet().
  Introduction introduction() const;
  // Takes an introduction that came by other means, and sends that of this process over the NIC.
  // Does nothing if the peer is known or lost. The peer is lost if the NIC refuses its address.
  void meet(uint32_t peer, const Introduction& introduction);
  bool knows(uint32_t peer) const { return channel_->knows(peer); }
  const std::optional<Introduction>& introduction_of(uint32_t peer) const { return introductions_[peer]; }
  // Marks the peer as lost for good. `why` is printed after its name: "has no network card".
  void give_up(uint32_t peer, std::string why) { channel_->fail(peer, std::move(why)); }
  // As give_up(), and counts as the peer's leave: leave() does not wait for it.
  void part_from(uint32_t peer, std::string why) {
    left_[peer] = true;
    give_up(peer, std::move(why));
  }
  bool has_left(uint32_t peer) const { return left_[peer]; }
  // Tells all known peers that this process leaves, and closes the channel. Call until true, with
  // progress() between. Send nothing after the first call. True if no operation is in flight and
  // each known peer has left and taken in all messages, or is lost and never sent one.
  bool leave();
  // True if the peer has ended without leaving.
  bool left_without_leave(uint32_t peer) const { return knows(peer) && lost(peer) && heard_[peer] && !left_[peer]; }

  // Makes the NIC call `wake` when a message arrives, until the plane ends. False if the NIC
  // cannot: then call notice() and progress() regularly.
  bool listen(nic::Listener wake);
  // After this returns, the NIC does not call `wake` again.
  void stop_listening();
  ~ControlPlane() override;

  Matcher& matcher() { return matcher_; }
  void on_message(Listener listener) { listener_ = std::move(listener); }
  // Sends a message to the peer's Listener. Never blocks. Dropped if the peer is lost.
  void tell(uint32_t rank, std::span<const std::byte> message);
  // True if the peer has ended or cannot be reached.
  bool lost(uint32_t rank) const { return channel_->lost(rank); }
  // "rank 3 has ended". Requires lost().
  std::string why_lost(uint32_t rank) const { return channel_->why_lost(rank); }

  // While a Batch exists, match cards for one process are collected, to go in one message. The end
  // of the last Batch sends them; so does progress(). The plane must outlive it.
  class Batch {
   public:
    explicit Batch(ControlPlane& plane) : plane_(plane) { ++plane_.batches_; }
    ~Batch() {
      if (--plane_.batches_ == 0)
        plane_.send_cards();
    }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

   private:
    ControlPlane& plane_;
  };

  void notice() { channel_->notice(); }
  // Handles what has arrived and sends what waits. Returns the number of steps. Costs little more
  // than a load if there is nothing to do. Never blocks.
  size_t progress();
  // True if progress() may have something to do.
  bool pending() const {
    return channel_->noticed() || channel_->pending() || matcher_.owes() > 0 || endpoint_.has_questions() ||
           endpoint_.has_unannounced_failures();
  }
  // True if the peer has taken in all messages sent to it, or is lost or not known.
  bool has_taken_all(uint32_t rank) const {
    return !knows(rank) || (card_bytes_[rank].empty() && channel_->has_taken_all(rank));
  }

 private:
  enum class Topic : uint64_t { kMatching, kOther, kIntroduction, kLeave };

  Status send(uint32_t nic, const MatchCard& card, const gpu::LaneOffer* lane) override;
  const gpu::LaneOffer& lane() const override { return lane_; }
  std::optional<MatchCard> receive() override;
  std::optional<std::string> why_unreachable(uint32_t nic) const override;
  void send_cards();
  void send_cards_to(uint32_t rank);
  void drop_offer(uint32_t rank, uint64_t send);
  bool take_card(uint32_t from, std::span<const std::byte>& body);
  void dispatch(const ControlChannel::Message& message);
  void look_for_lost_peers();
  // False if the NIC refuses the address: then the peer is lost.
  bool learn(uint32_t peer, const Introduction& introduction);

  Endpoint& endpoint_;
  const std::unique_ptr<ControlChannel> channel_;
  Matcher matcher_;
  Listener listener_;
  std::deque<MatchCard> cards_;
  std::deque<gpu::LaneOffer> lanes_;                        // of the cards in cards_ with a lane
  gpu::LaneOffer lane_;                                     // of the card last received
  uint32_t batches_ = 0;                                    // batches that exist
  std::vector<std::vector<std::byte>> card_bytes_;          // by rank: cards that are not sent yet
  std::vector<uint32_t> card_ranks_;                        // ranks that may have such cards
  std::vector<std::optional<Introduction>> introductions_;  // by rank, like the next four
  std::vector<bool> lost_;                                  // the matcher knows that it is lost
  std::vector<bool> heard_;                                 // it has sent a message
  std::vector<bool> left_;                                  // it has left
  std::vector<bool> told_;                                  // it was told that this process leaves
  uint64_t lost_seen_ = 0;  // lost peers counted by the NIC and the channel, at the last look
  bool listens_ = false;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_CONTROL_PLANE_H_
