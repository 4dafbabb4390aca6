// The steps of a World: the action of each agent, and the agents enabled afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "nicsim/deterministic/oracles/oracles.h"
#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

void World::take(uint32_t number) {
  if (number >= first_transit_)
    return take_transit(number - first_transit_);
  Process& process = *state_->processes[rank_of(number)];
  switch (kind_of(number)) {
    case StepKind::kHost: return take_host(process);
    case StepKind::kPost: return take_post(process);
    case StepKind::kOverflow: return take_overflow(process);
    case StepKind::kStream: return take_stream(process, index_of(number));
    case StepKind::kRing: return take_ring(process, index_of(number));
    case StepKind::kFire: return take_fire(process, index_of(number));
    case StepKind::kDrive: return take_drive(process);
    case StepKind::kKeepUp: return take_keep_up(process);
    case StepKind::kLoss: return take_loss(process);
    case StepKind::kMail: return take_mail(process);
    default: LANYARD_CHECK(false, "operations under way are no agents of a rank");
  }
}

void World::take_post(Process& process) {
  const nic::CounterId trigger = process.nic.next_posting().trigger;
  process.nic.arrive();
  oracle::check_counter(*this, process, trigger.value);
  nic_changed(process);
}

void World::take_overflow(Process& process) {
  // The overflow looks at triggers only after some calls in which no entry became free.
  constexpr int kCalls = 32;
  size_t handed_over = 0;
  (void)process.nic.gave_stale_value();
  for (int call = 0; call < kCalls && handed_over == 0; ++call)
    handed_over = process.endpoint.overflow().drain();
  nic_changed(process);
  // After a stale read of a counter, look again.
  process.overflow_idle = handed_over == 0 && !process.nic.gave_stale_value();
  set_enabled(process.rank, StepKind::kOverflow, !process.overflow_idle && !process.endpoint.overflow().empty());
}

// ---- The NIC

void World::take_ring(Process& process, uint32_t counter) {
  const uint32_t rings = process.nic.rings_under_way(counter);
  const uint32_t landing = rings > 1 ? 1 + draw(rings, ChoiceKind::kCoalesce) : 1;
  process.nic.rings_land(counter, landing);
  process.looks = std::min(process.looks, 1u);  // may start a standing request: look again
  set_enabled(process.rank, StepKind::kRing, landing < rings, counter);
  oracle::check_counter(*this, process, counter);
  nic_changed(process);
}

void World::take_fire(Process& process, uint32_t counter) {
  NicModel& model = process.nic.model();
  const std::optional<uint32_t> entry = process.nic.first_to_fire({counter});
  LANYARD_CHECK(entry.has_value(), "the agent was enabled");
  const nic::Op op = model.op_of(*entry);
  const char* wrong = process.shadow.fired(counter, model.threshold_of(*entry), op.context);
  const std::optional<Launch> launched = model.fire(*entry);
  if (wrong != nullptr)
    return find(Finding::kOrder, "NIC", process, wrong);
  started(process.rank, op, launched);
  process.nic.others_want_entries();
  nic_changed(process);
  if (process.wants_room || process.nic.posting() > 0)
    host_changed(process);
}

void World::started(uint32_t rank, const nic::Op& op, const std::optional<Launch>& launched) {
  if (launched)
    launch(rank, op, *launched);
  else if (!is_killed(op.remote.peer))
    find(Finding::kOrder, "NIC", process(rank), "an operation fails though its peer lives");
  else if (!is_mail(op))
    failed_at_once(rank, op);
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
    find(Finding::kOrder, "NIC", process, "an operation goes to a peer that is lost");
  process.shadow.launched();
  Transit& transit = state.transits[place];
  std::vector<std::byte> bytes = std::move(transit.bytes);  // keeps its capacity
  bytes.clear();
  transit = {.role = role_of(process, op),
             .delivery = op.level == nic::CompletionLevel::kDelivery,
             .from = rank,
             .to = launch.peer,
             .request = is_mail(op) ? kNone : process.requests[op.context - 1],
             .owner = op.context,
             .number = ++state.launched,
             .packet = launch.packet,
             .payload = launch.payload,
             .bytes = std::move(bytes)};
  if (transit.request != kNone && state.sides[transit.request].pieces == 0)
    return find(
        Finding::kOrder, "order",
        fmt::format("an operation of the {} fires, who has nothing to be sent", scenario_.describe({transit.request})));
  transit.stage = transit.payload != nullptr ? Transit::Stage::kRead : Transit::Stage::kLand;
  if (transit.role != Transit::Role::kMail) {
    transit.iteration = has_fired(transit.request, transit.role);
    oracle::check_fired(*this, transit);
  }
  if (transit.stage == Transit::Stage::kLand)
    has_left(transit);
  enable_transit(place);
}

// Records that an operation of the request has fired. Returns its iteration.
uint64_t World::has_fired(uint32_t request, Transit::Role role) {
  Side& side = state_->sides[request];
  switch (role) {
    case Transit::Role::kData: return side.data_fired++ / std::max<uint64_t>(side.pieces, 1) + 1;
    case Transit::Role::kClear: return ++side.clear_fired;
    case Transit::Role::kDone:
      for_each_merged(request, [this](uint32_t member) { ++state_->sides[member].done_fired; });
      return side.done_fired;
    default: state_->sides[request | 1].done_fired += flags_tell_stream(request) ? 1 : 0; return ++side.flag_fired;
  }
}

// Records how an operation has ended.
void World::has_ended(Process& process, uint32_t request, Transit::Role role, uint64_t iteration, Code code) {
  Side& side = state_->sides[request];
  const bool data = role == Transit::Role::kData;
  if (code != Code::kOk) {
    ++side.failed;
    process.orphaned += side.core == nullptr && !side.ever_released ? 1 : 0;
    if (data && (side.first_lost == 0 || iteration < side.first_lost))
      side.first_lost = iteration;
  }
  side.data_acked += data ? 1 : 0;
  side.flag_acked += role == Transit::Role::kFlag ? 1 : 0;
}

void World::failed_at_once(uint32_t rank, const nic::Op& op) {
  Process& process = *state_->processes[rank];
  const uint32_t request = process.requests[op.context - 1];
  const Transit::Role role = role_of(process, op);
  has_ended(process, request, role, has_fired(request, role), Code::kFailed);
  state_->sides[request].data_read += role == Transit::Role::kData ? 1 : 0;
  if (op.completion.valid()) {
    process.shadow.failed(op.completion.value);
    oracle::check_counter(*this, process, op.completion.value);
  }
}

// ---- Operations in flight

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
        break;  // only a part has landed
      if (transit.role == Transit::Role::kMail)
        mail_has_landed(target, transit);
      // Streams that wait for the word look again, and hosts that wait to free the request.
      if (transit.role == Transit::Role::kDone || transit.role == Transit::Role::kFlag) {
        target.wants_room = false;
        streams_changed(target);
      }
      break;
    case Transit::Stage::kCount:
      transit.stage = Transit::Stage::kAck;
      if (target.killed)
        break;
      count_landing(target, transit);
      nic_changed(target);
      break;
    case Transit::Stage::kLateAck: hear_late(transit); return give_back(place);
    default: tell_initiator(transit); return give_back(place);
  }
  if (transit.stage == Transit::Stage::kAck && transit.acked)
    return give_back(place);
  enable_transit(place);
}

void World::count_landing(Process& target, const Transit& transit) {
  const uint32_t counter = transit.counter.value;
  target.nic.model().landed(transit.packet);
  target.shadow.succeeded(counter, 1);
  if (target.driver != nullptr)
    target.driver->fabric.cause({counter}, Code::kOk, 1);
  if (transit.role == Transit::Role::kMail)
    target.card_mail->counted(counter);
  else
    oracle::check_counted(*this, transit);
  oracle::check_counter(*this, target, counter);
}

// The source has been read. Without delivery level, the ack may come from now on.
void World::has_left(Transit& transit) {
  const bool early = options_.early_acks && !transit.delivery && chance(ChoiceKind::kEarlyAck);
  transit.stage = early ? Transit::Stage::kEarlyAck : Transit::Stage::kLand;
}

// True if this step moves only a part of the bytes. Control-channel writes go in whole words.
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

// Moves on to kCount or kAck, unless only a part lands.
void World::land(Transit& transit) {
  const bool mail = transit.role == Transit::Role::kMail;
  // A process gives up a peer that its mail cannot reach. It must not give itself up.
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
  // The ack is lost: the bytes have landed, but the initiator sees a failure.
  if (may_fail && chance(ChoiceKind::kFailure))
    transit.code = Code::kFailed;
  transit.stage = transit.counter.valid() ? Transit::Stage::kCount : Transit::Stage::kAck;
  if (!transit.counter.valid())
    target.nic.model().landed(transit.packet);
}

// Returns false if the target does not have the memory that the operation names.
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

// An ack that comes after its peer was lost. No operation may be waiting for it.
void World::hear_late(const Transit& transit) {
  Process& process = *state_->processes[transit.from];
  const Packet ack{.kind = PacketKind::kAck, .source = transit.to, .token = transit.packet.token};
  if (process.nic.model().awaits(ack))
    find(Finding::kOrder, "NIC", process,
         fmt::format("an acknowledgement of rank {}, which has ended, counts for another operation", transit.to));
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

// Records what the initiator's NIC has just learned.
void World::put_down(Process& process, const Transit& transit, nic::CounterId completion) {
  process.shadow.ended();
  if (transit.role == Transit::Role::kMail) {  // operations of the channel have no counter
    process.cut_off[transit.to] = process.cut_off[transit.to] || transit.code != Code::kOk;
    return;
  }
  has_ended(process, transit.request, transit.role, transit.iteration, transit.code);
  if (completion.valid())
    transit.code == Code::kOk ? process.shadow.succeeded(completion.value, 1) : process.shadow.failed(completion.value);
}

// Frees the place of an operation that is over.
void World::give_back(uint32_t place) {
  set_enabled(first_transit_ + place, false);
  state_->transits[place].stage = Transit::Stage::kFree;
  state_->free_transits.push_back(place);
}

// ---- Which agents are enabled

void World::nic_changed(Process& process) {
  if (process.killed)
    return;
  process.nic.start_held();
  const NicModel& model = process.nic.model();
  if (const char* wrong = process.shadow.compare(model))
    find(Finding::kLeak, "entries", process, wrong);
  // Of each counter, only the oldest ready entry may fire (N2).
  for (const uint32_t counter : process.firing)
    set_enabled(process.rank, StepKind::kFire, false, counter);
  process.firing.clear();
  for (auto entry = model.ready(); entry; entry = model.next_ready(*entry)) {
    const uint32_t counter = model.trigger_of(*entry).value;
    if (is_enabled(agent(process.rank, StepKind::kFire, counter)))
      continue;
    set_enabled(process.rank, StepKind::kFire, true, counter);
    process.firing.push_back(counter);
  }
  set_enabled(process.rank, StepKind::kPost, process.nic.can_arrive());
  process.overflow_idle = false;
  set_enabled(process.rank, StepKind::kOverflow, !process.endpoint.overflow().empty());
  process.wants_room = false;
  if (process.driver != nullptr)
    process.driver->idle = false;
  if (programs_stand_) {
    process.kept_up = process.kept_up && options_.overflow;  // if false, it may have found no room
    standing_changed(process);
  }
  host_changed(process);
}

void World::streams_changed(Process& process) {
  if (process.killed)
    return;
  for (uint32_t queue = 0; queue < process.streams.size(); ++queue)
    set_enabled(process.rank, StepKind::kStream, process.streams[queue]->stream.ready(), queue);
  if (programs_stand_)
    standing_changed(process);
  host_changed(process);
}

}  // namespace lanyard::nicsim
