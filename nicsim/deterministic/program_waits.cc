#include "nicsim/deterministic/program_waits.h"

namespace lanyard::nicsim {

using Blame = WaitChain::Blame;

WaitLink ProgramWaits::host(uint32_t rank) const {
  const Process& process = world_.process(rank);
  const std::string who = "host " + std::to_string(rank);
  if (process.gave_up)
    return {who + " was told of a failure and gave up", std::nullopt, Blame::kFailure};
  if (has_ended(world_, rank))
    return {who + " has ended its program", std::nullopt, Blame::kUser};
  const Action& action = world_.exchange().program(rank).actions()[process.next_action];
  if (process.nic.posting() > 0 || (process.wants_room && action.kind == Action::Kind::kStart))
    return no_room(rank, who);
  if (action.kind == Action::Kind::kMatched)
    return unmatched(who, action);
  if (action.kind == Action::Kind::kFree || action.kind == Action::Kind::kComplete) {
    for (const RequestName request : action.requests)
      if (const core::Request* core = world_.side(request).core; core != nullptr && !core->complete())
        return {who + " waits for " + name_of(world_, request, world_.side(request).starts) + " to complete",
                completion_of(world_, request.index), Blame::kUser};
    return {who + " could go on, and does not", std::nullopt, Blame::kProtocol};
  }
  const Process::Lane& lane = *process.lanes[action.queue];
  if (!lane.stream.empty())
    return {who + " is in MPIX_Queue_wait", WaitNode{WaitNode::Kind::kStream, rank, action.queue, 0}, Blame::kUser};
  for (const uint32_t request : process.requests) {
    const Side& side = world_.side(RequestName{request});
    if (side.core != nullptr && side.queue == action.queue && !side.core->complete())
      return {who + " is in MPIX_Queue_wait", completion_of(world_, request), Blame::kUser};
  }
  return {who + " could go on, and does not", std::nullopt, Blame::kProtocol};
}

// A match waits for the other side's.
WaitLink ProgramWaits::unmatched(const std::string& who, const Action& action) const {
  for (const RequestName request : action.requests) {
    const Side& side = world_.side(request);
    const Side& other = world_.side(RequestName{request.index ^ 1});
    if (side.core == nullptr || side.core->state != core::Request::State::kMatching)
      continue;
    const std::string what = who + " waits for (" + world_.exchange().describe(request) + ") to be matched";
    if (other.core == nullptr || other.core->state == core::Request::State::kFresh)
      return {what, WaitNode{WaitNode::Kind::kHost, other.rank, 0, 0}, Blame::kUser};
    // Anybody else might send to it.
    const MessageOptions& message = world_.exchange().messages()[request.message()].options;
    if (world_.is_killed(other.rank) && request.receive() && message.any_source)
      return {what + " from any source, and rank " + std::to_string(other.rank) + " was killed", std::nullopt,
              Blame::kFailure};
    return {what + ", and both sides have been given to the matcher", std::nullopt, Blame::kProtocol};
  }
  return {who + " could go on, and does not", std::nullopt, Blame::kProtocol};
}

// A request that has not completed, last started on the queue that the host is about to use: of an earlier epoch, which
// has been waited for, or of any. `lost`: one that an operation has failed for, or whose peer was killed.
std::optional<uint32_t> ProgramWaits::incomplete(uint32_t rank, bool lost, bool earlier) const {
  const Process& process = world_.process(rank);
  const uint32_t queue = world_.exchange().program(rank).actions()[process.next_action].queue;
  for (const uint32_t request : process.requests) {
    const Side& side = world_.side(RequestName{request});
    const Side& other = world_.side(RequestName{request ^ 1});
    if (side.core == nullptr || side.queue != queue || side.core->complete())
      continue;
    if (lost && side.failed == 0 && other.failed == 0 && !world_.is_killed(other.rank))
      continue;
    if (!earlier || side.before + side.core->iterations_done() < side.waits)
      return request;
  }
  return std::nullopt;
}

// The host holds an operation in its hands for which no entry is free: one that is taken waits for the next thing.
WaitLink ProgramWaits::no_room(uint32_t rank, const std::string& who) const {
  const Process& process = world_.process(rank);
  const NicModel& model = process.nic.model();
  const uint32_t depth = model.limits().deferred_depth;
  uint64_t epoch = 0;
  for (const auto& lane : process.lanes)
    epoch += lane->queue->epoch_entries();
  WaitLink link{who + " has no entry for its next operation: " + so_many_of(depth - model.free_entries(), depth) +
                    " are taken, and the starts that are not waited for need " + std::to_string(epoch),
                std::nullopt, Blame::kPool};
  // Entries may be free, but kept for what has not completed on this queue; what was lost keeps its own for ever.
  const bool free = process.nic.posting() == 0 && model.free_entries() > 0;
  std::optional<uint32_t> request;
  for (const bool earlier : {true, false})
    for (const bool lost : {true, false})
      if (!request && (lost || free))
        request = incomplete(rank, lost, earlier);
  if (request)
    link.next = completion_of(world_, *request);
  for (uint32_t counter = 0; counter < model.limits().max_counters && !link.next; ++counter) {
    const auto entry = model.first_waiting({counter});
    if (!entry)
      continue;
    const nic::Op& op = model.op_of(*entry);
    const Transit::Role role = world_.role_of(process, op);
    if (role == Transit::Role::kMail)
      continue;
    const uint32_t request = process.requests[op.context - 1];
    const Side& side = world_.side(RequestName{request});
    if (side.core == nullptr)
      continue;
    if (role == Transit::Role::kData)
      link.next = WaitNode{WaitNode::Kind::kData, 0, request / 2, side.data_fired / side.pieces + 1};
    else if (role == Transit::Role::kDone)
      link.next = WaitNode{WaitNode::Kind::kDone, 0, request, side.done_fired + 1};
    else if (role == Transit::Role::kClear)
      link.next = WaitNode{WaitNode::Kind::kClear, 0, request / 2, side.clear_fired + 1};
    else  // a flag
      link.next = WaitNode{WaitNode::Kind::kDone, 0, request ^ 1, side.flag_fired + 1};
  }
  return link;
}

WaitLink ProgramWaits::stream(uint32_t rank, uint32_t queue) const {
  const Process& process = world_.process(rank);
  const StepStream& stream = process.lanes[queue]->stream;
  const std::string who =
      "stream " + std::to_string(rank) + (process.lanes.size() > 1 ? "." + std::to_string(queue) : "");
  if (stream.empty())
    return {who + " is empty", WaitNode{WaitNode::Kind::kHost, rank, 0, 0}, Blame::kUser};
  const StepItem& item = stream.front();
  if (item.kind != StepItem::Kind::kWait)
    return {who + " could go on, and does not", std::nullopt, Blame::kProtocol};
  if (item.request == StepItem::kNothing)
    return {who + " awaits the promise of " + name_of(world_, {2 * item.message + 1}, item.op.value),
            WaitNode{WaitNode::Kind::kStart, 0, 2 * item.message + 1, item.op.value}, Blame::kUser};
  const Side& side = world_.side(RequestName{item.request});
  if (side.core == nullptr)
    return {who + " waits for the " + world_.exchange().describe({item.request}) + ", which was freed", std::nullopt,
            Blame::kProtocol};
  const uint64_t iteration = item.iteration;
  if (side.released && iteration > side.before)
    return {who + " waits for " + name_of(world_, {item.request}, iteration) +
                ", whose failure was told: nothing may wait for it",
            std::nullopt, Blame::kProtocol};
  return {who + " waits for " + name_of(world_, {item.request}, iteration),
          WaitNode{WaitNode::Kind::kDone, 0, item.request, iteration}, Blame::kUser};
}

WaitLink ProgramWaits::start(RequestName request, uint64_t iteration) const {
  const Side& side = world_.side(request);
  const std::string who = "start of " + name_of(world_, request, iteration);
  if (side.core == nullptr || side.starts < iteration) {
    if (has_ended(world_, side.rank) && !world_.process(side.rank).gave_up)
      return {who + " is never made: host " + std::to_string(side.rank) + " has ended its program", std::nullopt,
              Blame::kUser};
    return {who + " is not enqueued", WaitNode{WaitNode::Kind::kHost, side.rank, 0, 0}, Blame::kUser};
  }
  if (side.started < iteration)
    return {who + " is not reached", WaitNode{WaitNode::Kind::kStream, side.rank, side.queue, 0}, Blame::kUser};
  // Only promises are waited for beyond that: their kernel comes later in the stream, or the host has not got there.
  if (!world_.process(side.rank).lanes[side.queue]->stream.empty())
    return {who + " was reached, and not yet promised", WaitNode{WaitNode::Kind::kStream, side.rank, side.queue, 0},
            Blame::kUser};
  return {who + " was reached, and is not promised", WaitNode{WaitNode::Kind::kHost, side.rank, 0, 0}, Blame::kUser};
}

}  // namespace lanyard::nicsim
