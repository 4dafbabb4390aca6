#include "nicsim/deterministic/mail.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "nicsim/deterministic/oracles/oracles.h"
#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

using core::MatchCard;

constexpr size_t kNumber = sizeof(uint64_t);

// The length without the topic. With it: part of a slot, whole slots, a byte more, over a link.
size_t length_of(uint32_t rank, uint64_t number) {
  constexpr size_t kTopic = 8;
  constexpr size_t kLengths[] = {225, 16, 1000, 224, 448, 600};
  return kLengths[(2 * rank + number) % std::size(kLengths)] - kTopic;
}

// The bytes after the number differ from question to question.
std::byte filler(uint64_t number, size_t place) { return static_cast<std::byte>(number * 37 + place * 11 + place / 7); }

std::string name(uint64_t number, uint32_t from, uint32_t to) {
  return fmt::format("question {} of rank {} to rank {}", number, from, to);
}

}  // namespace

// ---- Match cards that are handed over

Status Mailbox::send(uint32_t nic, const MatchCard& card, const gpu::LaneOffer*) {
  if (const std::optional<std::string> why = why_unreachable(nic))
    return {Code::kFailed, *why};
  world_.process(nic).mail.under_way_[card.from_nic].push_back(card);
  if (world_.is_running() && !world_.is_killed(nic))
    world_.set_enabled(nic, StepKind::kMail, true);
  return {};
}

std::optional<std::string> Mailbox::why_unreachable(uint32_t nic) const {
  if (!world_.process(rank_).nic.is_lost(nic))
    return std::nullopt;
  return fmt::format("rank {} has ended", nic);
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

void Mailbox::arrive(uint32_t which) {
  const auto sender = std::next(under_way_.begin(), which);
  arrived_ = sender->second.front();
  sender->second.pop_front();
  if (sender->second.empty())
    under_way_.erase(sender);
}

// ---- Out

CardMail::CardMail(World& world, nic::Nic& nic, core::Endpoint& endpoint, uint32_t rank, uint32_t ranks)
    : world_(world),
      rank_(rank),
      ranks_(ranks),
      nic_(nic),
      memory_(core::ControlChannel::words_for(ranks, kSlots)),
      links_(ranks) {
  Result<std::unique_ptr<core::ControlChannel>> channel =
      core::ControlChannel::open(nic_, rank, ranks, kSlots, memory_.data());
  LANYARD_CHECK(channel.ok(), channel.status().message().c_str());
  channel_ = channel.value().get();
  arrivals_ = channel_->arrivals();
  plane_ = std::make_unique<core::ControlPlane>(endpoint, std::move(channel.value()));
  plane_->on_message([this](uint32_t from, std::span<const std::byte> question) { hear(from, question); });
}

void CardMail::ask(uint32_t to) {
  Link& link = links_[to];
  const uint64_t number = ++link.sent;
  std::vector<std::byte> question(length_of(rank_, number));
  std::memcpy(question.data(), &number, kNumber);
  for (size_t place = kNumber; place < question.size(); ++place)
    question[place] = filler(number, place);
  plane_->tell(to, question);
  link.under_way.push_back(std::move(question));
}

void CardMail::look() {
  lost_ = false;
  if (questions_ > 0) {
    --questions_;
    ask((rank_ + 1) % ranks_);
  }
  (void)plane_->progress();
}

bool CardMail::wants_to_look() const {
  return questions_ > 0 || lost_ || (!idle_ && (channel_->noticed() || channel_->pending()));
}

void CardMail::counted(uint32_t counter) {
  if (counter != arrivals_.value)
    return;
  channel_->notice();
  idle_ = false;
}

// ---- In

void CardMail::hear(uint32_t from, std::span<const std::byte> question) {
  std::deque<std::vector<std::byte>>& asked = world_.process(from).card_mail->links_[rank_].under_way;
  const uint64_t number = ++links_[from].received;
  const auto place = std::find_if(asked.begin(), asked.end(), [&](const std::vector<std::byte>& each) {
    return std::equal(each.begin(), each.end(), question.begin(), question.end());
  });
  if (place == asked.begin() && !asked.empty())
    return asked.pop_front();
  const std::string who = name(number, from, rank_);
  if (place != asked.end())
    return world_.find(Finding::kOrder, "mail", who + " overtakes one that was asked earlier");
  world_.find(Finding::kIntegrity, "mail",
              who + " is none that was asked and has not arrived yet: it has other bytes, or comes again");
}

// ---- The end

std::optional<std::string> CardMail::what_is_stuck() const {
  for (uint32_t to = 0; to < ranks_; ++to) {
    if (world_.is_killed(to) || plane_->lost(to))
      continue;
    const Link& link = links_[to];
    const CardMail& other = *world_.process(to).card_mail;
    const std::string landed =
        fmt::format("{} slots and {} sums of rank {} have landed there, and {} sums of rank {} here",
                    other.links_[rank_].slots, other.links_[rank_].sums, rank_, link.sums, to);
    if (!link.under_way.empty())
      return fmt::format("{}, of {} bytes, does not arrive: {}; {}",
                         name(link.sent + 1 - link.under_way.size(), rank_, to), link.under_way.front().size(), landed,
                         other.channel_->noticed()   ? "the other end was called, and does not look"
                         : other.channel_->pending() ? "the other end has found bytes that are not all there"
                         : channel_->pending()       ? "this end wants to try again what its card had no room for"
                                                     : "both ends wait to be called");
    if (!plane_->has_taken_all(to))
      return fmt::format(
          "rank {} has received all messages of rank {}, and has not given back as many credits as there were slots: "
          "{}",
          to, rank_, landed);
  }
  return std::nullopt;
}

std::optional<std::string> CardMail::close() {
  plane_.reset();
  if (nic_.counters == 0 && nic_.regions == 0)
    return std::nullopt;
  return fmt::format("the control channel of rank {} leaves {} counters and {} regions open", rank_, nic_.counters,
                     nic_.regions);
}

// ---- The steps of a World that carry mail

// Of two processes the lower rank introduces itself, as if by MPI. The other answers by the card.
void World::connect_mail() {
  for (const auto& process : state_->processes)
    for (uint32_t peer = 0; peer < process->rank; ++peer)
      process->card_mail->plane().meet(peer, state_->processes[peer]->card_mail->plane().introduction());
}

// While the world is built: carries all mail in flight, in order, until none is left.
void World::deliver_mail() {
  const auto carries = [this](uint32_t agent) { return agent >= first_transit_ || kind_of(agent) == StepKind::kMail; };
  for (;;) {
    const auto next = std::find_if(state_->enabled.begin(), state_->enabled.end(), carries);
    if (next == state_->enabled.end())
      return;
    take(*next);
  }
}

// True if the control thread has something to do: mail has come, there are failures to announce, or
// questions to ask or to answer.
bool World::has_mail(const Process& process) const {
  return has_news_by_mail(process) || (process.matcher.owes() > 0 && !process.knows_nothing);
}

bool World::has_news_by_mail(const Process& process) const {
  const bool called = process.card_mail != nullptr && process.card_mail->wants_to_look();
  return called || !process.mail.under_way().empty() || process.endpoint.has_questions() ||
         process.endpoint.has_unannounced_failures() || process.card().failures() != process.failures_announced;
}

void World::take_mail(Process& process) {
  CardMail* by_card = process.card_mail.get();
  const size_t owed = process.matcher.owes();
  const bool news = has_news_by_mail(process);
  if (const auto senders = static_cast<uint32_t>(process.mail.under_way().size()); senders > 0)
    process.mail.arrive(senders > 1 ? draw(senders, ChoiceKind::kMail) : 0);
  process.failures_announced = process.card().failures();
  (void)process.nic.gave_stale_value();
  process.nic.have_plenty(true);  // a posted receive asks only once for what it needs
  note_failures_told(process, [&] {
    if (by_card != nullptr)
      by_card->look();
    else
      (void)process.matcher.progress();
  });
  process.nic.have_plenty(false);
  if (by_card == nullptr)
    oracle::check_offers(*this, process);
  if (news || process.matcher.owes() != owed)
    nic_changed(process);
  if (by_card != nullptr)
    by_card->rest();
  process.knows_nothing = !process.nic.gave_stale_value();
  set_enabled(process.rank, StepKind::kMail, has_mail(process));
}

// The reader looks again: it may have found a slot announced before the bytes were there.
void World::mail_has_landed(Process& target, const Transit& transit) {
  if (target.killed || !transit.landed)
    return;
  target.card_mail->landed(transit.from, transit.packet.kind == PacketKind::kWrite);
  target.card_mail->wake();
  set_enabled(target.rank, StepKind::kMail, has_mail(target));
}

}  // namespace lanyard::nicsim
