#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "nicsim/deterministic/oracles/oracles.h"
#include "transport/core/standing.h"

namespace lanyard::nicsim::oracle {

namespace {

// Reports a finding. Returns false.
template <typename... Args>
bool find(World& world, Finding finding, const char* oracle, fmt::format_string<Args...> text, Args&&... args) {
  world.find(finding, oracle, fmt::format(text, std::forward<Args>(args)...));
  return false;
}
template <typename... Args>
bool leak(World& world, const char* oracle, fmt::format_string<Args...> text, Args&&... args) {
  return find(world, Finding::kLeak, oracle, text, std::forward<Args>(args)...);
}

std::string name(const World& world, RequestName request) { return world.scenario().describe(request); }

// Returns false, with a finding, if the NIC, the core and the world disagree on failures.
bool failures_are_known(World& world) {
  for (Process& process : living(world)) {
    for (const auto& queued : process.streams)
      while (process.endpoint.take_failed(*queued->queue) != nullptr) {
      }
    process.untraced += process.endpoint.take_unrecorded_failures();
    // Failures beyond the records of the NIC cannot be assigned to requests.
    const NicModel& model = process.nic.model();
    const bool forgotten = model.failures() > model.limits().kept_failures;
    if (process.untraced < process.orphaned || (process.untraced > process.orphaned && !forgotten))
      return leak(world, "honesty",
                  "rank {}: {} operations failed of requests that were freed, and the program is told of {}",
                  process.rank, process.orphaned, process.untraced);
  }
  for (const RequestName request : requests_of(world)) {
    const Side& side = world.side(request);
    if (!world.is_killed(side.rank) && side.core != nullptr && side.core->failures != side.failed)
      return leak(world, "honesty", "of the {} {} operations failed, and the program is told of {}",
                  name(world, request), side.failed, side.core->failures);
  }
  return true;
}

// Some operations fail before they reach a card. The driver must report each once, when it is due.
bool drivers_tell_all(World& world) {
  if (!world.options().driver)
    return true;
  for (const Process& process : living(world))
    if (const std::optional<nic::Op> overdue = process.driver->fabric.overdue())
      return leak(world, "honesty", "{} was refused and is due, and the driver does not say that it fails",
                  world.describe(process, *overdue));
  for (const RequestName request : requests_of(world)) {
    const Side& side = world.side(request);
    Process& process = world.process(side.rank);
    if (process.killed || side.core == nullptr)
      continue;
    for (const nic::CounterId counter : {side.core->completion, side.core->written}) {
      if (!counter.valid())
        continue;
      const nic::CounterValue right = process.driver->fabric.caused(counter);
      const nic::CounterValue value = process.card().read(counter).value();
      if (value != right)
        return leak(world, "exactly once",
                    "the driver says that {} holds {} and {} failures, right were {} and {} failures",
                    world.describe(process, counter), value.success, value.failure, right.success, right.failure);
    }
  }
  return true;
}

// A pair ends on both sides: each must learn of a failure or the end of the other.
void judge_pairs(World& world) {
  for (const RequestName request : requests_of(world)) {
    const Side &side = world.side(request), &other = world.side(request.other());
    if (side.core == nullptr || !side.core->matched() || world.is_killed(side.rank) || world.is_killed(other.rank) ||
        side.core->failures > 0 || side.pieces == 0)
      continue;
    // The end of the other side is known: no more starts, and completed ones stay complete.
    if (side.core->peer_starts != UINT64_MAX && (side.standing || side.core->transferred()))
      continue;
    const auto untold = [&](const char* what) {
      leak(world, "honesty", "the {} is not told that its other side {}", name(world, request), what);
    };
    const bool gone = other.core == nullptr || other.number != side.core->matched_number;
    if (other.core == nullptr && side.starts > other.before)
      untold("was freed");
    else if (gone && !side.core->finds_out && side.core->peer_starts == UINT64_MAX)
      untold("was freed, and would not find out");
    // The driver may learn of it after the request is gone. A merged request may wait for a member.
    else if (other.core == nullptr && other.failed > 0 && !side.core->transferred() && !world.options().driver &&
             side.core->exchange == nullptr)
      untold("had failed when it was freed");
    else if (other.core != nullptr && other.number == side.core->matched_number && other.core->failures > 0)
      untold("has failed");
  }
}

bool talks_to_killed(const World& world, uint32_t rank) {
  return std::ranges::any_of(world.scenario().messages(), [&](const Scenario::Message& message) {
    return (message.from == rank && world.is_killed(message.to)) ||
           (message.to == rank && world.is_killed(message.from));
  });
}

// True if both sides live and have made the same starts, and no operation of theirs has failed.
bool went_well(const World& world, uint32_t index) {
  const Side &side = world.side(RequestName{index}), &other = world.side(RequestName{index}.other());
  return side.core != nullptr && !world.is_killed(side.rank) && !world.is_killed(other.rank) && side.failed == 0 &&
         other.failed == 0 && side.starts == other.starts;
}

void judge_side(World& world, uint32_t index) {
  const Side& side = world.side(RequestName{index});
  bool judged = went_well(world, index);
  // Members of its exchange share its counters. Members of the peer's exchange may hold up the
  // peer. Freed members cannot be judged.
  for (const uint32_t merged : {index, index ^ 1})
    if (judged)
      world.for_each_merged(merged, [&](uint32_t member) { judged = judged && went_well(world, member); });
  // Its trigger also counts completions of the other set.
  if (judged && world.takes_turns(index))
    world.for_each_of_other_set(index, [&](uint32_t member) { judged = judged && went_well(world, member); });
  const bool fails = world.options().failures || world.options().kills;
  if (!judged || (fails && side.core->exchange != nullptr && side.core->exchange->ended))
    return;
  const core::Request& core = *side.core;
  nic::Nic& card = world.process(side.rank).card();
  const uint64_t starts = side.starts - side.before;
  const auto expect = [&](const char* what, uint64_t value, uint64_t wanted) {
    if (value != wanted)
      leak(world, "exactly once", "the {} was started {} times: {} {}, not {}", name(world, {index}), starts, what,
           value, wanted);
  };
  if (core.completion.valid())
    expect("its completion counter holds", card.read(core.completion).value().success, core.completion_value(starts));
  if (core.written.valid())
    expect("its writes' counter holds", card.read(core.written).value().success, side.pieces * starts);
  if (core.flag_word.valid())
    expect("its flag has grown by", core.flag_word.count(), starts);
  if (core.done.valid())
    expect("its done word has grown by", core.iterations_done(), starts);
  if (core.moved.valid())
    expect("its word for packing has grown by", core.moved.count(),
           side.standing                                       ? starts
           : core.transfer.direction == core::Direction::kSend ? core.starts
                                                               : core.waits);
  if (core.trigger.valid() && (core.exchange == nullptr || !core.exchange->ended)) {
    uint64_t of_other = 0;
    world.for_each_of_other_set(index, [&](uint32_t member) {
      const Side& other = world.side(RequestName{member});
      of_other = other.starts - other.before;
    });
    expect("its trigger counter holds", card.read(core.trigger).value().success,
           core.trigger_base + (core.exchange == nullptr ? core.trigger_step() * starts
                                                         : core.exchange->trigger_value(starts, of_other)));
  }
  if (core.clear_to_send_word.valid())
    expect("its clear-to-send word has grown by", core.clear_to_send_word.count(),
           world.is_implied(index) ? 0 : starts);
}

// Operations posted ahead for its standing requests.
uint64_t ahead(const World& world, const Process& process) {
  uint64_t operations = 0;
  for (const RequestName request : requests_of(world, process))
    if (const Side& side = world.side(request); side.standing)
      operations += (side.before + side.core->standing->posted - side.starts) * side.core->plan.size();
  return operations;
}

// True if standing requests exist and a request of this process, or the peer of one, was released.
// Entries of later launches may wait for ever for the other side.
bool let_go_of_standing(const World& world, const Process& process) {
  return world.programs_stand() && any_of(requests_of(world, process), [&](RequestName request) {
           return world.side(request).ever_released || world.side(request.other()).ever_released;
         });
}

// Counters that unfreed requests, queues and the control channel hold.
uint32_t counters_held(const World& world, const Process& process) {
  auto held = static_cast<uint32_t>(process.streams.size()) + (process.card_mail != nullptr ? CardMail::kCounters : 0);
  const auto held_by = [](const core::Resources& resources) {
    return uint32_t{resources.trigger.valid()} + uint32_t{resources.completion.valid()};
  };
  for (const RequestName request : requests_of(world, process)) {
    const Side& side = world.side(request);
    if (side.core == nullptr)
      continue;
    const core::Exchange* exchange = side.core->exchange;
    held += side.core->written.valid() ? 1 : 0;
    if (exchange != nullptr && exchange->members.front() != side.core)
      continue;  // counted with the first member
    held += held_by(exchange == nullptr ? *side.core : exchange->shared);
    held += side.standing && side.core->standing->trigger.valid() ? 1 : 0;
    // The counters of a freed set stay open as long as the other set.
    if (exchange != nullptr && exchange->other != nullptr && exchange->other->members.empty())
      held += held_by(exchange->other->shared);
  }
  return held;
}

// Streams keep at most three counts for each standing request.
void judge_counts(World& world, const Process& process) {
  size_t taken = 0, held = 0;
  for (const auto& queued : process.streams)
    taken += queued->stream.counts_taken();
  for (const RequestName request : requests_of(world, process))
    if (const Side& side = world.side(request); side.standing)
      for (const uint64_t* count : {side.core->standing->count, side.core->standing->rings, side.core->standing->moves})
        held += count != nullptr ? 1 : 0;
  if (taken > held)
    leak(world, "lifetime", "rank {}: its streams keep {} counts, and its requests hold {}", process.rank, taken, held);
}

// All programs have ended: existing pairs must be matched, and withdrawn requests forgotten.
void judge_matching(World& world, const Process& process) {
  const auto keeps = [&](const std::string& what) {
    leak(world, "matching", "rank {} keeps {} that was withdrawn", process.rank, what);
  };
  bool posts = false;
  for (const RequestName request : requests_of(world, process)) {
    const Side &side = world.side(request), &other = world.side(request.other());
    posts = posts || (request.receive() && is_matching(side));
    if (side.core == nullptr || other.core == nullptr || side.pieces == 0)
      continue;
    const bool mutual = !side.core->matched() ||
                        (other.core->matched() && other.core->matched_number == side.core->number) ||
                        other.number != side.core->matched_number;
    if (!mutual)
      leak(world, "matching", "the {} is matched, and its other side is not", name(world, request));
    else if (is_matching(side) && is_matching(other))
      leak(world, "matching", "the {} is there on both sides, and is not matched", name(world, request));
  }
  if (!posts && !process.matcher.posted().empty())
    keeps("a receive, still posted,");
  for (uint32_t from = 0; from < world.scenario().ranks(); ++from) {
    const core::MatchCard* offer = process.matcher.unmatched_offer(from, kCommunicator);
    if (offer == nullptr)
      continue;
    const Side& side = world.side(RequestName{world.process(from).requests[offer->send - 1]});
    if (!is_matching(side) || side.number != offer->send)
      keeps("an offer of rank " + std::to_string(from));
  }
}

// Returns false, with a finding, if a message between living processes has not arrived.
bool mail_has_arrived(World& world) {
  for (const Process& process : living(world))
    if (process.card_mail != nullptr)
      if (const std::optional<std::string> stuck = process.card_mail->what_is_stuck())
        return find(world, Finding::kDeadlock, "mail", "{}", *stuck);
  return true;
}

// Checks also that the channels leave nothing open.
void judge_mail(World& world) {
  if (!mail_has_arrived(world) || !world.report().ok())
    return;
  for (const Process& process : living(world))
    if (process.card_mail != nullptr)
      if (const std::optional<std::string> open = process.card_mail->close())
        leak(world, "mail", "{}", *open);
}

// Resources that were not closed when their request was freed are tried again for new requests.
void close_what_was_held(Process& process) {
  constexpr int kRequests = 40;  // enough: the pool tries again less and less often
  for (int i = 0; i < kRequests && process.endpoint.unclosed() > 0; ++i) {
    core::Request* other = process.endpoint.new_request({.direction = core::Direction::kReceive});
    if (process.endpoint.open_resources(*other).ok())
      process.endpoint.close_resources(*other);
    (void)process.endpoint.free_request(other);
  }
}

// ---- Processes that wait in MPIX_Queue_wait

// Returns the queue on which the process waits, if it does.
std::optional<uint32_t> waits_on(const Process& process) {
  const Action* next = process.killed ? nullptr : next_action(process);
  return next != nullptr && next->kind == Action::Kind::kSync ? std::optional(next->queue) : std::nullopt;
}

// MPIX_Queue_wait must report each failure on its queue.
bool waits_are_told(World& world) {
  for (Process& process : living(world))
    if (const std::optional<uint32_t> queue = waits_on(process))
      if (const core::Request* failed = process.endpoint.take_failed(*process.streams[*queue]->queue))
        return leak(world, "honesty", "rank {}: MPIX_Queue_wait waits, and does not tell that ({}) has failed",
                    process.rank, failed->describe());
  return true;
}

// MPIX_Queue_wait must report peers that the card knows to have ended, and get all answers (P3).
bool waits_are_answered(World& world) {
  for (const RequestName request : requests_of(world)) {
    const Side& side = world.side(request);
    const Process& process = world.process(side.rank);
    const uint32_t peer = world.side(request.other()).rank;
    const uint64_t transferred = request.receive() ? side.data_landed : side.data_acked;
    if (side.core == nullptr || waits_on(process) != side.queue)
      continue;
    if (transferred < side.started * side.pieces && side.failed == 0 && process.card().is_lost(peer))
      return leak(world, "honesty", "MPIX_Queue_wait waits for the {}, and is never told that rank {} has ended",
                  name(world, request), peer);
  }
  for (const RequestName request : requests_of(world)) {
    const Side& side = world.side(request);
    if (request.receive() && side.core != nullptr && side.core->complete() && side.core->failures == 0 &&
        side.core->asked > side.core->assured && waits_on(world.process(side.rank)) == side.queue)
      return find(world, Finding::kDeadlock, "liveness",
                  "MPIX_Queue_wait waits to hear whether all went well with the {}, and is never told",
                  name(world, request));
  }
  return true;
}

// ---- A path between two cards that was cut

bool is_any_cut(const World& world) {
  for (const Process& one : living(world))
    for (const Process& other : living(world))
      if (world.are_cut(one.rank, other.rank))
        return true;
  return false;
}

// A process that gave up a living peer must match nothing with it. The peer may wait, unaware.
void judge_cut(World& world) {
  for (const Process& process : living(world))
    for (const RequestName request : requests_of(world, process))
      if (const Side& side = world.side(request); is_matching(side) && side.core->transfer.peer != core::kAnySource &&
                                                  process.cut_off[side.core->transfer.peer_nic])
        find(world, Finding::kDeadlock, "liveness",
             "the {} is being matched, and the control channel has given its peer up", name(world, request));
}

// ---- The whole judgement

// `all_went_on`: no program gave up. `all_closes`: everything that was freed can be closed.
void judge_process(World& world, Process& process, bool all_went_on, bool all_closes) {
  // Entries that wait for a process that was killed or gave up wait for ever; the program does not.
  uint64_t left = process.shadow.outstanding() + process.nic.posting();
  if (process.driver != nullptr) {
    const uint64_t depth = process.card().caps().deferred_depth, free = process.card().free_entries();
    if (free > depth)
      leak(world, "entries", "rank {}: the driver would give away {} entries, of {}", process.rank, free, depth);
    left = std::max(left, depth - std::min(depth, free));
    // The driver must not count objects that libfabric has refused or closed.
    const nic::Usage told = process.driver->nic->usage(), open = process.driver->fabric.usage();
    if (told.counters != open.counters || told.regions != open.regions)
      leak(world, "lifetime", "rank {}: the driver says that {} counters and {} regions are open, and {} and {} are",
           process.rank, told.counters, told.regions, open.counters, open.regions);
  }
  if (all_went_on && all_closes && !talks_to_killed(world, process.rank) && !let_go_of_standing(world, process) &&
      left > ahead(world, process))
    leak(world, "entries", "rank {}: {} entries are left that will never fire", process.rank, left);
  if (all_went_on && world.deaths() == 0)
    judge_matching(world, process);
  close_what_was_held(process);
  if (all_closes && process.endpoint.unclosed() > 0)
    leak(world, "lifetime", "rank {}: {} freed requests still have something open on the NIC", process.rank,
         process.endpoint.unclosed());
  const uint32_t open = process.nic.model().open_counters(), held = counters_held(world, process);
  if (all_closes && open > held)
    leak(world, "lifetime", "rank {}: {} counters are open, and its requests and queues hold {}", process.rank, open,
         held);
  judge_counts(world, process);
  if (process.nic.model().in_flight() > 0)
    leak(world, "entries", "rank {}: operations are under way for ever", process.rank);
}

}  // namespace

void judge_quiescence(World& world) {
  if (is_any_cut(world))
    return judge_cut(world);
  if (!drivers_tell_all(world) || !failures_are_known(world))
    return;
  judge_pairs(world);
  bool all_went_on = true;
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank)
    all_went_on = all_went_on && !world.process(rank).gave_up;
  // The driver cannot cancel entries that wait for a failed operation.
  const bool all_closes = !world.options().driver || !any_of(requests_of(world), [&](RequestName request) {
    return world.side(request).failed > 0;
  });
  for (Process& process : living(world))
    judge_process(world, process, all_went_on, all_closes);
  for (const RequestName request : requests_of(world))
    judge_side(world, request.index);
  judge_mail(world);
}

void judge_stall(World& world) {
  if (is_any_cut(world))
    return judge_cut(world);
  if (!drivers_tell_all(world) || !waits_are_told(world) || !failures_are_known(world) || !waits_are_answered(world))
    return;
  judge_pairs(world);
  if (mail_has_arrived(world))
    explain_stall(world);
}

}  // namespace lanyard::nicsim::oracle
