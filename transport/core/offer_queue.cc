#include "transport/core/offer_queue.h"

#include <utility>

namespace lanyard::core {

OfferQueue::OfferQueue() : indices_{Index(0), Index(1), Index(2), Index(3), Index(kBySend)} {
  static_assert(kIndices == 5);
}

void OfferQueue::add(const MatchCard& card, std::shared_ptr<const gpu::LaneOffer> lane) {
  offers_.push_back({.card = card, .lane = std::move(lane), .place = {}});
  Offer& offer = offers_.back();
  offer.place = std::prev(offers_.end());
  for (Index& index : indices_)
    if (index.made)
      index.table.add(offer);
}

OfferQueue::Index& OfferQueue::ready(unsigned kind) {
  Index& index = indices_[kind];
  if (!index.made)
    for (Offer& offer : offers_)
      index.table.add(offer);
  index.made = true;
  return index;
}

OfferQueue::Offer* OfferQueue::find_send(uint32_t from_nic, uint64_t send) {
  return ready(kBySend).table.find(hash_of_send(from_nic, send), [&](const Offer& offer) {
    return offer.card.from_nic == from_nic && offer.card.send == send;
  });
}

void OfferQueue::remove(Offer& offer) {
  for (Index& index : indices_)
    if (index.made)
      index.table.remove(offer);
  offers_.erase(offer.place);
}

void OfferQueue::remove_all_of(uint32_t from_nic) {
  for (auto offer = offers_.begin(); offer != offers_.end();) {
    const auto next = std::next(offer);
    if (offer->card.from_nic == from_nic)
      remove(*offer);
    offer = next;
  }
}

const MatchCard* OfferQueue::oldest_of(uint32_t from_nic, uint64_t communicator) const {
  for (const Offer& offer : offers_)
    if (offer.card.from_nic == from_nic && offer.card.communicator == communicator)
      return &offer.card;
  return nullptr;
}

}  // namespace lanyard::core
