// The host threads of a World: their calls, and when they can continue.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "nicsim/deterministic/oracles/oracles.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

void World::take_host(Process& process) {
  const Action& action = process.program[process.next_action];
  Process::QueuedStream& queued = *process.streams[action.queue];
  bool done = true;
  switch (action.kind) {
    case Action::Kind::kPack:
    case Action::Kind::kUnpack:
    case Action::Kind::kPromise:
      queued.stream.push({.kind = StepItem::Kind::kKernel, .action = action.kind, .message = action.message});
      break;
    case Action::Kind::kAwait: {
      // Waits for one promise per start of the send, its next start included.
      const RequestName send{2 * action.message};
      if (side(send).core == nullptr)
        return find(Finding::kUser, "lifetime", send, "is awaited after it was freed");
      gpu::StreamOp op{.kind = gpu::StreamOp::Kind::kWait64};
      op.word = &state_->promises[action.message];
      op.value = side(send).starts + 1;
      queued.stream.push({.kind = StepItem::Kind::kWait, .message = action.message, .op = op});
      break;
    }
    case Action::Kind::kStart:
    case Action::Kind::kWait: done = call(process, action); break;
    case Action::Kind::kSync: done = sync(process, action); break;
    case Action::Kind::kComplete: done = see_complete(process, action); break;
    case Action::Kind::kFree: done = free_requests(process, action); break;
    case Action::Kind::kMatch: begin_matching(process, action); break;
    case Action::Kind::kWithdraw: withdraw(process, action); break;
    case Action::Kind::kCapture: queued.stream.begin_capture(); break;
    case Action::Kind::kCaptured: queued.stream.end_capture(); break;
    case Action::Kind::kLaunch: launch_captured(process, action.queue); break;
    case Action::Kind::kStand:
    case Action::Kind::kDismiss: done = change_set(process, action); break;
    case Action::Kind::kKernelStart:
    case Action::Kind::kKernelWait: launch_kernel(process, action); break;
    case Action::Kind::kMatched:
      for (const RequestName request : action.requests) {
        const core::Request* core = side(request).core;
        const uint32_t other = side(request.index ^ 1).rank;
        if (core != nullptr && !core->matched() && (is_killed(other) || process.cut_off[other])) {
          if (request.receive() && scenario_.messages()[request.message()].options.any_source)
            return find(Finding::kOrder, "matching", request,
                        "from any source fails as one has ended: " + core->match_error.message());
          return give_up(process);
        }
        (action.refused ? oracle::check_unmatched : oracle::check_matched)(*this, request.index);
      }
      break;
  }
  process.wants_room = !done && (action.kind != Action::Kind::kSync || process.waits_in_vain);
  process.next_action += done ? 1 : 0;
  streams_changed(process);
}

// Polls whether the last starts have completed. Ends the program if it is told of a failure.
bool World::see_complete(Process& process, const Action& action) {
  if (!collect(process, action))
    return true;
  if (!is_complete(action)) {
    process.failures_seen = process.card().failures();
    process.asked = process.next_action;
    find_losses(process);
    process.hears_of_failures = false;
    process.endpoint.collect_failures();
    if (std::any_of(process.scratch.begin(), process.scratch.end(), [](auto* core) { return core->failures > 0; }))
      give_up(process);
    return false;
  }
  for (const RequestName request : action.requests) {
    Side& side = state_->sides[request.index];
    side.seen_complete = side.starts;
    oracle::check_seen_complete(*this, request.index);
  }
  return true;
}

// Collects the core's requests of the action in `scratch`. Returns false if one was freed.
bool World::collect(Process& process, const Action& action) {
  process.scratch.clear();
  for (const RequestName request : action.requests) {
    core::Request* core = state_->sides[request.index].core;
    if (core == nullptr) {
      find(Finding::kUser, "lifetime", request, "is used after it was freed");
      return false;
    }
    process.scratch.push_back(core);
  }
  return true;
}

// Makes an enqueuing call of the core. Returns false if it must be repeated.
bool World::call(Process& process, const Action& action) {
  Process::QueuedStream& queued = *process.streams[action.queue];
  if (!collect(process, action))
    return true;
  const bool start = action.kind == Action::Kind::kStart;
  const size_t before = queued.stream.mark();
  const bool captured = queued.stream.capturing() != 0;
  // Before the call, in which the driver may learn of more failures.
  const char* const mistake = captured ? nullptr : mistake_in(action);
  const Status status = insist(
      process, [&] { return start ? queued.queue->start(process.scratch) : queued.queue->wait(process.scratch); });
  const auto complain = [&](Finding finding, const std::string& what) {
    find(finding, "refusal", process, describe(action) + ": " + what);
    return true;
  };
  if (action.refused) {
    // The call may also be refused because the other side has ended.
    const bool other_is_gone = std::any_of(process.scratch.begin(), process.scratch.end(),
                                           [](auto* core) { return core->starts >= core->peer_starts; });
    const bool refused = status.code() == Code::kInvalidState || (other_is_gone && status.code() == Code::kFailed);
    return (refused && queued.stream.mark() == before) || complain(Finding::kOrder, "is a mistake, and is not refused");
  }
  if (action.repeated && status.code() == Code::kInvalidState)
    return mistake == nullptr && is_complete(action) &&
           complain(Finding::kOrder, "is refused though nothing is under way");
  if (status.code() == Code::kAgain)
    return false;
  if (status.code() == Code::kFailed && start && is_told_of_failure(action)) {
    give_up(process);
    return false;
  }
  if (!status.ok())
    return complain(status.code() == Code::kInvalidState && mistake == nullptr ? Finding::kOrder : Finding::kUser,
                    status.message());
  if (mistake != nullptr)
    return complain(Finding::kOrder, std::string("is taken, but ") + mistake);
  mark(process, action, before);
  if (!captured)
    enter(action.queue, queued.stream.since(before));
  const bool refused = process.driver != nullptr && process.driver->fabric.was_refused();
  if (process.nic.posting() > 0 || !process.endpoint.overflow().empty() || refused)
    nic_changed(process);
  return true;
}

// Ends the program, which was told of a failure.
void World::give_up(Process& process) {
  process.gave_up = true;
  process.next_action = process.program.size();
  streams_changed(process);
}

// Returns why the call is a mistake, by the counts of the world; null if it is none.
const char* World::mistake_in(const Action& action) const {
  for (const RequestName request : action.requests) {
    const Side& side = this->side(request);
    if (side.standing)
      return "it is started by graphs or kernels";
    bool whole = true;
    for_each_merged(request.index, [&](uint32_t other) {
      whole = whole && std::count(action.requests.begin(), action.requests.end(), RequestName{other}) > 0;
    });
    if (!whole)
      return "it is merged with another one";
    if (action.kind == Action::Kind::kWait) {
      if (side.starts == side.waits)
        return "nothing was started";
      if (side.queue != action.queue)
        return "it was started on another queue";
      continue;
    }
    if (side.starts != side.waits)
      return "its last start was not waited for";
    if (const char* mistake = mistake_in_turn(action, request))
      return mistake;
    if (side.failed > unread_failures(side))
      return "an operation of it has failed";
    if (side.core->starts >= side.core->peer_starts)
      return "its other side has come to its end";
    if (side.queue != action.queue && !has_completed(request))
      return "its last start is on another queue and goes on";
  }
  return nullptr;
}

// True if its last start has completed, by the counts of the world.
bool World::has_completed(RequestName request) const {
  const Side& side = this->side(request);
  const uint64_t wanted = side.starts * side.pieces;
  if (!request.receive())
    return side.data_acked >= wanted;
  return (side.data_landed >= wanted || oracle::is_told_falsely(*this, request.index, side.starts)) &&
         (side.pieces == 0 || side.done_landed >= side.starts) && oracle::has_moved(*this, request);
}

// Returns why it is not the turn of that request's set; null if it is.
const char* World::mistake_in_turn(const Action& action, RequestName request) const {
  if (!takes_turns(request.index))
    return nullptr;
  const Side& side = this->side(request);
  const char* mistake = nullptr;
  for_each_of_other_set(request.index, [&](uint32_t index) {
    const Side& other = state_->sides[index];
    const uint64_t mine = side.starts - side.before, theirs = other.starts - other.before;
    if (other.failed > unread_failures(other))
      mistake = "an operation of the other set has failed";
    else if ((scenario_.set(request) == 1) != (mine == theirs))
      mistake = "it is the other set's turn";
    else if (other.starts != other.waits)
      mistake = "the other set's last start was not waited for";
    else if (other.queue != action.queue && !has_completed({index}))
      mistake = "the other set's last start is on another queue and goes on";
  });
  return mistake;
}

// True if an operation has failed here, on the other side or in the other set: a refusal is right.
bool World::is_told_of_failure(const Action& action) const {
  return std::any_of(action.requests.begin(), action.requests.end(), [&](RequestName request) {
    bool failed = side(request).failed > 0 || side(RequestName{request.index ^ 1}).failed > 0;
    for_each_of_other_set(request.index, [&](uint32_t other) { failed = failed || state_->sides[other].failed > 0; });
    return failed;
  });
}

// MPIX_Queue_wait, called again after every failure that it reports. Returns false while it waits.
bool World::sync(Process& process, const Action& action) {
  Process::QueuedStream& queued = *process.streams[action.queue];
  process.failures_seen = process.card().failures();
  process.asked = process.next_action;
  // Before the failures, as in the API.
  const bool over = queued.stream.empty() && queued.queue->settled();
  find_losses(process);
  process.hears_of_failures = false;
  bool told = false;
  while (const core::Request* failed = process.endpoint.take_failed(*queued.queue)) {
    release(process, *failed);
    told = true;
  }
  process.untraced += process.endpoint.take_unrecorded_failures();
  // With a driver only settled() can tell the end, so repeat the call only after a change.
  process.waits_in_vain = process.driver != nullptr && queued.stream.empty() && !over && !told && !has_news(process);
  if (told) {
    nic_changed(process);
    // To free requests that graphs start, a program must have seen them end.
    return !programs_stand_ && chance(ChoiceKind::kLeave);
  }
  if (over)
    check_synced(process, action.queue);
  return over;
}

// The program was told that this request failed. From now on its waits pass.
void World::release(Process& process, const core::Request& failed) {
  Side& side = state_->sides[process.requests[failed.number - 1]];
  if (side.core != &failed || side.failed == 0)
    return find(Finding::kLeak, "honesty",
                fmt::format("a failure is told of ({}), and there was none", failed.describe()));
  if (side.reported > 0)
    return find(Finding::kLeak, "honesty", fmt::format("the failure of ({}) is told twice", failed.describe()));
  side.reported = failed.failures;
  if (side.released)
    return;  // with its exchange
  // Its whole exchange is released, with both sets.
  const core::Exchange* exchange = side.core->exchange;
  const core::Exchange* other = exchange != nullptr ? exchange->other : nullptr;
  std::vector<std::pair<const core::Request*, bool>> leads{{side.core, side.core->transferred()}};
  if (other != nullptr && other->lead != nullptr)
    leads.emplace_back(other->lead, other->lead->transferred());
  process.endpoint.release(*side.core);
  for (const auto& [lead, complete] : leads)
    for_each_merged(process.requests[lead->number - 1],
                    [&, complete = complete](uint32_t member) { note_released(state_->sides[member], complete); });
}

// Records that the request was released. If its exchange was not complete, it fails too.
void World::note_released(Side& side, bool complete) {
  const bool along = side.core->failed_along;
  if (complete ? along : side.pieces > 0 && side.core->failures == 0)
    find(Finding::kLeak, "honesty",
         fmt::format("the exchange of ({}) has failed {}", side.core->describe(),
                     along ? "when it was complete, and this member counts as failed" : "and this member does not"));
  side.failed += along ? 1 : 0;
  side.released = side.ever_released = true;
}

// True if a write of a start on that queue has failed and nobody was told. Requires that the last
// start was on another queue. With strategy B only the sender knows of the failure.
bool World::has_lost_untold(const Process& process, const Side& side, uint32_t request, uint32_t queue) const {
  const bool receive = RequestName{request}.receive();
  if (side.starts_on.size() <= queue || side.reported > 0 || (receive && !core::raises_flags(options_.strategy)) ||
      (process.driver != nullptr && unread_failures(side) > 0))
    return false;
  const uint64_t lost = state_->sides[request & ~1u].first_lost;
  return lost > side.before && lost <= side.starts_on[queue];
}

// MPIX_Queue_wait returns success: checks that this is true.
void World::check_synced(const Process& process, uint32_t queue) {
  // With several queues, each reports only its own requests. A driver without confirms() may learn
  // late of failures that nothing waits for.
  const bool late = process.driver != nullptr && !process.card().caps().failures_lag;
  const uint64_t unread = late ? process.driver->fabric.unread_failures() : 0;
  if (process.streams.size() == 1 && process.untraced + unread < process.orphaned)
    return find(Finding::kLeak, "honesty",
                "MPIX_Queue_wait returns, and operations have failed of requests that were freed, of which nobody was "
                "told");
  for (const uint32_t request : process.requests) {
    const Side& side = state_->sides[request];
    if (side.core == nullptr || side.number != side.core->number || side.released)
      continue;
    const auto wrong = [&](Finding finding, const char* oracle, const char* what) {
      find(finding, oracle, fmt::format("MPIX_Queue_wait returns, and the {} {}", scenario_.describe({request}), what));
    };
    if (side.queue != queue && has_lost_untold(process, side, request, queue))
      return wrong(Finding::kLeak, "honesty",
                   "has lost a write of a start that was made there, of which nobody was told");
    const bool untouched = options_.age > 0 && side.starts == options_.age;  // starts on no queue
    if (side.queue != queue || untouched)
      continue;
    if (side.failed > (late ? unread_failures(side) : 0))
      return wrong(Finding::kLeak, "honesty", "has failed, of which nobody was told");
    const bool receive = RequestName{request}.receive();
    // With strategy B only the sender knows of a failed write. Losses of an earlier request in this
    // place do not count.
    const bool flag = receive && core::raises_flags(options_.strategy);
    const uint64_t lost = flag ? state_->sides[request ^ 1].first_lost : 0;
    if (lost > side.before && lost <= side.starts)
      return wrong(Finding::kLeak, "honesty", "has lost a write, of which nobody was told");
    const bool lost_before = lost > 0 && lost <= side.before;
    if (!lost_before && !oracle::is_told_falsely(*this, request, side.starts) &&
        (receive ? side.data_landed : side.data_acked) < side.starts * side.pieces)
      return wrong(Finding::kIntegrity, "order", "has not completed");
  }
}

// matcher.free() may also ask senders (P3). If their processes have ended, other requests fail.
Status World::free_request(Process& process, Side& side) {
  Status status;
  note_failures_told(process, [&] {
    status = process.matcher.free(*side.core);
    if (status.ok())
      side.core = nullptr;
  });
  return status;
}

// Returns false if it must be repeated: a last start has not completed.
bool World::free_requests(Process& process, const Action& action) {
  const size_t first = process.next_free;
  for (; process.next_free < action.requests.size(); ++process.next_free) {
    const RequestName request = action.requests[process.next_free];
    Side& side = state_->sides[request.index];
    const uint64_t wanted = side.starts * side.pieces;
    const bool failed = side.failed > 0 || this->side(RequestName{request.index ^ 1}).failed > 0 ||
                        oracle::is_told_falsely(*this, request.index, side.starts);
    const bool under_way = !failed && (request.receive() ? side.data_landed : side.data_acked) < wanted;
    const Status status =
        side.core == nullptr ? Status(Code::kInvalidState, "it was freed before") : free_request(process, side);
    if (side.standing && (status.ok() || side.core->standing == nullptr) && !stands_no_more(process, action, request))
      return true;
    if (!status.ok()) {
      const bool over = side.core == nullptr ||
                        (side.standing ? process.endpoint.standing().is_complete(*side.core) : side.core->complete());
      if (!over && !side.core->needs_wait()) {
        if (process.next_free > first)
          nic_changed(process);
        return false;
      }
      find(Finding::kUser, "lifetime", request, "is freed: " + status.message());
      return true;
    }
    if (!oracle::has_moved(*this, request) || under_way) {
      find(Finding::kOrder, "lifetime", request,
           under_way ? "is freed though its last start has not completed"
                     : "is freed though its stream will touch its buffer");
      return true;
    }
    // Overwrite the buffer, to find late accesses, unless the stream has a received message to
    // read.
    if (!request.receive() || side.filled == side.starts)
      std::fill(side.buffer.begin(), side.buffer.end(), kFreed);
    if (!side.released)
      process.orphaned += side.failed;
    side.before = side.seen_complete = side.starts;
  }
  process.next_free = 0;
  nic_changed(process);
  return true;
}

void World::begin_matching(Process& process, const Action& action) {
  for (const RequestName request : action.requests) {
    const core::Request* core = state_->sides[request.index].core;
    const bool unmatched = core != nullptr && core->state == core::Request::State::kFresh;
    if (core != nullptr && !unmatched)
      return find(Finding::kUser, "lifetime", request, "is there already");
    if (!unmatched)
      new_request(request.index);
  }
  merge(process, action.requests);
  std::optional<core::ControlPlane::Batch> batch;
  if (process.card_mail != nullptr)
    batch.emplace(process.card_mail->plane());
  for (const RequestName request : action.requests)
    begin_match(request.index);
  batch.reset();
  nic_changed(process);
}

// As MPI_Request_free of a request that was never started. It may be matching, or matched by now.
void World::withdraw(Process& process, const Action& action) {
  for (const RequestName request : action.requests) {
    Side& side = state_->sides[request.index];
    if (side.core == nullptr || side.starts > side.before)
      return find(Finding::kUser, "lifetime", request, "is withdrawn: it is not there, or was started");
    if (side.core->matched() && state_->sides[request.index ^ 1].number == 0)
      return find(Finding::kOrder, "matching", request, "is withdrawn: it was matched, and with nobody");
    if (side.core->state == core::Request::State::kMatching)
      process.matcher.withdraw(*side.core);
    if (const Status status = free_request(process, side); !status.ok())
      return find(Finding::kOrder, "lifetime", request, "is withdrawn: " + status.message());
  }
  nic_changed(process);
}

// ---- Whether a host can continue

void World::host_changed(Process& process) {
  set_enabled(process.rank, StepKind::kHost, host_can_go_on(process));
  if (!has_mail_ || (chooser_ == nullptr && process.card_mail == nullptr))
    return;
  process.knows_nothing = false;
  set_enabled(process.rank, StepKind::kMail, has_mail(process));  // it may have to ask its senders
}

bool World::host_can_go_on(Process& process) {
  if (process.next_action == process.program.size() || process.wants_room)
    return false;
  if (options_.blocking_post && process.nic.posting() > 0)
    return false;
  const Action& action = process.program[process.next_action];
  switch (action.kind) {
    case Action::Kind::kSync: {
      const Process::QueuedStream& queued = *process.streams[action.queue];
      if (has_news(process))
        return true;
      if (!queued.stream.empty())
        return false;
      if (process.driver != nullptr || queued.queue->settled())
        return true;  // with a driver only sync() may ask
      oracle::check_unsettled(*this, process, action.queue);
      return false;
    }
    case Action::Kind::kComplete:
      return has_news(process) ||
             all_of(action, [](const Side& side) { return side.core == nullptr || side.core->complete(); });
    case Action::Kind::kMatched:
      return all_of(action, [](const Side& side) {
        return side.core == nullptr || side.core->state != core::Request::State::kMatching;
      });
    default: return true;
  }
}

}  // namespace lanyard::nicsim
