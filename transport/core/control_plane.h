// ControlPlane: what the processes of a job tell each other besides data, over the control channel: matching, and
// questions about what somebody waits for. Threads: see Endpoint; notice() may come from any.
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

// What a process has to know of another before it can send to it. Plain data.
struct Introduction {
  uint32_t address_bytes = 0;
  uint32_t unused = 0;
  nic::RemoteKey control;  // of the channel's end
  std::byte address[nic::Address::kMaxBytes] = {};
};

class ControlPlane final : private Courier {
 public:
  // Takes what is not about matching; called by progress().
  using Listener = std::function<void(uint32_t from, std::span<const std::byte> message)>;

  // `endpoint` outlives it.
  ControlPlane(Endpoint& endpoint, std::unique_ptr<ControlChannel> channel);

  // This process's. Whoever has it can send here, and is known here in turn.
  Introduction introduction() const;
  // A peer has introduced itself by other means than the card; does nothing where it is known. It gets
  // this process's introduction by the card. A peer whose address is refused is lost from then on.
  void meet(uint32_t peer, const Introduction& introduction);
  bool knows(uint32_t peer) const { return channel_->knows(peer); }
  // The introduction of a peer, if it is known.
  const std::optional<Introduction>& introduction_of(uint32_t peer) const { return introductions_[peer]; }
  // The peer cannot be reached, and will not be: "has no network card".
  void give_up(uint32_t peer, std::string why) { channel_->fail(peer, std::move(why)); }
  // The same. Neither side waits for the other in leave().
  void part_from(uint32_t peer, std::string why) {
    left_[peer] = true;
    give_up(peer, std::move(why));
  }
  bool has_left(uint32_t peer) const { return left_[peer]; }
  // Takes leave of all peers that are known: false until each has done so too, or is lost without ever
  // having sent anything, and no operation is under way. To be called again and again, with progress()
  // between. From the first call on the program sends nothing.
  bool leave();
  // The peer has ended without having taken leave.
  bool left_without_leave(uint32_t peer) const { return knows(peer) && lost(peer) && heard_[peer] && !left_[peer]; }

  // Has the NIC call `wake` when something arrives. True where it can; else somebody must call notice() and progress()
  // every so often. The listener goes with the plane.
  bool listen(nic::Listener wake);
  // The NIC calls it no more, once this returns.
  void stop_listening();
  ~ControlPlane() override;

  Matcher& matcher() { return matcher_; }
  void on_message(Listener listener) { listener_ = std::move(listener); }
  // Never blocks. A peer that cannot be reached never gets it.
  void tell(uint32_t rank, std::span<const std::byte> message);
  // Whether the peer has ended, or cannot be reached.
  bool lost(uint32_t rank) const { return channel_->lost(rank); }
  // "rank 3 has ended". Requires lost().
  std::string why_lost(uint32_t rank) const { return channel_->why_lost(rank); }

  // While one lives, cards wait here for others to the same process, so that many go in one message. Its end sends
  // them, as progress() does. The plane outlives it.
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
  // Deals with what has arrived, and hands on what waits; returns how many steps that was. Little more than a load
  // where there is nothing. Never blocks.
  size_t progress();
  // Whether there may be something for progress() to do.
  bool pending() const {
    return channel_->noticed() || channel_->pending() || matcher_.owes() > 0 || endpoint_.has_questions() ||
           endpoint_.has_unannounced_failures();
  }
  // Whether everything that this peer was told has reached it, or never will. A peer that is not known was told
  // nothing.
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
  // False where the address is refused: the peer is lost then.
  bool learn(uint32_t peer, const Introduction& introduction);

  Endpoint& endpoint_;
  const std::unique_ptr<ControlChannel> channel_;
  Matcher matcher_;
  Listener listener_;
  std::deque<MatchCard> cards_;
  std::deque<gpu::LaneOffer> lanes_;                // of those that have one, in their order
  gpu::LaneOffer lane_;                             // of the last
  uint32_t batches_ = 0;                            // that live
  std::vector<std::vector<std::byte>> card_bytes_;  // by rank: cards that wait to be sent, or for an introduction
  std::vector<uint32_t> card_ranks_;                // that may have some
  std::vector<std::optional<Introduction>> introductions_;  // by rank
  std::vector<bool> lost_;                                  // peers that the matcher knows of
  std::vector<bool> heard_;                                 // peers that have sent something,
  std::vector<bool> left_;                                  // have taken leave,
  std::vector<bool> told_;                                  // or were told of this process's
  uint64_t lost_seen_ = 0;                                  // of the NIC's
  bool listens_ = false;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_CONTROL_PLANE_H_
