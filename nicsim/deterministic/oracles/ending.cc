#include "nicsim/deterministic/oracles/ending.h"

#include <algorithm>
#include <optional>
#include <string>

#include "transport/core/standing.h"

namespace lanyard::nicsim::oracle {

namespace {

// The books of failed operations: the NIC's, the core's and the world's own.
bool failures_are_known(World& world) {
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank) {
    Process& process = world.process(rank);
    if (process.killed)
      continue;
    for (const auto& queued : process.streams)
      while (process.endpoint.take_failed(*queued->queue) != nullptr) {
      }
    process.untraced += process.endpoint.take_unrecorded_failures();
    // Of more than the NIC remembers nobody knows whose they were.
    const NicModel& model = process.nic.model();
    const bool forgotten = model.failures() > model.limits().kept_failures;
    if (process.untraced < process.orphaned || (process.untraced > process.orphaned && !forgotten)) {
      world.find(Finding::kLeak, "honesty",
                 "rank " + std::to_string(rank) + ": " + std::to_string(process.orphaned) +
                     " operations failed of requests that were freed, and the program is told of " +
                     std::to_string(process.untraced));
      return false;
    }
  }
  for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index) {
    const Side& side = world.side(RequestName{index});
    if (world.process(side.rank).killed)
      continue;
    if (side.core != nullptr && side.core->failures != side.failed) {
      world.find(Finding::kLeak, "honesty",
                 "of the " + world.scenario().describe({index}) + " " + std::to_string(side.failed) +
                     " operations failed, and the program is told of " + std::to_string(side.core->failures));
      return false;
    }
  }
  return true;
}

// What fails without a card's doing the driver itself counts, and tells of: once, and when it is due.
bool drivers_tell_all(World& world) {
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank) {
    const Process& process = world.process(rank);
    const std::optional<nic::Op> overdue =
        process.driver == nullptr || process.killed ? std::nullopt : process.driver->fabric.overdue();
    if (!overdue)
      continue;
    world.find(
        Finding::kLeak, "honesty",
        world.describe(process, *overdue) + " was refused and is due, and the driver does not say that it fails");
    return false;
  }
  for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index) {
    const Side& side = world.side(RequestName{index});
    Process& process = world.process(side.rank);
    if (process.driver == nullptr || process.killed || side.core == nullptr)
      continue;
    for (const nic::CounterId counter : {side.core->completion, side.core->written}) {
      if (!counter.valid())
        continue;
      const nic::CounterValue right = process.driver->fabric.caused(counter);
      const nic::CounterValue value = process.card().read(counter).value();
      if (value == right)
        continue;
      world.find(Finding::kLeak, "exactly once",
                 "the driver says that " + world.describe(process, counter) + " holds " +
                     std::to_string(value.success) + " and " + std::to_string(value.failure) +
                     " failures, right were " + std::to_string(right.success) + " and " +
                     std::to_string(right.failure));
      return false;
    }
  }
  return true;
}

// A pair comes to its end on both sides: what one notices, or does, the other is told.
void judge_pairs(World& world) {
  for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index) {
    const Side& side = world.side(RequestName{index});
    const Side& other = world.side(RequestName{index ^ 1});
    if (side.core == nullptr || !side.core->matched() || world.is_killed(side.rank) || world.is_killed(other.rank) ||
        side.core->failures > 0 || side.pieces == 0)
      continue;
    // Nothing more is started then, and what has completed is not taken back.
    if (side.core->peer_starts != UINT64_MAX && (side.standing || side.core->transferred()))
      continue;
    const auto untold = [&](const char* what) {
      world.find(Finding::kLeak, "honesty",
                 "the " + world.scenario().describe({index}) + " is not told that its other side " + what);
    };
    const bool gone = other.core == nullptr || other.number != side.core->matched_number;
    if (other.core == nullptr && side.starts > other.before)
      untold("was freed");
    else if (gone && !side.core->finds_out && side.core->peer_starts == UINT64_MAX)
      untold("was freed, and would not find out");
    // The driver may hear of a failure when its request is gone; and what is merged may wait for another member.
    else if (other.core == nullptr && other.failed > 0 && !side.core->transferred() && !world.options().driver &&
             side.core->exchange == nullptr)
      untold("had failed when it was freed");
    else if (other.core != nullptr && other.number == side.core->matched_number && other.core->failures > 0)
      untold("has failed");
  }
}

bool talks_to_killed(const World& world, uint32_t rank) {
  const auto& messages = world.scenario().messages();
  return std::any_of(messages.begin(), messages.end(), [&](const Scenario::Message& message) {
    return (message.from == rank && world.is_killed(message.to)) ||
           (message.to == rank && world.is_killed(message.from));
  });
}

// Whether both sides of the pair have done all there was to do: nobody was told of a failure and gave up.
bool went_well(const World& world, uint32_t index) {
  const Side& side = world.side(RequestName{index});
  const Side& other = world.side(RequestName{index ^ 1});
  return side.core != nullptr && !world.is_killed(side.rank) && !world.is_killed(other.rank) && side.failed == 0 &&
         other.failed == 0 && side.starts == other.starts;
}

void judge_side(World& world, uint32_t index) {
  const Side& side = world.side(RequestName{index});
  bool judged = went_well(world, index);
  // What it is merged with has the same counters, and what its other side is merged with may hold that up; of a member
  // that was freed nobody knows any more.
  for (const uint32_t merged : {index, index ^ 1})
    if (judged)
      world.for_each_merged(merged, [&](uint32_t member) { judged = judged && went_well(world, member); });
  // The other set's completions count there, too.
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
      world.find(Finding::kLeak, "exactly once",
                 "the " + world.scenario().describe({index}) + " was started " + std::to_string(starts) +
                     " times: " + what + " " + std::to_string(value) + ", not " + std::to_string(wanted));
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
  if (core.trigger.valid()) {
    uint64_t of_other = 0;
    world.for_each_of_other_set(index, [&](uint32_t member) {
      const Side& other = world.side(RequestName{member});
      of_other = other.starts - other.before;
    });
    const uint64_t wanted =
        core.trigger_base +
        (core.exchange == nullptr ? core.trigger_step() * starts : core.exchange->trigger_value(starts, of_other));
    if (core.exchange == nullptr || !core.exchange->ended)
      expect("its trigger counter holds", card.read(core.trigger).value().success, wanted);
  }
  if (core.clear_to_send_word.valid())
    expect("its clear-to-send word has grown by", core.clear_to_send_word.count(),
           world.is_implied(index) ? 0 : starts);
}

// What its standing requests have been given ahead.
uint64_t ahead(const World& world, const Process& process) {
  uint64_t operations = 0;
  for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index) {
    const Side& side = world.side(RequestName{index});
    if (side.rank == process.rank && side.standing)
      operations += (side.before + side.core->standing->posted - side.starts) * side.core->plan.size();
  }
  return operations;
}

// Whether a request that was let go of is one of its requests' or is matched with one of them, and more of it was
// launched since: entries of that may wait for ever for what the other side did not do.
bool let_go_of_standing(const World& world, const Process& process) {
  const auto& messages = world.scenario().messages();
  for (uint32_t index = 0; index < 2 * messages.size(); ++index) {
    const Scenario::Message& message = messages[index / 2];
    if ((message.from == process.rank || message.to == process.rank) && world.side(RequestName{index}).ever_released &&
        world.programs_stand())
      return true;
  }
  return false;
}

// By requests that were not freed, and one by each queue.
uint32_t counters_held(const World& world, const Process& process) {
  auto held = static_cast<uint32_t>(process.streams.size()) + (process.card_mail != nullptr ? CardMail::kCounters : 0);
  for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index) {
    const Side& side = world.side(RequestName{index});
    if (side.core == nullptr || side.rank != process.rank)
      continue;
    const core::Exchange* exchange = side.core->exchange;
    held += side.core->written.valid() ? 1 : 0;
    if (exchange != nullptr && exchange->members.front() != side.core)
      continue;  // its counters are the first one's
    const core::Resources& resources = exchange == nullptr ? *side.core : exchange->shared;
    held += (resources.trigger.valid() ? 1 : 0) + (resources.completion.valid() ? 1 : 0) +
            (side.standing && side.core->standing->trigger.valid() ? 1 : 0);
    // Of two sets those of one that was freed live as long as the other.
    if (exchange != nullptr && exchange->other != nullptr && exchange->other->members.empty())
      held += (exchange->other->shared.trigger.valid() ? 1 : 0) + (exchange->other->shared.completion.valid() ? 1 : 0);
  }
  return held;
}

// The driver keeps no counter or region that libfabric has refused, or has closed.
void judge_usage(World& world, const Process& process) {
  const nic::Usage told = process.driver->nic->usage(), open = process.driver->fabric.usage();
  if (told.counters != open.counters || told.regions != open.regions)
    world.find(Finding::kLeak, "lifetime",
               "rank " + std::to_string(process.rank) + ": the driver says that " + std::to_string(told.counters) +
                   " counters and " + std::to_string(told.regions) + " regions are open, and " +
                   std::to_string(open.counters) + " and " + std::to_string(open.regions) + " are");
}

// A stream keeps at most three numbers for each request that its graphs start.
void judge_counts(World& world, const Process& process) {
  size_t taken = 0, held = 0;
  for (const auto& queued : process.streams)
    taken += queued->stream.counts_taken();
  for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index) {
    const Side& side = world.side(RequestName{index});
    if (side.rank == process.rank && side.standing)
      for (const uint64_t* count : {side.core->standing->count, side.core->standing->rings, side.core->standing->moves})
        held += count != nullptr ? 1 : 0;
  }
  if (taken > held)
    world.find(Finding::kLeak, "lifetime",
               "rank " + std::to_string(process.rank) + ": its streams keep " + std::to_string(taken) +
                   " counts, and its requests hold " + std::to_string(held));
}

// Where all programs have ended, what is there on both sides is matched, and what was withdrawn is forgotten.
void judge_matching(World& world, const Process& process) {
  const auto keeps = [&](const std::string& what) {
    world.find(Finding::kLeak, "matching",
               "rank " + std::to_string(process.rank) + " keeps " + what + " that was withdrawn");
  };
  const auto is_matching = [](const Side& side) {
    return side.core != nullptr && side.core->state == core::Request::State::kMatching;
  };
  bool posts = false;
  for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index) {
    const Side& side = world.side(RequestName{index});
    if (side.rank != process.rank || side.core == nullptr)
      continue;
    posts = posts || (RequestName{index}.receive() && is_matching(side));
    const Side& other = world.side(RequestName{index ^ 1});
    if (other.core == nullptr || side.pieces == 0)
      continue;
    const bool mutual = !side.core->matched() ||
                        (other.core->matched() && other.core->matched_number == side.core->number) ||
                        other.number != side.core->matched_number;
    if (!mutual || (is_matching(side) && is_matching(other)))
      world.find(
          Finding::kLeak, "matching",
          "the " + world.scenario().describe({index}) +
              (mutual ? " is there on both sides, and is not matched" : " is matched, and its other side is not"));
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

// Every message between living processes has arrived, and the channels leave nothing behind.
void judge_mail(World& world) {
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank) {
    Process& process = world.process(rank);
    if (process.killed || process.card_mail == nullptr)
      continue;
    if (const std::optional<std::string> stuck = process.card_mail->what_is_stuck())
      world.find(Finding::kDeadlock, "mail", *stuck);
  }
  for (uint32_t rank = 0; rank < world.scenario().ranks() && world.report().ok(); ++rank) {
    Process& process = world.process(rank);
    if (process.killed || process.card_mail == nullptr)
      continue;
    if (const std::optional<std::string> open = process.card_mail->close())
      world.find(Finding::kLeak, "mail", *open);
  }
}

// What could not be closed when its request was freed is tried again with the next requests.
void close_what_was_held(Process& process) {
  constexpr int kRequests = 40;  // that are less and less often a reason to try
  for (int i = 0; i < kRequests && process.endpoint.unclosed() > 0; ++i) {
    core::Request* other = process.endpoint.new_request({.direction = core::Direction::kReceive});
    if (process.endpoint.open_resources(*other).ok())
      process.endpoint.close_resources(*other);
    (void)process.endpoint.free_request(other);
  }
}

// Who waits in MPIX_Queue_wait is told of each failure on its queue.
bool waits_are_told(World& world) {
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank) {
    Process& process = world.process(rank);
    if (process.killed || process.next_action >= process.program.size())
      continue;
    const Action& action = process.program[process.next_action];
    if (action.kind != Action::Kind::kSync)
      continue;
    const core::Request* failed = process.endpoint.take_failed(*process.streams[action.queue]->queue);
    if (failed == nullptr)
      continue;
    world.find(Finding::kLeak, "honesty",
               "rank " + std::to_string(rank) + ": MPIX_Queue_wait waits, and does not tell that (" +
                   failed->describe() + ") has failed");
    return false;
  }
  return true;
}

// Who waits in MPIX_Queue_wait for a peer that has ended, as its card knows, is told so.
bool losses_are_told(World& world) {
  for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index) {
    const Side& side = world.side(RequestName{index});
    const uint32_t peer = world.side(RequestName{index ^ 1}).rank;
    Process& process = world.process(side.rank);
    if (process.killed || process.next_action >= process.program.size())
      continue;
    const Action& action = process.program[process.next_action];
    const bool waits = action.kind == Action::Kind::kSync && action.queue == side.queue;
    const bool under_way =
        (RequestName{index}.receive() ? side.data_landed : side.data_acked) < side.started * side.pieces;
    if (!waits || !under_way || side.core == nullptr || side.failed > 0 || !process.card().is_lost(peer))
      continue;
    world.find(Finding::kLeak, "honesty",
               "MPIX_Queue_wait waits for the " + world.scenario().describe({index}) +
                   ", and is never told that rank " + std::to_string(peer) + " has ended");
    return false;
  }
  return true;
}

// Who waits in MPIX_Queue_wait for its senders' word that all went well hears one.
bool questions_are_answered(World& world) {
  for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index) {
    const Side& side = world.side(RequestName{index});
    const Process& process = world.process(side.rank);
    if (!RequestName{index}.receive() || side.core == nullptr || process.killed || !side.core->complete() ||
        side.core->failures > 0 || side.core->asked <= side.core->assured ||
        process.next_action >= process.program.size())
      continue;
    const Action& action = process.program[process.next_action];
    if (action.kind != Action::Kind::kSync || action.queue != side.queue)
      continue;
    world.find(Finding::kDeadlock, "liveness",
               "MPIX_Queue_wait waits to hear whether all went well with the " + world.scenario().describe({index}) +
                   ", and is never told");
    return false;
  }
  return true;
}

bool is_any_cut(const World& world) {
  for (uint32_t one = 0; one < world.scenario().ranks(); ++one)
    for (uint32_t other = 0; other <= one; ++other)
      if (world.are_cut(one, other))
        return true;
  return false;
}

// Who has given a peer up though it lives matches nothing with it any more; the peer knows nothing, and may wait.
void judge_cut(World& world) {
  for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index) {
    const Side& side = world.side(RequestName{index});
    const Process& process = world.process(side.rank);
    if (process.killed || side.core == nullptr || side.core->state != core::Request::State::kMatching ||
        side.core->transfer.peer == core::kAnySource || !process.cut_off[side.core->transfer.peer_nic])
      continue;
    world.find(Finding::kDeadlock, "liveness",
               "the " + world.scenario().describe({index}) +
                   " is being matched, and the control channel has given its peer up");
  }
}

}  // namespace

void judge_quiescence(World& world) {
  if (is_any_cut(world))
    return judge_cut(world);
  if (!drivers_tell_all(world) || !failures_are_known(world))
    return;
  judge_pairs(world);
  bool all_went_on = true, all_closes = true;
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank)
    all_went_on = all_went_on && !world.process(rank).gave_up;
  // The driver cannot take back what waits for something that has failed.
  if (world.options().driver)
    for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index)
      all_closes = all_closes && world.side(RequestName{index}).failed == 0;
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank) {
    Process& process = world.process(rank);
    if (process.killed)
      continue;
    // What waits for a process that is no more, or gave up, waits for ever, and its program does not.
    uint64_t left = process.shadow.outstanding() + process.nic.posting();
    if (process.driver != nullptr) {
      const uint64_t depth = process.card().caps().deferred_depth, free = process.card().free_entries();
      if (free > depth)
        world.find(Finding::kLeak, "entries",
                   "rank " + std::to_string(rank) + ": the driver would give away " + std::to_string(free) +
                       " entries, of " + std::to_string(depth));
      left = std::max(left, depth - std::min(depth, free));
      judge_usage(world, process);
    }
    if (all_went_on && all_closes && !talks_to_killed(world, rank) && !let_go_of_standing(world, process) &&
        left > ahead(world, process))
      world.find(
          Finding::kLeak, "entries",
          "rank " + std::to_string(rank) + ": " + std::to_string(left) + " entries are left that will never fire");
    if (all_went_on && world.deaths() == 0)
      judge_matching(world, process);
    close_what_was_held(process);
    if (all_closes && process.endpoint.unclosed() > 0)
      world.find(Finding::kLeak, "lifetime",
                 "rank " + std::to_string(rank) + ": " + std::to_string(process.endpoint.unclosed()) +
                     " freed requests still have something open on the NIC");
    if (const uint32_t held = counters_held(world, process); all_closes && process.nic.model().open_counters() > held)
      world.find(Finding::kLeak, "lifetime",
                 "rank " + std::to_string(rank) + ": " + std::to_string(process.nic.model().open_counters()) +
                     " counters are open, and its requests and queues hold " + std::to_string(held));
    judge_counts(world, process);
    if (process.nic.model().in_flight() > 0)
      world.find(Finding::kLeak, "entries", "rank " + std::to_string(rank) + ": operations are under way for ever");
  }
  for (uint32_t index = 0; index < 2 * world.scenario().messages().size(); ++index)
    judge_side(world, index);
  judge_mail(world);
}

void judge_stall(World& world) {
  if (is_any_cut(world))
    return judge_cut(world);
  if (!drivers_tell_all(world) || !waits_are_told(world) || !failures_are_known(world) || !losses_are_told(world) ||
      !questions_are_answered(world))
    return;
  judge_pairs(world);
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank) {
    const Process& process = world.process(rank);
    if (process.killed || process.card_mail == nullptr)
      continue;
    if (const std::optional<std::string> stuck = process.card_mail->what_is_stuck())
      return world.find(Finding::kDeadlock, "mail", *stuck);
  }
  explain_stall(world);
}

}  // namespace lanyard::nicsim::oracle
