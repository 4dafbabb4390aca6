// The data of matching: the cards that processes exchange, the queue of receives that wait for an
// offer, and that of offers that wait for a receive. find() returns the oldest match (MPI 4.0
// section 3.5). add(), find() and remove() take logarithmic time, even if many envelopes are equal.
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

// A message about the match or the end of a pair, from one of its processes (the writer) to the
// other (the reader). Plain data of one size, carried by a Courier.
struct MatchCard {
  enum class Kind : uint32_t {
    kOffer,      // sender to receiver: I have this send; with `reader`: I cannot use its lane
    kAccept,     // receiver to sender: matched, write here; with a lane: matched once you connect
    kReject,     // receiver to sender: the message is longer than the receive
    kDiffer,     // receiver to sender: my strategy is another one
    kNoTrigger,  // receiver to sender: my NIC has no counter left for the clear-to-sends
    kWithdraw,   // sender to receiver: I no longer offer this send
    kFreed,      // either side: my request is freed, and takes no part in starts after `starts`
    kFailed,     // either side: an operation of my request has failed
    kAsk,        // receiver to sender: have your starts up to `starts` succeeded?
    kSound,      // sender to receiver: my starts up to `starts` have succeeded
    kConnected,  // sender to receiver: I have connected to your lane, so we are matched
    kParted,     // either side: my lane is gone and will not write to yours
    kLast = kParted,
  };
  Kind kind = Kind::kOffer;
  uint32_t from_nic = 0;  // the writer of the card
  uint64_t communicator = 0;
  int32_t source = 0;  // the sender's rank in the communicator
  int32_t tag = 0;
  uint64_t bytes = 0;        // kOffer: the length of the message; kReject: of the receive
  uint64_t send = 0;         // the sender's number for its request; answers repeat it
  uint64_t receive = 0;      // kAccept: the receiver's number for its request
  uint64_t longest = 0;      // kOffer, kAccept: writer's max_message_bytes; both cut at the smaller
  nic::RemoteKey key = {};   // kOffer: of the clear-to-send word; kAccept: of the receive's buffer
  uint32_t ready = 0;        // kOffer: 1 for a ready send
  uint32_t merged = 0;       // kOffer: 1 if the send is a member of an exchange (P9)
  uint32_t strategy = 0;     // kOffer, kDiffer: the writer's core::Strategy
  nic::RemoteKey flag = {};  // kAccept, strategy B: of the word that the sender's flag raises
  uint32_t lane = 0;         // kOffer, kAccept: number of the writer's lane, sent along; 0: none
  uint32_t peer_lane = 0;    // answers, kParted: the number of the reader's lane
  uint64_t set = 0;          // kOffer, kAccept: number of writer's exchange of two sets; 0: none
  uint64_t writer = 0;       // kFreed and later, not kParted: the writer's number for its request
  uint64_t reader = 0;       // kFreed and later, or kOffer: the reader's number for its request
  uint64_t starts = 0;       // kFreed, kFailed: writer's starts; kAsk, kSound: those asked about
};
static_assert(std::is_trivially_copyable_v<MatchCard>);

// Carries cards between processes, in order between any two, outside the user's communicators.
class Courier {
 public:
  virtual ~Courier() = default;
  // Never blocks. Copies both. `lane` is null if card.lane is 0. kFailed: the process is lost.
  virtual Status send(uint32_t nic, const MatchCard& card, const gpu::LaneOffer* lane = nullptr) = 0;
  // Removes and returns the next card that has arrived.
  virtual std::optional<MatchCard> receive() = 0;
  // The lane offer of the card that receive() returned last. Requires that its `lane` is not 0.
  virtual const gpu::LaneOffer& lane() const { LANYARD_CHECK(false, "this courier carries no lanes"); }
  // If the process is known to be lost, the reason: "rank 3 has ended".
  virtual std::optional<std::string> why_unreachable(uint32_t) const { return std::nullopt; }
};

// The fields that MPI matches. Those of a receive may be wildcards.
struct Envelope {
  uint64_t communicator = 0;
  int source = 0;  // or kAnySource
  int tag = 0;     // or kAnyTag

  bool operator==(const Envelope&) const = default;
  // kind() tells which of source and tag are wildcards, as a number below kKinds.
  static constexpr unsigned kKinds = 4, kNoSource = 1, kNoTag = 2;
  unsigned kind() const { return (source == kAnySource ? kNoSource : 0) | (tag == kAnyTag ? kNoTag : 0); }
  // The envelope of a receive of this kind that matches this envelope.
  Envelope as(unsigned kind) const {
    return {communicator, kind & kNoSource ? kAnySource : source, kind & kNoTag ? kAnyTag : tag};
  }
};

// Items by envelope, then by age.
template <typename Item>
class AgesByEnvelope {
 public:
  using Ages = std::map<uint64_t, Item*>;  // oldest first

  void add(const Envelope& envelope, uint64_t age, Item& item) { ages_[envelope].emplace(age, &item); }
  // Requires that the item is there.
  void remove(const Envelope& envelope, uint64_t age) {
    const auto found = ages_.find(envelope);
    found->second.erase(age);
    if (found->second.empty())
      ages_.erase(found);
  }
  // Returns null if there is none.
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
  // Requires that the receive is there.
  void remove(Request& receive) { receives_.remove(envelope_of(receive), receive.posted); }
  // Returns the oldest receive that matches an offer with this envelope; null if there is none.
  Request* find(const Envelope& offer) const {
    Request* oldest = nullptr;
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
  AgesByEnvelope<Request> receives_;  // by their own envelopes, with wildcards
  uint64_t ever_posted_ = 0;
};

class OfferQueue {
 public:
  struct Offer {
    Envelope envelope() const { return {card.communicator, card.source, card.tag}; }

    MatchCard card;
    std::shared_ptr<const gpu::LaneOffer> lane;  // null if card.lane is 0
    uint64_t age = 0;
  };

  // Does nothing if the queue has an offer of this send.
  void add(const MatchCard& card, std::shared_ptr<const gpu::LaneOffer> lane = nullptr) {
    const auto [place, is_new] = offers_.try_emplace({card.from_nic, card.send});
    if (!is_new)
      return;
    Offer& offer = place->second = {.card = card, .lane = std::move(lane), .age = ++ever_offered_};
    for (unsigned kind = 0; kind < Envelope::kKinds; ++kind)
      if (is_indexed_[kind])
        by_envelope_.add(offer.envelope().as(kind), offer.age, offer);
  }
  // Returns the oldest offer that matches this receive and that `wanted` accepts, or null.
  template <typename Wanted>
  Offer* find(const Envelope& receive, Wanted wanted) {
    index(receive.kind());
    if (const auto* ages = by_envelope_.find(receive))
      for (const auto& [age, offer] : *ages)
        if (wanted(offer->card))
          return offer;
    return nullptr;
  }
  // Returns the offer of that process for its send of that number; null if there is none.
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
  // Removes all offers of that process.
  void remove_all_of(uint32_t from_nic) {
    for (auto offer = offers_.lower_bound({from_nic, 0}); offer != offers_.end() && offer->first.first == from_nic;)
      remove((offer++)->second);
  }
  // Returns that process's oldest offer in that communicator, or null. Looks at all its offers.
  const MatchCard* oldest_of(uint32_t from_nic, uint64_t communicator) const {
    const Offer* oldest = nullptr;
    for (auto each = offers_.lower_bound({from_nic, 0}); each != offers_.end() && each->first.first == from_nic; ++each)
      if (const Offer& offer = each->second;
          offer.card.communicator == communicator && (oldest == nullptr || offer.age < oldest->age))
        oldest = &offer;
    return oldest == nullptr ? nullptr : &oldest->card;
  }

 private:
  using Name = std::pair<uint32_t, uint64_t>;  // the sender's NIC and its number for the send

  void index(unsigned kind) {
    if (std::exchange(is_indexed_[kind], true))
      return;
    for (auto& [name, offer] : offers_)
      by_envelope_.add(offer.envelope().as(kind), offer.age, offer);
  }

  std::map<Name, Offer> offers_;
  AgesByEnvelope<Offer> by_envelope_;                // Envelope::as() of each indexed kind
  std::array<bool, Envelope::kKinds> is_indexed_{};  // since its first find(); most are not used
  uint64_t ever_offered_ = 0;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_MATCH_QUEUES_H_
