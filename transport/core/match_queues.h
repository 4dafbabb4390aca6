// The two queues of matching, each searched for the oldest that fits (MPI 4.0 section 3.5): receives that wait for an
// offer, and offers that wait for a receive. All calls take logarithmic time, however many are alike.
#ifndef LANYARD_TRANSPORT_CORE_MATCH_QUEUES_H_
#define LANYARD_TRANSPORT_CORE_MATCH_QUEUES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "transport/core/match_card.h"
#include "transport/core/request.h"

namespace lanyard::core {

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
  Request* find(const Envelope& offer) const;
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
  void add(const MatchCard& card, std::shared_ptr<const gpu::LaneOffer> lane = nullptr);
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
  Offer* find_send(uint32_t from_nic, uint64_t send);
  void remove(Offer& offer);
  // Whatever that process has offered goes.
  void remove_all_of(uint32_t from_nic);
  // The oldest of that process and communicator; null if there is none. Looks at all of that process.
  const MatchCard* oldest_of(uint32_t from_nic, uint64_t communicator) const;

 private:
  using Name = std::pair<uint32_t, uint64_t>;  // the process, and its number for the send

  void index(unsigned kind);

  std::map<Name, Offer> offers_;
  AgesByEnvelope<Offer> by_envelope_;                // of receives of each kind that is indexed
  std::array<bool, Envelope::kKinds> is_indexed_{};  // most kinds are never asked for: each once it is
  uint64_t ever_offered_ = 0;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_MATCH_QUEUES_H_
