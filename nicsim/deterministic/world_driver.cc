// The drivers of a World that has them: whose thread drives when, who comes in meanwhile, and what they have not heard
// of yet.
#include <algorithm>
#include <utility>

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

// The drivers get to know each other.
void World::introduce_drivers() {
  std::vector<nic::Address> addresses;
  for (const auto& process : state_->processes)
    addresses.push_back(process->card().address());
  for (const auto& process : state_->processes) {
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
           return core != nullptr && core->matched() && core->is_prepared &&
                  (!core->trigger.valid() || core->doorbell_queue == process.streams[action.queue]->queue->number());
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

}  // namespace lanyard::nicsim
