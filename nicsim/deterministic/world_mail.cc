// The mail of a World: matching cards, those of the end of a pair, and what else control threads tell each other.
#include <algorithm>

#include "nicsim/deterministic/oracles/order.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

void World::connect_mail() {
  std::vector<nic::RemoteKey> keys;
  for (const auto& process : state_->processes)
    keys.push_back(process->card_mail->key());
  for (const auto& process : state_->processes)
    process->card_mail->connect(keys);
}

// What is under way in order, until all of it has been taken in: while the world is built.
void World::deliver_mail() {
  const auto carries = [this](uint32_t agent) {
    return agent >= first_transit_ || agents_[agent].kind == StepKind::kMail;
  };
  for (;;) {
    const auto next = std::find_if(state_->enabled.begin(), state_->enabled.end(), carries);
    if (next == state_->enabled.end())
      return;
    take(*next);
  }
}

void World::mail_is_under_way(uint32_t rank) {
  if (chooser_ != nullptr && !is_killed(rank))
    enable(mail_agent(rank));
}

// Whether its control thread has something to do: a card has come, its NIC has failures that others must hear of, or it
// has somebody to ask or to answer.
bool World::has_mail(const Process& process) const {
  return has_news_by_mail(process) || (process.matcher.owes() > 0 && !process.knows_nothing);
}

bool World::has_news_by_mail(const Process& process) const {
  const bool called = process.card_mail != nullptr && process.card_mail->wants_to_look();
  return called || process.may_have_parted || !process.mail.under_way().empty() || process.endpoint.has_questions() ||
         process.endpoint.has_unannounced_failures() || process.card().failures() != process.failures_announced;
}

void World::take_mail(Process& process) {
  CardMail* by_card = process.card_mail.get();
  const size_t owed = process.matcher.owes();
  const bool news = has_news_by_mail(process);
  if (const uint32_t senders = process.mail.senders(); senders > 0)
    process.mail.arrive(senders > 1 ? draw(senders, ChoiceKind::kMail) : 0);
  process.failures_announced = process.card().failures();
  process.may_have_parted = false;
  (void)process.nic.gave_stale_value();
  process.nic.have_plenty(true);  // nobody would ask again for what a posted receive lacks
  note_failures_told(process, [&] {
    if (by_card != nullptr)
      by_card->look();
    else
      (void)process.matcher.progress();
  });
  process.nic.have_plenty(false);
  for (const uint32_t request : process.requests)
    note_resources(state_->sides[request]);
  if (by_card == nullptr)
    oracle::check_offers(*this, process);
  if (news || process.matcher.owes() != owed)
    nic_changed(process);
  if (by_card != nullptr)
    by_card->rest();
  process.knows_nothing = !process.nic.gave_stale_value();
  set_enabled(mail_agent(process.rank), has_mail(process));
}

// Who has found a slot announced that was not there yet looks again.
void World::mail_has_landed(Process& target, const Transit& transit) {
  if (target.killed || !transit.landed)
    return;
  target.card_mail->landed(transit.from, transit.packet.kind == PacketKind::kWrite);
  target.card_mail->wake();
  set_enabled(mail_agent(target.rank), has_mail(target));
}

}  // namespace lanyard::nicsim
