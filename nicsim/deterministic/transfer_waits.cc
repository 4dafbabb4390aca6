#include "nicsim/deterministic/transfer_waits.h"

namespace lanyard::nicsim {

using Blame = WaitChain::Blame;

namespace {

// Of what is not there: a request that was freed, or let go of once its failure had been told.
Blame blame_of_free(const Side& side) { return side.failed > 0 || side.ever_released ? Blame::kFailure : Blame::kUser; }

}  // namespace

// Entries of that request that wait for this counter and are its operations of that kind.
uint64_t TransferWaits::waiting(const Side& side, nic::CounterId counter, Transit::Role role) const {
  const Process& process = world_.process(side.rank);
  const NicModel& model = process.nic.model();
  const bool by_lead = role == Transit::Role::kDone && side.core->exchange != nullptr &&
                       side.core->exchange->lead != nullptr;  // the one done word of all members
  const uint64_t number = by_lead ? side.core->exchange->lead->number : side.number;
  uint64_t count = 0;
  for (auto entry = model.first_waiting(counter); entry; entry = model.next_waiting(*entry)) {
    const nic::Op& op = model.op_of(*entry);
    count += op.context == number && world_.role_of(process, op) == role ? 1 : 0;
  }
  return count;
}

// Whether what is not among the NIC's entries may wait in the overflow, which runs it when its condition is met.
bool TransferWaits::overflows(const Side& side) const {
  const Process& process = world_.process(side.rank);
  return process.nic.posting() == 0 && !process.endpoint.overflow().empty();
}

// An operation of a start that is not among the NIC's entries.
WaitLink TransferWaits::not_posted(const std::string& what, RequestName request, uint64_t iteration) const {
  const Side& side = world_.side(request);
  const Process& process = world_.process(side.rank);
  if (side.starts < iteration)
    return {what + " is not enqueued", WaitNode{WaitNode::Kind::kStart, 0, request.index, iteration}, Blame::kUser};
  if (side.released)
    return {what + " was taken back: the request has failed", std::nullopt, Blame::kFailure};
  // What stands goes on when it has completed.
  if (side.standing && side.failed > 0)
    return {what + " is not handed over: an earlier one has failed", std::nullopt, Blame::kFailure};
  bool doomed = false;  // it may be in the name of another one that it is merged with
  world_.for_each_merged(request.index, [&](uint32_t member) {
    doomed = doomed || (process.driver != nullptr && process.driver->fabric.keeps_doomed(world_.side({member}).number));
  });
  if (doomed)
    return {what + " was refused for good by the libfabric of rank " + std::to_string(side.rank) +
                ", and will fail when it is due",
            std::nullopt, Blame::kFailure};
  if (process.driver != nullptr && process.driver->fabric.was_refused())
    return {what + " stays with the driver of rank " + std::to_string(side.rank), std::nullopt, Blame::kProtocol};
  if (process.nic.posting() > 0)
    return {what + " is not posted", WaitNode{WaitNode::Kind::kHost, side.rank, 0, 0}, Blame::kPool};
  if (!process.endpoint.overflow().empty()) {
    std::string text = what + " stays in the overflow of rank " + std::to_string(side.rank) + ", which finds " +
                       std::to_string(process.nic.free_entries()) + " entries free";
    if (side.core != nullptr && side.core->trigger.valid())
      text += " and its trigger counter at " +
              std::to_string(process.nic.model().read(side.core->trigger).value().reached() - side.core->trigger_base) +
              " of " +
              std::to_string(
                  (side.core->exchange == nullptr ? side.core->trigger_step() : side.core->exchange->trigger_step()) *
                  (iteration - side.before));
    return {text, std::nullopt, Blame::kProtocol};
  }
  return {what + " is lost: it is neither posted nor fired", std::nullopt, Blame::kProtocol};
}

WaitLink TransferWaits::done(RequestName request, uint64_t iteration) const {
  const Side& side = world_.side(request);
  if (side.core == nullptr)
    return {"the " + world_.exchange().describe(request) + " was freed", std::nullopt, Blame::kProtocol};
  const core::Request& core = *side.core;
  const std::string what = "done word of " + name_of(world_, request, iteration);
  if (core.failures > 0 && core.peer_failed)
    return {what + " need not grow: the other side has failed, as it was told", std::nullopt, Blame::kFailure};
  if (side.ahead > 0)
    return {what + " is of another start than that: its receive has failed, and it ran ahead of its own", std::nullopt,
            Blame::kFailure};
  const bool flags = core::raises_flags(world_.options().strategy);
  if (request.receive() && flags && core.exchange == nullptr)
    return flag(request, iteration);
  const uint64_t posted = side.done_fired + waiting(side, core.completion, Transit::Role::kDone);
  if (side.done_landed >= iteration)
    return {what + " has grown, and is not seen", std::nullopt, Blame::kProtocol};
  if (side.done_fired >= iteration) {
    bool failed = false;
    world_.for_each_merged(request.index,
                           [&](uint32_t member) { failed = failed || world_.side(RequestName{member}).failed > 0; });
    return {what + " did not grow", std::nullopt, failed ? Blame::kFailure : Blame::kProtocol};
  }
  const uint64_t value = world_.process(side.rank).nic.model().read(core.completion).value().reached();
  const uint64_t wanted = core.completions * (iteration - side.before);
  if (posted < iteration && (value >= wanted || !overflows(side)))
    return not_posted(what, request, iteration);
  if (value >= wanted)
    return {what + ": its counter holds " + so_many_of(value, wanted) + ", and nothing fires", std::nullopt,
            Blame::kProtocol};
  const std::string holds = what + ": its counter holds " + so_many_of(value, wanted);
  // Of what is merged whatever is missing.
  std::optional<uint32_t> missing, unflagged;
  world_.for_each_merged(request.index, [&](uint32_t other) {
    const Side& part = world_.side(RequestName{other});
    const bool receive = RequestName{other}.receive();
    if (flags && part.pieces > 0 && (receive ? part.flag_counted : part.flag_acked) < iteration)
      unflagged = other;
    else if (!flags && (receive ? part.data_counted : part.data_acked) < iteration * part.pieces)
      missing = other;
  });
  if (unflagged) {
    WaitLink link = flag({*unflagged | 1}, iteration);
    link.text = holds + " <- " + link.text;
    return link;
  }
  if (core.exchange != nullptr && missing)
    return {holds, WaitNode{WaitNode::Kind::kData, 0, *missing / 2, iteration}, Blame::kUser};
  if (core.completions > side.pieces && value + 1 >= wanted)
    return {holds, WaitNode{WaitNode::Kind::kDone, 0, request.index ^ 1, iteration}, Blame::kUser};  // the flag
  return {holds, WaitNode{WaitNode::Kind::kData, 0, request.message(), iteration}, Blame::kUser};
}

// Whether a program can know that an operation of the request failed.
bool TransferWaits::was_told(const Side& side) const {
  const Process& process = world_.process(side.rank);
  return side.failed > 0 && (side.core != nullptr || side.reported > 0 || process.untraced > 0 || process.gave_up);
}

// The done word of a receive that its sender raises.
WaitLink TransferWaits::flag(RequestName receive, uint64_t iteration) const {
  const RequestName send{receive.index ^ 1};
  const Side& side = world_.side(receive);
  const Side& other = world_.side(send);
  const std::string what = "flag of " + name_of(world_, send, iteration);
  // One that is merged waits until the flag has been counted.
  const bool seen = (world_.flags_tell_stream(send.index) ? side.flag_landed : side.flag_counted) >= iteration;
  if (!seen && world_.is_killed(other.rank))
    return was_killed(other.rank);
  if (side.flag_landed >= iteration)
    return {what + " is raised, and not seen", std::nullopt, Blame::kProtocol};
  if (other.flag_fired >= iteration)
    return {what + " has fired, and is not raised", std::nullopt, was_told(other) ? Blame::kFailure : Blame::kProtocol};
  if (other.core == nullptr)
    return {what + ": the request was freed", std::nullopt, blame_of_free(other)};
  const core::Request& sender = *other.core;
  const bool merged = sender.written.valid();
  const nic::CounterId counter = merged ? sender.written : sender.completion;
  const uint64_t value = world_.process(other.rank).nic.model().read(counter).value().reached();
  const uint64_t starts = iteration - other.before;
  const uint64_t wanted = merged ? other.pieces * starts : sender.completion_value(starts) - 1;
  if (value < wanted)
    return {what + " waits for the write: its counter holds " + so_many_of(value, wanted),
            WaitNode{WaitNode::Kind::kData, 0, receive.message(), iteration}, Blame::kUser};
  return not_posted(what, send, iteration);
}

WaitLink TransferWaits::data(uint32_t message, uint64_t iteration) const {
  const RequestName send{2 * message};
  const Side& side = world_.side(send);
  const std::string what = "write of " + name_of(world_, send, iteration);
  if (side.core == nullptr)
    return {what + ": the request was freed", std::nullopt, blame_of_free(side)};
  const core::Request& core = *side.core;
  if (side.data_fired >= side.pieces * iteration)
    return {what + " has fired, and does not complete", std::nullopt,
            side.failed > 0 ? Blame::kFailure : Blame::kProtocol};
  const bool implied = world_.is_implied(send.index);
  const bool ready = core.transfer.ready && !implied;
  if (implied && side.released)
    return {what + " was let go of: its exchange has failed", std::nullopt, Blame::kFailure};
  std::optional<uint32_t> uncleared;
  world_.for_each_merged(send.index, [&](uint32_t other) {
    const MessageOptions& options = world_.exchange().messages()[other / 2].options;
    if (!RequestName{other}.receive() && !options.ready && !options.nobody && !world_.is_implied(other) &&
        world_.side(RequestName{other | 1}).clear_counted < iteration)
      uncleared = other;
  });
  const bool may_fire = side.started >= iteration && (ready || !uncleared);
  if (!ready && (may_fire || !overflows(side))) {
    // A driver takes nothing back: what was let go of keeps its entries, which fire no more.
    const uint64_t posted = side.data_fired + (side.released ? 0 : waiting(side, core.trigger, Transit::Role::kData));
    if (posted < side.pieces * iteration)
      return not_posted(what, send, iteration);
  }
  if (side.started < iteration)
    return {what + " waits for its stream", WaitNode{WaitNode::Kind::kStart, 0, send.index, iteration}, Blame::kUser};
  if (!ready && !implied && world_.side(RequestName{2 * message + 1}).clear_counted < iteration)
    return {what + " waits for its clear-to-send", WaitNode{WaitNode::Kind::kClear, 0, message, iteration},
            Blame::kUser};
  if (!ready && uncleared)
    return {what + " waits for the clear-to-send of one that it is merged with",
            WaitNode{WaitNode::Kind::kClear, 0, *uncleared / 2, iteration}, Blame::kUser};
  if (ready)
    return on_shared_trigger(what, send, iteration, Transit::Role::kData);
  return {what + " may fire, and does not: its trigger counter holds " +
              so_many_of(world_.process(side.rank).nic.model().read(core.trigger).value().reached() - core.trigger_base,
                         2 * (iteration - side.before)),
          std::nullopt, Blame::kProtocol};
}

WaitLink TransferWaits::clear(uint32_t message, uint64_t iteration) const {
  const RequestName receive{2 * message + 1};
  const Side& side = world_.side(receive);
  const std::string what = "clear-to-send of " + name_of(world_, receive, iteration);
  if (side.core == nullptr)
    return {what + ": the request was freed", std::nullopt, blame_of_free(side)};
  if (side.clear_fired >= iteration)
    return {what + " has fired, and does not arrive", std::nullopt,
            side.failed > 0 ? Blame::kFailure : Blame::kProtocol};
  if (side.started < iteration)
    return {what + " waits for its stream", WaitNode{WaitNode::Kind::kStart, 0, receive.index, iteration},
            Blame::kUser};
  return on_shared_trigger(what, receive, iteration, Transit::Role::kClear);
}

// An operation that hangs on its queue's trigger, or its exchange's, behind a start that the stream has reached.
WaitLink TransferWaits::on_shared_trigger(const std::string& what, RequestName request, uint64_t iteration,
                                          Transit::Role role) const {
  const Side& side = world_.side(request);
  if (side.released && side.core->exchange != nullptr)
    return not_posted(what, request, iteration);
  const NicModel& model = world_.process(side.rank).nic.model();
  for (uint32_t counter = 0; counter < model.limits().max_counters; ++counter) {
    if (waiting(side, {counter}, role) == 0)
      continue;
    const auto entry = model.first_waiting({counter});
    const uint64_t base = side.core->trigger.value == counter ? side.core->trigger_base : 0;
    return {what + " is posted: its trigger counter holds " +
                so_many_of(model.read({counter}).value().reached() - base, model.threshold_of(*entry) - base) +
                ", though its stream has rung",
            std::nullopt, Blame::kProtocol};
  }
  return not_posted(what, request, iteration);
}

}  // namespace lanyard::nicsim
