#include "nicsim/deterministic/process.h"

#include <algorithm>

#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

namespace {

using core::MatchCard;

// Whether it is the oldest card of its sender.
bool is_first(std::span<const MatchCard> cards, size_t place) {
  return std::none_of(cards.begin(), cards.begin() + static_cast<ptrdiff_t>(place),
                      [&](const MatchCard& card) { return card.from_nic == cards[place].from_nic; });
}

}  // namespace

Status Mailbox::send(uint32_t nic, const MatchCard& card, const gpu::LaneOffer*) {
  if (const std::optional<std::string> why = why_unreachable(nic))
    return {Code::kFailed, *why};
  world_.process(nic).mail.under_way_.push_back(card);
  world_.mail_is_under_way(nic);
  return {};
}

std::optional<std::string> Mailbox::why_unreachable(uint32_t nic) const {
  if (!world_.process(rank_).nic.is_lost(nic))
    return std::nullopt;
  return "rank " + std::to_string(nic) + " has ended";
}

std::optional<MatchCard> Mailbox::receive() {
  std::optional<MatchCard> card = std::exchange(arrived_, std::nullopt);
  if (card && card->kind == MatchCard::Kind::kOffer)
    offers_.push_back({card->from_nic, card->send});
  if (card && card->kind == MatchCard::Kind::kWithdraw)
    std::erase_if(offers_,
                  [&](const Offer& offer) { return offer.from == card->from_nic && offer.send == card->send; });
  return card;
}

uint32_t Mailbox::senders() const {
  uint32_t count = 0;
  for (size_t place = 0; place < under_way_.size(); ++place)
    count += is_first(under_way_, place) ? 1 : 0;
  return count;
}

void Mailbox::arrive(uint32_t which) {
  for (size_t place = 0; place < under_way_.size(); ++place) {
    if (!is_first(under_way_, place) || which-- > 0)
      continue;
    arrived_ = under_way_[place];
    under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(place));
    return;
  }
}

void Mailbox::lose(uint32_t sender) {
  std::erase_if(under_way_, [sender](const MatchCard& card) { return card.from_nic == sender; });
}

std::unique_ptr<CardMail> Process::open_card_mail(World& world, StepNic& nic, core::Endpoint& endpoint, uint32_t rank,
                                                  uint32_t ranks) {
  return world.options().mail_by_card ? std::make_unique<CardMail>(world, nic, endpoint, rank, ranks) : nullptr;
}

}  // namespace lanyard::nicsim
