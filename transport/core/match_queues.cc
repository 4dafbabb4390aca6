#include "transport/core/match_queues.h"

namespace lanyard::core {

// Of the oldest of each kind the first posted.
Request* PostedQueue::find(const Envelope& offer) const {
  Request* oldest = nullptr;
  for (unsigned kind = 0; kind < Envelope::kKinds; ++kind)
    if (const auto* ages = receives_.find(offer.as(kind)))
      if (Request* receive = ages->begin()->second; oldest == nullptr || receive->posted < oldest->posted)
        oldest = receive;
  return oldest;
}

void OfferQueue::add(const MatchCard& card, std::shared_ptr<const gpu::LaneOffer> lane) {
  const auto [place, is_new] = offers_.try_emplace({card.from_nic, card.send});
  if (!is_new)
    return;
  Offer& offer = place->second = {.card = card, .lane = std::move(lane), .age = ++ever_offered_};
  for (unsigned kind = 0; kind < Envelope::kKinds; ++kind)
    if (is_indexed_[kind])
      by_envelope_.add(offer.envelope().as(kind), offer.age, offer);
}

void OfferQueue::index(unsigned kind) {
  if (std::exchange(is_indexed_[kind], true))
    return;
  for (auto& [name, offer] : offers_)
    by_envelope_.add(offer.envelope().as(kind), offer.age, offer);
}

OfferQueue::Offer* OfferQueue::find_send(uint32_t from_nic, uint64_t send) {
  const auto found = offers_.find({from_nic, send});
  return found == offers_.end() ? nullptr : &found->second;
}

void OfferQueue::remove(Offer& offer) {
  for (unsigned kind = 0; kind < Envelope::kKinds; ++kind)
    if (is_indexed_[kind])
      by_envelope_.remove(offer.envelope().as(kind), offer.age);
  offers_.erase({offer.card.from_nic, offer.card.send});
}

void OfferQueue::remove_all_of(uint32_t from_nic) {
  for (auto offer = offers_.lower_bound({from_nic, 0}); offer != offers_.end() && offer->first.first == from_nic;)
    remove((offer++)->second);
}

const MatchCard* OfferQueue::oldest_of(uint32_t from_nic, uint64_t communicator) const {
  const Offer* oldest = nullptr;
  for (auto each = offers_.lower_bound({from_nic, 0}); each != offers_.end() && each->first.first == from_nic; ++each)
    if (const Offer& offer = each->second;
        offer.card.communicator == communicator && (oldest == nullptr || offer.age < oldest->age))
      oldest = &offer;
  return oldest == nullptr ? nullptr : &oldest->card;
}

}  // namespace lanyard::core
