// The threads of a World's processes beside their hosts: those of drivers, where it has some (who drives when, who
// comes in meanwhile, and what they have not heard of yet), and the control threads with their mail.
#include <algorithm>
#include <utility>

#include "nicsim/deterministic/oracles/oracles.h"
#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

std::unique_ptr<Process::Driver> Process::open_driver(World& world, StepNic& nic, uint32_t rank,
                                                      const ModelLimits& limits) {
  if (!world.options().driver)
    return nullptr;
  auto driver = std::make_unique<Driver>(world, nic, rank);
  Result<std::unique_ptr<ofi::OfiNic>> opened = ofi::OfiNic::open({.domain = StepFabric::kCard,
                                                                   .deferred_depth = limits.deferred_depth,
                                                                   .max_counters = limits.max_counters,
                                                                   .max_regions = limits.max_regions,
                                                                   .max_message_bytes = world.options().longest(rank),
                                                                   .max_issued = limits.max_in_flight,
                                                                   .own_thread = false,
                                                                   .library = driver->fabric.library()});
  LANYARD_CHECK(opened.ok(), opened.status().message().c_str());
  driver->nic = std::move(opened.value());
  driver->fabric.driver_is_open();
  return driver;
}

// The drivers get to know each other, or each itself where the mail makes it known to others.
void World::introduce_drivers() {
  std::vector<nic::Address> all;
  for (const auto& process : state_->processes)
    all.push_back(process->card().address());
  for (const auto& process : state_->processes) {
    std::vector<nic::Address> addresses(all.size());
    if (options_.mail_by_card)
      addresses[process->rank] = all[process->rank];
    else
      addresses = all;
    const Status status = process->card().set_peers(addresses, process->rank);
    LANYARD_CHECK(status.ok(), status.message().c_str());
  }
}

void World::take_drive(Process& process) {
  Process::Driver& driver = *process.driver;
  driver.fabric.forget_refusals();
  (void)process.nic.gave_stale_value();
  state_->driving = process.rank;
  const uint64_t failures = driver.nic->failures();
  const size_t steps = driver.nic->progress();
  state_->driving = kNone;
  // Of what was refused, and came due as somebody else read its counter, libfabric has no news.
  if (steps > 0 || driver.nic->failures() != failures)
    nic_changed(process);
  // Who was told an old value of a counter looks again, as does whom the card told that it has no room, though it has.
  driver.idle = steps == 0 && !process.nic.gave_stale_value() && !driver.fabric.was_refused_falsely();
}

// As the driver's thread reads its queue, streams ring, and the host starts; they find somebody at it, and leave their
// commands to that one.
void World::act_meanwhile(uint32_t rank) {
  if (state_->driving != rank)
    return;
  Process& process = *state_->processes[rank];
  for (uint32_t queue = 0; queue < process.streams.size(); ++queue) {
    const StepStream& stream = process.streams[queue]->stream;
    const bool goes_on = !stream.empty() &&
                         (stream.front().kind == StepItem::Kind::kRing || stream.front().kind == StepItem::Kind::kMove);
    if (goes_on && chance(ChoiceKind::kMeanwhile))
      take_stream(process, queue);
  }
  if (may_start_meanwhile(process) && chance(ChoiceKind::kMeanwhile))
    take_host(process);
}

// Whether the host comes to a start that has nothing to ask the driver: who asks, or prepares, would wait for the right
// to drive.
bool World::may_start_meanwhile(const Process& process) {
  if (options_.failures || options_.kills || process.card().failures() > 0 || !process.endpoint.overflow().empty() ||
      state_->place[agent(process.rank, kHostAgent)] == kNone)
    return false;
  const Action& action = process.program[process.next_action];
  return action.kind == Action::Kind::kStart &&
         std::all_of(action.requests.begin(), action.requests.end(), [&](RequestName request) {
           const core::Request* core = state_->sides[request.index].core;
           return core != nullptr && core->matched() && core->is_prepared() &&
                  (!core->trigger.valid() || core->bell.queue == process.streams[action.queue]->queue->number());
         });
}

void World::drivers_changed() {
  for (const auto& process : state_->processes) {
    if (process->killed)
      continue;
    Process::Driver& driver = *process->driver;
    if (driver.fabric.take_changed())
      nic_changed(*process);
    set_enabled(drive_agent(process->rank), driver.fabric.has_news() || (driver.fabric.wants_looks() && !driver.idle));
  }
}

// Nobody can wait here until what is landing has landed: so it does now.
void World::finish_landing(uint32_t rank, uint64_t key) {
  for (uint32_t place = 0; place < state_->transits.size(); ++place) {
    const Transit& transit = state_->transits[place];
    const auto is_landing = [&] {
      return transit.stage == Transit::Stage::kCount || (transit.stage == Transit::Stage::kLand && transit.part > 0);
    };
    if (!is_landing() || transit.to != rank || transit.packet.key != key)
      continue;
    if (!options_.failures && !options_.kills)
      find(Finding::kUser, "lifetime",
           "rank " + std::to_string(rank) + " frees a request while the other side's next start writes to it");
    while (is_landing())
      take_transit(place);
  }
}

void World::no_ring_is_under_way(uint32_t rank, uint32_t counter) { disable(ring_agent(rank, counter)); }

// Operations of the request that have failed, of which its driver has not read yet.
uint64_t World::unread_failures(const Side& side) const {
  const Process& process = *state_->processes[side.rank];
  return process.driver == nullptr ? 0 : process.driver->fabric.unread_failures(side.number);
}

// ---- Mail: matching cards, those of the end of a pair, and what else control threads tell each other

// Of two processes the one of lower rank introduces itself, as by MPI; the other answers by the card.
void World::connect_mail() {
  for (const auto& process : state_->processes)
    for (uint32_t peer = 0; peer < process->rank; ++peer)
      process->card_mail->plane().meet(peer, state_->processes[peer]->card_mail->plane().introduction());
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
  return called || !process.mail.under_way().empty() || process.endpoint.has_questions() ||
         process.endpoint.has_unannounced_failures() || process.card().failures() != process.failures_announced;
}

void World::take_mail(Process& process) {
  CardMail* by_card = process.card_mail.get();
  const size_t owed = process.matcher.owes();
  const bool news = has_news_by_mail(process);
  if (const uint32_t senders = process.mail.senders(); senders > 0)
    process.mail.arrive(senders > 1 ? draw(senders, ChoiceKind::kMail) : 0);
  process.failures_announced = process.card().failures();
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
    note_trigger(state_->sides[request]);
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
