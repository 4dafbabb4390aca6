// The steps of a World: what each agent does when it is its turn, and who is enabled afterwards.
#include <algorithm>
#include <cstring>

#include "nicsim/deterministic/oracles/oracles.h"
#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

void World::take(uint32_t number) {
  if (number >= first_transit_)
    return take_transit(number - first_transit_);
  const Agent& agent = agents_[number];
  Process& process = *state_->processes[agent.rank];
  switch (agent.kind) {
    case StepKind::kHost: return take_host(process);
    case StepKind::kPost: return take_post(process);
    case StepKind::kOverflow: return take_overflow(process);
    case StepKind::kStream: return take_stream(process, agent.index);
    case StepKind::kRing: return take_ring(process, agent.index);
    case StepKind::kFire: return take_fire(process, agent.index);
    case StepKind::kDrive: return take_drive(process);
    case StepKind::kKeepUp: return take_keep_up(process);
    case StepKind::kLoss: return take_loss(process);
    case StepKind::kMail: return take_mail(process);
    default: LANYARD_CHECK(false, "operations under way are no agents of a rank");
  }
}

void World::take_post(Process& process) {
  const nic::DeferredOp& op = process.nic.next_posting();
  const nic::CounterId trigger = op.trigger;
  process.shadow.posted(op);
  process.nic.arrive();
  oracle::check_counter(*this, process, trigger.value);
  nic_changed(process);
}

void World::take_overflow(Process& process) {
  // It looks at triggers only when entries have not become free for some calls.
  constexpr int kCalls = 32;
  size_t handed_over = 0;
  (void)process.nic.gave_stale_value();
  for (int call = 0; call < kCalls && handed_over == 0; ++call)
    handed_over = process.endpoint.overflow().drain();
  nic_changed(process);
  // Who was told an old value of a counter looks again.
  process.overflow_idle = handed_over == 0 && !process.nic.gave_stale_value();
  set_enabled(agent(process.rank, kOverflowAgent), !process.overflow_idle && !process.endpoint.overflow().empty());
}

// ---- The NIC

void World::ring_is_under_way(uint32_t rank, uint32_t counter) { enable(ring_agent(rank, counter)); }

void World::take_ring(Process& process, uint32_t counter) {
  const uint32_t rings = process.nic.rings_under_way(counter);
  uint32_t landing = 1;
  if (rings > 1) {
    landing += chooser_->choose(rings, ChoiceKind::kCoalesce, nullptr);
    note(landing);
  }
  process.nic.rings_landed(counter, landing);
  const uint32_t value = process.ring_values[counter];
  process.nic.model().ring({counter}, uint64_t{landing} * value);
  process.shadow.succeeded(counter, uint64_t{landing} * value);
  process.looks = std::min(process.looks, 1u);  // what stands is under way once its bell has rung
  set_enabled(ring_agent(process.rank, counter), landing < rings);
  oracle::check_counter(*this, process, counter);
  nic_changed(process);
}

void World::posts_are_under_way(uint32_t rank) { enable(agent(rank, kPostAgent)); }

void World::take_fire(Process& process, uint32_t counter) {
  NicModel& model = process.nic.model();
  std::optional<uint32_t> entry = model.ready();
  while (entry && model.trigger_of(*entry).value != counter)
    entry = model.next_ready(*entry);
  LANYARD_CHECK(entry.has_value(), "the agent was enabled");
  const nic::Op op = model.op_of(*entry);
  const char* wrong = process.shadow.fired(counter, model.threshold_of(*entry), op.context);
  const std::optional<Launch> launched = model.fire(*entry);
  if (wrong != nullptr)
    return find(Finding::kOrder, "NIC", "rank " + std::to_string(process.rank) + ": " + wrong);
  if (launched)
    launch(process.rank, op, *launched);
  else
    failed_at_once(process.rank, op);
  process.nic.others_want_entries();
  nic_changed(process);
  if (process.wants_room || process.nic.posting() > 0)
    host_changed(process);
}

void World::launch(uint32_t rank, const nic::Op& op, const Launch& launch) {
  State& state = *state_;
  if (state.free_transits.empty()) {
    state.free_transits.push_back(static_cast<uint32_t>(state.transits.size()));
    state.transits.emplace_back();
  }
  const uint32_t place = state.free_transits.back();
  state.free_transits.pop_back();
  Process& process = *state.processes[rank];
  if (process.nic.is_lost(launch.peer))
    find(Finding::kOrder, "NIC", "rank " + std::to_string(rank) + ": an operation goes to a peer that is lost");
  Transit& transit = state.transits[place];
  transit.from = rank;
  transit.to = launch.peer;
  transit.request = is_mail(op) ? kNone : process.requests[op.context - 1];
  transit.owner = op.context;
  transit.number = ++state.launched;
  process.shadow.launched();
  transit.packet = launch.packet;
  transit.payload = launch.payload;
  transit.code = Code::kOk;
  transit.part = 0;
  transit.counter = {};
  transit.bytes.clear();
  transit.delivery = op.level == nic::CompletionLevel::kDelivery;
  transit.acked = transit.landed = false;
  transit.role = role_of(process, op);
  if (transit.request != kNone && state.sides[transit.request].pieces == 0)
    return find(Finding::kOrder, "order",
                "an operation of the " + scenario_.describe({transit.request}) + " fires, who has nothing to be sent");
  transit.iteration = iteration_of(transit);
  transit.stage = transit.payload != nullptr ? Transit::Stage::kRead : Transit::Stage::kLand;
  if (transit.role != Transit::Role::kMail)
    oracle::check_fired(*this, transit);
  if (transit.stage == Transit::Stage::kLand)
    has_left(transit);
  enable(transit_agent(place));
}

// Of its start; put down that it has fired.
uint64_t World::iteration_of(const Transit& transit) {
  if (transit.role == Transit::Role::kMail)
    return 0;
  Side& side = state_->sides[transit.request];
  switch (transit.role) {
    case Transit::Role::kData: return side.data_fired++ / side.pieces + 1;
    case Transit::Role::kClear: return ++side.clear_fired;
    case Transit::Role::kDone:
      for_each_merged(transit.request, [this](uint32_t request) { ++state_->sides[request].done_fired; });
      return side.done_fired;
    default: flag_has_fired(transit.request); return side.flag_fired;
  }
}

void World::flag_has_fired(uint32_t send) {
  ++state_->sides[send].flag_fired;
  if (flags_tell_stream(send))
    ++state_->sides[send | 1].done_fired;
}

// ---- Operations under way

void World::take_transit(uint32_t place) {
  Transit& transit = state_->transits[place];
  Process& target = *state_->processes[transit.to];
  switch (transit.stage) {
    case Transit::Stage::kRead: read(transit); break;
    case Transit::Stage::kEarlyAck:
      transit.stage = Transit::Stage::kLand;
      transit.acked = true;
      tell_initiator(transit);
      break;
    case Transit::Stage::kLand:
      land(transit);
      if (transit.stage == Transit::Stage::kLand)
        break;  // a part of it
      if (transit.role == Transit::Role::kMail)
        mail_has_landed(target, transit);
      // Whoever waits for the word looks again: a stream, or a host that would free the request.
      if (transit.role == Transit::Role::kDone || transit.role == Transit::Role::kFlag) {
        target.wants_room = false;
        streams_changed(target);
      }
      break;
    case Transit::Stage::kCount: {
      if (target.killed) {
        transit.stage = Transit::Stage::kAck;
        break;
      }
      count_landing(target, transit);
      transit.stage = Transit::Stage::kAck;
      nic_changed(target);
      break;
    }
    case Transit::Stage::kLateAck: hear_late(transit); return give_back(place);
    default: tell_initiator(transit); return give_back(place);
  }
  if (transit.stage == Transit::Stage::kAck && transit.acked)
    return give_back(place);
  enable(transit_agent(place));
}

void World::count_landing(Process& target, const Transit& transit) {
  const uint32_t counter = transit.counter.value;
  target.nic.model().landed(transit.packet);
  target.shadow.succeeded(counter, 1);
  if (target.driver != nullptr)
    target.driver->fabric.caused_success(counter, 1);
  if (transit.role == Transit::Role::kMail)
    target.card_mail->counted(counter);
  else
    oracle::check_counted(*this, transit);
  oracle::check_counter(*this, target, counter);
}

// Its source has been read. Who did not ask for delivery may hear of it from now on.
void World::has_left(Transit& transit) {
  const bool early = options_.early_acks && !transit.delivery && chance(ChoiceKind::kEarlyAck);
  transit.stage = early ? Transit::Stage::kEarlyAck : Transit::Stage::kLand;
}

// Whether only a part of the bytes goes in this step: of what the control channel writes, whole words.
bool World::draw_part(Transit& transit) {
  const uint32_t grain = transit.role == Transit::Role::kMail ? sizeof(uint64_t) : 1;
  if (!options_.torn || transit.part > 0 || transit.packet.bytes < 2 * grain || transit.payload == nullptr)
    return false;
  transit.part = grain * draw(static_cast<uint32_t>(transit.packet.bytes) / grain, ChoiceKind::kTorn);
  return transit.part > 0;
}

void World::read(Transit& transit) {
  const uint64_t before = transit.part;
  const bool in_part = draw_part(transit);
  transit.bytes.insert(transit.bytes.end(), transit.payload + before,
                       transit.payload + (in_part ? transit.part : transit.packet.bytes));
  if (in_part)
    return;
  transit.part = 0;
  if (transit.role != Transit::Role::kMail)
    oracle::check_read(*this, transit);
  has_left(transit);
}

// Goes on to kCount or kAck, but where only a part lands.
void World::land(Transit& transit) {
  const bool mail = transit.role == Transit::Role::kMail;
  // Who fails to tell a process something gives it up.
  const bool may_cut = options_.cut_mail && transit.from != transit.to;
  const bool may_fail = (mail ? may_cut : options_.failures) && !transit.acked;
  Process& target = *state_->processes[transit.to];
  const bool begun = transit.part > 0;
  const bool fails = are_cut(transit.from, transit.to) || (may_fail && chance(ChoiceKind::kFailure));
  if (fails || target.killed) {
    if (begun && !target.killed)
      target.nic.model().abandoned(transit.packet);
    transit.code = Code::kFailed;
    transit.stage = Transit::Stage::kAck;
    return;
  }
  if (!begun && !begin_landing(transit)) {
    transit.stage = Transit::Stage::kAck;
    return;
  }
  const uint64_t before = transit.part;
  if (draw_part(transit)) {
    std::memcpy(transit.landing, transit.bytes.data(), transit.part);
    if (!mail)
      oracle::check_landing(*this, transit);
    return;
  }
  if (transit.packet.kind == PacketKind::kAtomic)
    apply_atomic(transit.landing, transit.packet);
  else if (!transit.bytes.empty())
    std::memcpy(transit.landing + before, transit.bytes.data() + before, transit.bytes.size() - before);
  transit.part = 0;
  transit.landed = true;
  if (!mail)
    oracle::check_landed(*this, transit);
  // Its acknowledgement is lost: the bytes are there, and its initiator hears of a failure.
  if (may_fail && chance(ChoiceKind::kFailure))
    transit.code = Code::kFailed;
  transit.stage = transit.counter.valid() ? Transit::Stage::kCount : Transit::Stage::kAck;
  if (!transit.counter.valid())
    target.nic.model().landed(transit.packet);
}

// Whether its target has the memory that it names.
bool World::begin_landing(Transit& transit) {
  const Landing landing = state_->processes[transit.to]->nic.model().locate(transit.packet);
  transit.code = landing.code;
  transit.landing = landing.address;
  transit.counter = landing.counter;
  if (landing.code == Code::kOk)
    return true;
  if (transit.role == Transit::Role::kMail)
    find(Finding::kOrder, "mail", "an operation of the control channel names memory that is not registered");
  else
    oracle::check_refused(*this, transit);
  return false;
}

// Nothing of its initiator's waits for it.
void World::hear_late(const Transit& transit) {
  Process& process = *state_->processes[transit.from];
  const Packet ack{.kind = PacketKind::kAck, .source = transit.to, .token = transit.packet.token};
  if (process.nic.model().awaits(ack))
    find(Finding::kOrder, "NIC",
         "rank " + std::to_string(process.rank) + ": an acknowledgement of rank " + std::to_string(transit.to) +
             ", which has ended, counts for another operation");
}

void World::tell_initiator(const Transit& transit) {
  Process& process = *state_->processes[transit.from];
  if (process.killed)
    return;
  const nic::CounterId completion = process.nic.model().completion_of(transit.packet.token);
  process.nic.model().complete(
      {.kind = PacketKind::kAck, .code = transit.code, .source = transit.to, .token = transit.packet.token});
  put_down(process, transit, completion);
  if (completion.valid())
    oracle::check_counter(*this, process, completion.value);
  nic_changed(process);
}

// What its initiator's NIC has just been told, in the world's own books.
void World::put_down(Process& process, const Transit& transit, nic::CounterId completion) {
  if (transit.role == Transit::Role::kMail) {
    process.cut_off[transit.to] = process.cut_off[transit.to] || transit.code != Code::kOk;
    return process.shadow.ended();  // nothing of the channel's has a counter
  }
  Side& side = state_->sides[transit.request];
  if (transit.code != Code::kOk) {
    fail(process, side);
    if (transit.role == Transit::Role::kData && (side.first_lost == 0 || transit.iteration < side.first_lost))
      side.first_lost = transit.iteration;
  }
  if (transit.role == Transit::Role::kData)
    ++side.data_acked;
  else if (transit.role == Transit::Role::kFlag)
    ++side.flag_acked;
  if (completion.valid()) {
    if (transit.code == Code::kOk)
      process.shadow.succeeded(completion.value, 1);
    else
      process.shadow.failed(completion.value);
  }
  process.shadow.ended();
}

// An operation of that request has failed.
void World::fail(Process& process, Side& side) {
  ++side.failed;
  process.orphaned += side.core == nullptr && !side.ever_released ? 1 : 0;
}

// Nobody has to hear of it any more.
void World::give_back(uint32_t place) {
  disable(transit_agent(place));
  state_->transits[place].stage = Transit::Stage::kFree;
  state_->free_transits.push_back(place);
}

// ---- Who is enabled

void World::nic_changed(Process& process) {
  if (process.killed)
    return;
  process.nic.start_held();
  const NicModel& model = process.nic.model();
  if (const char* wrong = process.shadow.compare(model))
    find(Finding::kLeak, "entries", "rank " + std::to_string(process.rank) + ": " + wrong);
  // Of the ready entries of a counter the oldest may fire (N2).
  if (!process.firing.empty() || model.ready()) {
    for (const uint32_t counter : process.firing)
      disable(fire_agent(process.rank, counter));
    process.firing.clear();
    for (auto entry = model.ready(); entry; entry = model.next_ready(*entry)) {
      const uint32_t counter = model.trigger_of(*entry).value;
      if (state_->place[fire_agent(process.rank, counter)] != kNone)
        continue;
      enable(fire_agent(process.rank, counter));
      process.firing.push_back(counter);
    }
  }
  set_enabled(agent(process.rank, kPostAgent), process.nic.can_arrive());
  process.overflow_idle = false;
  set_enabled(agent(process.rank, kOverflowAgent), !process.endpoint.overflow().empty());
  process.wants_room = false;
  if (process.driver != nullptr)
    process.driver->idle = false;
  if (programs_stand_) {
    process.kept_up = process.kept_up && options_.overflow;  // else it may have found no room
    standing_changed(process);
  }
  host_changed(process);
}

void World::streams_changed(Process& process) {
  if (process.killed)
    return;
  for (uint32_t queue = 0; queue < process.streams.size(); ++queue)
    set_enabled(agent(process.rank, kFirstStreamAgent + queue), process.streams[queue]->stream.ready());
  if (programs_stand_)
    standing_changed(process);
  host_changed(process);
}

}  // namespace lanyard::nicsim
