// OfferQueue: the offers for which no receive was posted yet. A receive takes the oldest that it fits (MPI 4.0 section
// 3.5).
#ifndef LANYARD_TRANSPORT_CORE_OFFER_QUEUE_H_
#define LANYARD_TRANSPORT_CORE_OFFER_QUEUE_H_

#include <array>
#include <cstdint>
#include <list>
#include <memory>

#include "transport/core/envelope.h"
#include "transport/core/linked_table.h"
#include "transport/core/match_card.h"

namespace lanyard::core {

class OfferQueue {
 public:
  struct Offer;

  OfferQueue();
  void add(const MatchCard& card, std::shared_ptr<const gpu::LaneOffer> lane = nullptr);
  // The oldest that a receive with that envelope fits, of those that `wanted` says yes to; null if there is none.
  template <typename Wanted>
  Offer* find(const Envelope& receive, Wanted wanted) {
    Index& index = ready(receive.kind());
    return index.table.find(receive.hash(), [&](const Offer& offer) {
      return offer.envelope().as(index.kind) == receive && wanted(offer.card);
    });
  }
  // That of the send of that number of that process; null if there is none.
  Offer* find_send(uint32_t from_nic, uint64_t send);
  void remove(Offer& offer);
  // Whatever that process has offered goes.
  void remove_all_of(uint32_t from_nic);
  // The oldest of that process and communicator; null if there is none. Looks at all.
  const MatchCard* oldest_of(uint32_t from_nic, uint64_t communicator) const;

 private:
  // By the envelope of a receive of each kind, and by the send.
  static constexpr unsigned kBySend = Envelope::kKinds, kIndices = kBySend + 1;

 public:
  struct Offer {
    Envelope envelope() const { return {card.communicator, card.source, card.tag}; }

    MatchCard card;
    std::shared_ptr<const gpu::LaneOffer> lane;  // where the card says that there is one
    std::list<Offer>::iterator place;
    std::array<Links<Offer>, kIndices> links{};
  };

 private:
  struct Key {
    Links<Offer>& links(Offer& offer) const { return offer.links[kind]; }
    uint64_t hash(const Offer& offer) const {
      return kind == kBySend ? hash_of_send(offer.card.from_nic, offer.card.send) : offer.envelope().as(kind).hash();
    }
    unsigned kind;
  };
  // Most kinds are never asked for: each is made when it first is.
  struct Index {
    explicit Index(unsigned which) : kind(which), table(Key{which}) {}
    unsigned kind;
    bool made = false;
    LinkedTable<Offer, Key> table;
  };
  static uint64_t hash_of_send(uint32_t from_nic, uint64_t send) { return uint64_t{from_nic} << 40 ^ send; }
  Index& ready(unsigned kind);

  std::list<Offer> offers_;  // oldest first
  std::array<Index, kIndices> indices_;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_OFFER_QUEUE_H_
