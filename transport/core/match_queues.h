// What matching works with: the cards that two processes exchange, and its two queues, each searched for the oldest
// that fits (MPI 4.0 section 3.5): receives that wait for an offer, and offers that wait for a receive. All calls of
// the queues take logarithmic time, however many are alike.
#ifndef LANYARD_TRANSPORT_CORE_MATCH_QUEUES_H_
#define LANYARD_TRANSPORT_CORE_MATCH_QUEUES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "gpu/lane.h"
#include "transport/base/check.h"
#include "transport/core/request.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

// What two processes tell each other of a pair: while it is matched, and when it has come to its end. Plain data of one
// size, carried by a Courier.
struct MatchCard {
  enum class Kind : uint32_t {
    kOffer,      // sender to receiver: I have this send; or, with a `reader`: that one's lane is of no use to it
    kAccept,     // receiver to sender: it is matched, write here; with a lane: it is, once you have connected
    kReject,     // receiver to sender: it would not fit
    kDiffer,     // receiver to sender: this process follows another strategy
    kNoTrigger,  // receiver to sender: the clear-to-sends would need a counter, and this NIC has none left
    kWithdraw,   // sender to receiver: the send has been freed and is offered no more
    kFreed,      // either to the other: my side of the pair has been freed, and takes no part in starts beyond `starts`
    kFailed,     // either to the other: an operation of my side of the pair has failed
    kAsk,        // receiver to sender: have your starts up to `starts` ended, and well?
    kSound,      // sender to receiver: up to `starts` they have
    kConnected,  // sender to receiver: I have, and so it is matched
    kParted,     // either to the other: my side of the lane is gone, and will not write to yours
    kLast = kParted,
  };
  Kind kind = Kind::kOffer;
  uint32_t from_nic = 0;  // who wrote the card
  uint64_t communicator = 0;
  int32_t source = 0;  // the sender's rank in the communicator
  int32_t tag = 0;
  uint64_t bytes = 0;        // kOffer: the message's length; kReject: the receive's
  uint64_t send = 0;         // the sender's number for its request; an answer carries it back
  uint64_t receive = 0;      // kAccept: the receiver's number for its request
  uint64_t longest = 0;      // the longest message of the writer's NIC: both sides cut at the shorter of the two
  nic::RemoteKey key = {};   // kOffer: clear-to-send word; kAccept: the receive's buffer
  uint32_t ready = 0;        // kOffer: a ready send
  uint32_t merged = 0;       // kOffer: of a member of an exchange, whose trigger others' clear-to-sends reach, too
  uint32_t strategy = 0;     // kOffer, kDiffer: the writer's core::Strategy
  nic::RemoteKey flag = {};  // kAccept: the receive's done word, where senders raise it
  uint32_t lane = 0;         // kOffer, kAccept: the offer of a lane goes with the card, the writer's of that number
  uint32_t peer_lane = 0;    // answers to offers, offers that answer, kParted: the number of the reader's
  uint64_t set = 0;          // kOffer, kAccept: of the writer's exchange with two sets its Exchange::number; 0: of none
  uint64_t writer = 0;       // kFreed and later kinds: the writer's number for its request
  uint64_t reader = 0;       // likewise: the number of the other's
  uint64_t starts = 0;       // kFreed, kFailed: how often the writer's was started; kAsk, kSound: so many starts
};
static_assert(std::is_trivially_copyable_v<MatchCard>);

// Carries cards between the processes of a job, in order between any two, outside every communicator of the user's.
class Courier {
 public:
  virtual ~Courier() = default;
  // Never blocks; takes copies. With the offer of a lane where the card says that there is one.
  virtual Status send(uint32_t nic, const MatchCard& card, const gpu::LaneOffer* lane = nullptr) = 0;
  // The next card that has arrived, if any. Makes progress.
  virtual std::optional<MatchCard> receive() = 0;
  // What came with the card that was received last, where it says that something does.
  virtual const gpu::LaneOffer& lane() const { LANYARD_CHECK(false, "this courier carries no lanes"); }
  // Why no card will ever come from there, where that is known: "rank 3 has ended".
  virtual std::optional<std::string> why_unreachable(uint32_t) const { return std::nullopt; }
};

// By what MPI matches. A receive's may have wildcards.
struct Envelope {
  uint64_t communicator = 0;
  int source = 0;  // or kAnySource
  int tag = 0;     // or kAnyTag

  bool operator==(const Envelope&) const = default;
  // Which of the two are wildcards, as a number below kKinds.
  static constexpr unsigned kKinds = 4, kNoSource = 1, kNoTag = 2;
  unsigned kind() const { return (source == kAnySource ? kNoSource : 0) | (tag == kAnyTag ? kNoTag : 0); }
  // What a receive of that kind that fits it has.
  Envelope as(unsigned kind) const {
    return {communicator, kind & kNoSource ? kAnySource : source, kind & kNoTag ? kAnyTag : tag};
  }
};

// Items by envelope, and those of one envelope by age.
template <typename Item>
class AgesByEnvelope {
 public:
  using Ages = std::map<uint64_t, Item*>;  // oldest first

  void add(const Envelope& envelope, uint64_t age, Item& item) { ages_[envelope].emplace(age, &item); }
  // Requires that it is there.
  void remove(const Envelope& envelope, uint64_t age) {
    const auto found = ages_.find(envelope);
    found->second.erase(age);
    if (found->second.empty())
      ages_.erase(found);
  }
  // Null if there is none.
  const Ages* find(const Envelope& envelope) const {
    const auto found = ages_.find(envelope);
    return found == ages_.end() ? nullptr : &found->second;
  }
  bool empty() const { return ages_.empty(); }

 private:
  struct Hash {
    size_t operator()(const Envelope& envelope) const {
      const auto source = static_cast<uint32_t>(envelope.source), tag = static_cast<uint32_t>(envelope.tag);
      const uint64_t mixed = (uint64_t{source} << 32 | tag) + envelope.communicator * 0xff51afd7ed558ccdu;
      return (mixed ^ mixed >> 29) * 0x9e3779b97f4a7c15u >> 16;
    }
  };
  std::unordered_map<Envelope, Ages, Hash> ages_;
};

class PostedQueue {
 public:
  void add(Request& receive) {
    receive.posted = ++ever_posted_;
    receives_.add(envelope_of(receive), receive.posted, receive);
  }
  // Requires that it is there.
  void remove(Request& receive) { receives_.remove(envelope_of(receive), receive.posted); }
  // The oldest that fits an offer with that envelope; null if there is none.
  Request* find(const Envelope& offer) const {
    Request* oldest = nullptr;  // of the oldest of each kind
    for (unsigned kind = 0; kind < Envelope::kKinds; ++kind)
      if (const auto* ages = receives_.find(offer.as(kind)))
        if (Request* receive = ages->begin()->second; oldest == nullptr || receive->posted < oldest->posted)
          oldest = receive;
    return oldest;
  }
  bool empty() const { return receives_.empty(); }

 private:
  static Envelope envelope_of(const Request& receive) {
    return {receive.transfer.communicator, receive.transfer.peer, receive.transfer.tag};
  }
  AgesByEnvelope<Request> receives_;  // wildcards and all
  uint64_t ever_posted_ = 0;
};

class OfferQueue {
 public:
  struct Offer {
    Envelope envelope() const { return {card.communicator, card.source, card.tag}; }

    MatchCard card;
    std::shared_ptr<const gpu::LaneOffer> lane;  // where the card says that there is one
    uint64_t age = 0;
  };

  // Does nothing where that send is offered already.
  void add(const MatchCard& card, std::shared_ptr<const gpu::LaneOffer> lane = nullptr) {
    const auto [place, is_new] = offers_.try_emplace({card.from_nic, card.send});
    if (!is_new)
      return;
    Offer& offer = place->second = {.card = card, .lane = std::move(lane), .age = ++ever_offered_};
    for (unsigned kind = 0; kind < Envelope::kKinds; ++kind)
      if (is_indexed_[kind])
        by_envelope_.add(offer.envelope().as(kind), offer.age, offer);
  }
  // The oldest that a receive with that envelope fits, of those that `wanted` says yes to; null if there is none.
  template <typename Wanted>
  Offer* find(const Envelope& receive, Wanted wanted) {
    index(receive.kind());
    if (const auto* ages = by_envelope_.find(receive))
      for (const auto& [age, offer] : *ages)
        if (wanted(offer->card))
          return offer;
    return nullptr;
  }
  // That of the send of that number of that process; null if there is none.
  Offer* find_send(uint32_t from_nic, uint64_t send) {
    const auto found = offers_.find({from_nic, send});
    return found == offers_.end() ? nullptr : &found->second;
  }
  void remove(Offer& offer) {
    for (unsigned kind = 0; kind < Envelope::kKinds; ++kind)
      if (is_indexed_[kind])
        by_envelope_.remove(offer.envelope().as(kind), offer.age);
    offers_.erase({offer.card.from_nic, offer.card.send});
  }
  // Whatever that process has offered goes.
  void remove_all_of(uint32_t from_nic) {
    for (auto offer = offers_.lower_bound({from_nic, 0}); offer != offers_.end() && offer->first.first == from_nic;)
      remove((offer++)->second);
  }
  // The oldest of that process and communicator; null if there is none. Looks at all of that process.
  const MatchCard* oldest_of(uint32_t from_nic, uint64_t communicator) const {
    const Offer* oldest = nullptr;
    for (auto each = offers_.lower_bound({from_nic, 0}); each != offers_.end() && each->first.first == from_nic; ++each)
      if (const Offer& offer = each->second;
          offer.card.communicator == communicator && (oldest == nullptr || offer.age < oldest->age))
        oldest = &offer;
    return oldest == nullptr ? nullptr : &oldest->card;
  }

 private:
  using Name = std::pair<uint32_t, uint64_t>;  // the process, and its number for the send

  void index(unsigned kind) {
    if (std::exchange(is_indexed_[kind], true))
      return;
    for (auto& [name, offer] : offers_)
      by_envelope_.add(offer.envelope().as(kind), offer.age, offer);
  }

  std::map<Name, Offer> offers_;
  AgesByEnvelope<Offer> by_envelope_;                // of receives of each kind that is indexed
  std::array<bool, Envelope::kKinds> is_indexed_{};  // most kinds are never asked for: each once it is
  uint64_t ever_offered_ = 0;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_MATCH_QUEUES_H_
