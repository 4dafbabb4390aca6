#include "nicsim/deterministic/wait_chain.h"

#include <algorithm>
#include <optional>

namespace lanyard::nicsim {

namespace {

using Blame = WaitChain::Blame;

// What somebody can wait for.
struct Thing {
  enum class Kind { kHost, kStream, kStart, kDone, kData, kClear } kind = Kind::kHost;
  uint32_t rank = 0;       // kHost, kStream
  uint32_t which = 0;      // kStream: queue; kStart, kDone: request; kData, kClear: message
  uint64_t iteration = 0;  // kStart, kDone, kData, kClear
  friend bool operator==(const Thing&, const Thing&) = default;
};

// A link: what is said of a thing that has not happened, and what it waits for; or who is to blame that nothing is.
struct Link {
  std::string text;
  std::optional<Thing> next;
  Blame blame = Blame::kUser;
};

std::string of(uint64_t value, uint64_t wanted) { return std::to_string(value) + " of " + std::to_string(wanted); }

class Tracer {
 public:
  explicit Tracer(const World& world) : world_(world) {}

  Link follow(const Thing& thing) const {
    if (const uint32_t rank = rank_of(thing); world_.is_killed(rank))
      return killed(rank);
    switch (thing.kind) {
      case Thing::Kind::kHost: return host(thing.rank);
      case Thing::Kind::kStream: return stream(thing.rank, thing.which);
      case Thing::Kind::kStart: return start({thing.which}, thing.iteration);
      case Thing::Kind::kDone: return done({thing.which}, thing.iteration);
      case Thing::Kind::kData: return data(thing.which, thing.iteration);
      case Thing::Kind::kClear: return clear(thing.which, thing.iteration);
    }
    return {};
  }

  // Where to begin: whatever waits, streams first.
  std::vector<Thing> beginnings() const {
    std::vector<Thing> things;
    for (uint32_t rank = 0; rank < world_.exchange().ranks(); ++rank)
      for (uint32_t queue = 0; queue < world_.process(rank).lanes.size(); ++queue)
        if (!world_.is_killed(rank) && !world_.process(rank).lanes[queue]->stream.empty())
          things.push_back({Thing::Kind::kStream, rank, queue, 0});
    for (uint32_t rank = 0; rank < world_.exchange().ranks(); ++rank)
      if (!world_.is_killed(rank) && !ended(rank))
        things.push_back({Thing::Kind::kHost, rank, 0, 0});
    return things;
  }

 private:
  static Link killed(uint32_t rank) {
    return {"the process of rank " + std::to_string(rank) + " was killed", std::nullopt, Blame::kFailure};
  }
  // Who has to do something for it to happen.
  uint32_t rank_of(const Thing& thing) const {
    switch (thing.kind) {
      case Thing::Kind::kStart:
      case Thing::Kind::kDone: return world_.side(RequestName{thing.which}).rank;
      case Thing::Kind::kData: return world_.side(RequestName{2 * thing.which}).rank;
      case Thing::Kind::kClear: return world_.side(RequestName{2 * thing.which + 1}).rank;
      default: return thing.rank;
    }
  }
  bool ended(uint32_t rank) const {
    return world_.process(rank).next_action == world_.exchange().program(rank).actions().size();
  }
  std::string name(RequestName request, uint64_t iteration) const {
    return "(" + world_.exchange().describe(request) + ") iteration " + std::to_string(iteration);
  }
  // Entries of that request that wait for this counter and are of that kind.
  uint64_t waiting(uint32_t rank, nic::CounterId counter, const core::Request& request, nic::OpKind kind,
                   bool to_done) const {
    const NicModel& model = world_.process(rank).nic.model();
    uint64_t count = 0;
    for (auto entry = model.first_waiting(counter); entry; entry = model.next_waiting(*entry)) {
      const nic::Op& op = model.op_of(*entry);
      const bool done = op.remote.key == request.done.key && op.remote.offset == request.done.offset;
      count += op.context == request.number && op.kind == kind && done == to_done ? 1 : 0;
    }
    return count;
  }

  Link host(uint32_t rank) const {
    const Process& process = world_.process(rank);
    const std::string who = "host " + std::to_string(rank);
    if (process.gave_up)
      return {who + " was told of a failure and gave up", std::nullopt, Blame::kFailure};
    if (ended(rank))
      return {who + " has ended its program", std::nullopt, Blame::kUser};
    const Action& action = world_.exchange().program(rank).actions()[process.next_action];
    if (process.nic.posting() > 0 || (process.wants_room && action.kind == Action::Kind::kStart))
      return no_room(rank, who);
    if (action.kind == Action::Kind::kMatched)
      return unmatched(who, action);
    if (action.kind == Action::Kind::kFree || action.kind == Action::Kind::kComplete) {
      for (const RequestName request : action.requests)
        if (const core::Request* core = world_.side(request).core; core != nullptr && !core->complete())
          return {who + " waits for " + name(request, world_.side(request).starts) + " to complete",
                  completion_of(request.index), Blame::kUser};
      return {who + " could go on, and does not", std::nullopt, Blame::kProtocol};
    }
    const Process::Lane& lane = *process.lanes[action.queue];
    if (!lane.stream.empty())
      return {who + " is in MPIX_Queue_wait", Thing{Thing::Kind::kStream, rank, action.queue, 0}, Blame::kUser};
    for (const uint32_t request : process.requests) {
      const Side& side = world_.side(RequestName{request});
      if (side.core != nullptr && side.queue == action.queue && !side.core->complete())
        return {who + " is in MPIX_Queue_wait", completion_of(request), Blame::kUser};
    }
    return {who + " could go on, and does not", std::nullopt, Blame::kProtocol};
  }

  // A match waits for the other side's.
  Link unmatched(const std::string& who, const Action& action) const {
    for (const RequestName request : action.requests) {
      const Side& side = world_.side(request);
      const Side& other = world_.side(RequestName{request.index ^ 1});
      if (side.core == nullptr || side.core->state != core::Request::State::kMatching)
        continue;
      const std::string what = who + " waits for (" + world_.exchange().describe(request) + ") to be matched";
      if (other.core == nullptr || other.core->state == core::Request::State::kFresh)
        return {what, Thing{Thing::Kind::kHost, other.rank, 0, 0}, Blame::kUser};
      // Anybody else might send to it.
      const MessageOptions& message = world_.exchange().messages()[request.message()].options;
      if (world_.is_killed(other.rank) && request.receive() && message.any_source)
        return {what + " from any source, and rank " + std::to_string(other.rank) + " was killed", std::nullopt,
                Blame::kFailure};
      return {what + ", and both sides have been given to the matcher", std::nullopt, Blame::kProtocol};
    }
    return {who + " could go on, and does not", std::nullopt, Blame::kProtocol};
  }

  // A request that has not completed, last started on the queue that the host is about to use; rather one of an earlier
  // epoch, which has been waited for. `lost`: one that an operation has failed for, or whose peer was killed.
  std::optional<uint32_t> incomplete(uint32_t rank, bool lost) const {
    const Process& process = world_.process(rank);
    const uint32_t queue = world_.exchange().program(rank).actions()[process.next_action].queue;
    std::optional<uint32_t> found;
    for (const uint32_t request : process.requests) {
      const Side& side = world_.side(RequestName{request});
      const Side& other = world_.side(RequestName{request ^ 1});
      if (side.core == nullptr || side.queue != queue || side.core->complete())
        continue;
      if (lost && side.failed == 0 && other.failed == 0 && !world_.is_killed(other.rank))
        continue;
      if (side.before + side.core->iterations_done() < side.waits)
        return request;
      found = found.value_or(request);
    }
    return found;
  }

  // The first iteration of the request that has not completed.
  Thing completion_of(uint32_t request) const {
    const Side& side = world_.side(RequestName{request});
    return {Thing::Kind::kDone, 0, request, side.before + side.core->iterations_done() + 1};
  }

  // The host holds an operation in its hands for which no entry is free: one that is taken waits for the next thing.
  Link no_room(uint32_t rank, const std::string& who) const {
    const Process& process = world_.process(rank);
    const NicModel& model = process.nic.model();
    const uint32_t depth = model.limits().deferred_depth;
    uint64_t epoch = 0;
    for (const auto& lane : process.lanes)
      epoch += lane->queue->epoch_entries();
    Link link{who + " has no entry for its next operation: " + of(depth - model.free_entries(), depth) +
                  " are taken, and the starts that are not waited for need " + std::to_string(epoch),
              std::nullopt, Blame::kPool};
    // Entries may be free, but kept for what has not completed on this queue; what was lost keeps its own for ever.
    std::optional<uint32_t> request = incomplete(rank, true);
    if (!request && process.nic.posting() == 0 && model.free_entries() > 0)
      request = incomplete(rank, false);
    if (request)
      link.next = completion_of(*request);
    for (uint32_t counter = 0; counter < model.limits().max_counters && !link.next; ++counter) {
      const auto entry = model.first_waiting({counter});
      if (!entry)
        continue;
      const nic::Op& op = model.op_of(*entry);
      const uint32_t request = process.requests[op.context - 1];
      const Side& side = world_.side(RequestName{request});
      if (side.core == nullptr)
        continue;
      if (op.kind == nic::OpKind::kWrite)
        link.next = Thing{Thing::Kind::kData, 0, request / 2, side.data_fired / side.pieces + 1};
      else if (op.remote.key == side.core->done.key && op.remote.offset == side.core->done.offset)
        link.next = Thing{Thing::Kind::kDone, 0, request, side.done_fired + 1};
      else if (RequestName{request}.receive())
        link.next = Thing{Thing::Kind::kClear, 0, request / 2, side.clear_fired + 1};
      else  // a flag
        link.next = Thing{Thing::Kind::kDone, 0, request ^ 1, world_.side(RequestName{request ^ 1}).done_fired + 1};
    }
    return link;
  }

  Link stream(uint32_t rank, uint32_t queue) const {
    const Process& process = world_.process(rank);
    const StepStream& stream = process.lanes[queue]->stream;
    const std::string who =
        "stream " + std::to_string(rank) + (process.lanes.size() > 1 ? "." + std::to_string(queue) : "");
    if (stream.empty())
      return {who + " is empty", Thing{Thing::Kind::kHost, rank, 0, 0}, Blame::kUser};
    const StepItem& item = stream.front();
    if (item.kind != StepItem::Kind::kWait)
      return {who + " could go on, and does not", std::nullopt, Blame::kProtocol};
    if (item.request == StepItem::kNothing)
      return {who + " awaits the promise of " + name({2 * item.message + 1}, item.op.value),
              Thing{Thing::Kind::kStart, 0, 2 * item.message + 1, item.op.value}, Blame::kUser};
    const Side& side = world_.side(RequestName{item.request});
    if (side.core == nullptr)
      return {who + " waits for the " + world_.exchange().describe({item.request}) + ", which was freed", std::nullopt,
              Blame::kProtocol};
    const uint64_t iteration = item.iteration;
    if (side.released && iteration > side.before)
      return {
          who + " waits for " + name({item.request}, iteration) + ", whose failure was told: nothing may wait for it",
          std::nullopt, Blame::kProtocol};
    return {who + " waits for " + name({item.request}, iteration),
            Thing{Thing::Kind::kDone, 0, item.request, iteration}, Blame::kUser};
  }

  Link start(RequestName request, uint64_t iteration) const {
    const Side& side = world_.side(request);
    const std::string who = "start of " + name(request, iteration);
    if (side.core == nullptr || side.starts < iteration) {
      if (ended(side.rank) && !world_.process(side.rank).gave_up)
        return {who + " is never made: host " + std::to_string(side.rank) + " has ended its program", std::nullopt,
                Blame::kUser};
      return {who + " is not enqueued", Thing{Thing::Kind::kHost, side.rank, 0, 0}, Blame::kUser};
    }
    if (side.started < iteration)
      return {who + " is not reached", Thing{Thing::Kind::kStream, side.rank, side.queue, 0}, Blame::kUser};
    // Only promises are waited for beyond that: their kernel comes later in the stream, or the host has not got there.
    if (!world_.process(side.rank).lanes[side.queue]->stream.empty())
      return {who + " was reached, and not yet promised", Thing{Thing::Kind::kStream, side.rank, side.queue, 0},
              Blame::kUser};
    return {who + " was reached, and is not promised", Thing{Thing::Kind::kHost, side.rank, 0, 0}, Blame::kUser};
  }

  // Whether what is not among the NIC's entries may wait in the overflow, which runs it when its condition is met.
  bool overflows(const Side& side) const {
    const Process& process = world_.process(side.rank);
    return process.nic.posting() == 0 && !process.endpoint.overflow().empty();
  }

  // An operation of a start that is not among the NIC's entries.
  Link not_posted(const std::string& what, RequestName request, uint64_t iteration) const {
    const Side& side = world_.side(request);
    const Process& process = world_.process(side.rank);
    if (side.starts < iteration)
      return {what + " is not enqueued", Thing{Thing::Kind::kStart, 0, request.index, iteration}, Blame::kUser};
    if (side.released)
      return {what + " was taken back: the request has failed", std::nullopt, Blame::kFailure};
    // What stands goes on when it has completed.
    if (side.standing && side.failed > 0)
      return {what + " is not handed over: an earlier one has failed", std::nullopt, Blame::kFailure};
    if (process.driver != nullptr && process.driver->fabric.keeps_doomed(side.number))
      return {what + " was refused for good by the libfabric of rank " + std::to_string(side.rank) +
                  ", and will fail when it is due",
              std::nullopt, Blame::kFailure};
    if (process.driver != nullptr && process.driver->fabric.was_refused())
      return {what + " stays with the driver of rank " + std::to_string(side.rank), std::nullopt, Blame::kProtocol};
    if (process.nic.posting() > 0)
      return {what + " is not posted", Thing{Thing::Kind::kHost, side.rank, 0, 0}, Blame::kPool};
    if (!process.endpoint.overflow().empty()) {
      std::string text = what + " stays in the overflow of rank " + std::to_string(side.rank) + ", which finds " +
                         std::to_string(process.nic.free_entries()) + " entries free";
      if (side.core != nullptr && side.core->trigger.valid())
        text += " and its trigger counter at " +
                std::to_string(process.nic.model().read(side.core->trigger).value().reached()) + " of " +
                std::to_string(2 * (iteration - side.before));
      return {text, std::nullopt, Blame::kProtocol};
    }
    return {what + " is lost: it is neither posted nor fired", std::nullopt, Blame::kProtocol};
  }

  Link done(RequestName request, uint64_t iteration) const {
    const Side& side = world_.side(request);
    if (side.core == nullptr)
      return {"the " + world_.exchange().describe(request) + " was freed", std::nullopt, Blame::kProtocol};
    const core::Request& core = *side.core;
    const std::string what = "done word of " + name(request, iteration);
    if (core.failures > 0 && core.peer_failed)
      return {what + " need not grow: the other side has failed, as it was told", std::nullopt, Blame::kFailure};
    if (request.receive() && core::raises_flags(world_.options().strategy))
      return flag(request, iteration);
    if (core.written_back)
      return copied(what, request, iteration);
    const uint64_t posted = side.done_fired + waiting(side.rank, core.completion, core, nic::OpKind::kAtomic, true);
    if (side.done_landed >= iteration)
      return {what + " has grown, and is not seen", std::nullopt, Blame::kProtocol};
    if (side.done_fired >= iteration)
      return {what + " did not grow", std::nullopt, side.failed > 0 ? Blame::kFailure : Blame::kProtocol};
    const uint64_t value = world_.process(side.rank).nic.model().read(core.completion).value().reached();
    const uint64_t wanted = core.completions * (iteration - side.before);
    if (posted < iteration && (value >= wanted || !overflows(side)))
      return not_posted(what, request, iteration);
    if (value >= wanted)
      return {what + ": its counter holds " + of(value, wanted) + ", and nothing fires", std::nullopt,
              Blame::kProtocol};
    const std::string holds = what + ": its counter holds " + of(value, wanted);
    if (core.completions > side.pieces && value + 1 >= wanted)
      return {holds, Thing{Thing::Kind::kDone, 0, request.index ^ 1, iteration}, Blame::kUser};  // the flag
    return {holds, Thing{Thing::Kind::kData, 0, request.message(), iteration}, Blame::kUser};
  }

  // The done word of a send that its NIC copies its completion counter to.
  Link copied(const std::string& what, RequestName send, uint64_t iteration) const {
    const Side& side = world_.side(send);
    const uint64_t value = world_.process(side.rank).nic.model().read(side.core->completion).value().success;
    const uint64_t wanted = side.core->completion_value(iteration - side.before);
    if (side.before + side.core->iterations_done() >= iteration)
      return {what + " has grown, and is not seen", std::nullopt, Blame::kProtocol};
    const std::string holds = what + ": its counter holds " + of(value, wanted);
    if (side.failed > 0)
      return {holds + ", failures among them", std::nullopt, Blame::kFailure};
    if (value >= wanted)
      return {holds + ", and is not copied there: the word holds " +
                  of(nic::from_word(side.core->done.read()).success, side.core->done_base + wanted),
              std::nullopt, Blame::kProtocol};
    if (value + 1 >= wanted)
      return {holds, Thing{Thing::Kind::kDone, 0, send.index ^ 1, iteration}, Blame::kUser};  // the flag
    return {holds, Thing{Thing::Kind::kData, 0, send.message(), iteration}, Blame::kUser};
  }

  // Whether a program can know that an operation of the request failed.
  bool was_told(const Side& side) const {
    const Process& process = world_.process(side.rank);
    return side.failed > 0 && (side.core != nullptr || side.reported > 0 || process.untraced > 0 || process.gave_up);
  }

  // The done word of a receive that its sender raises.
  Link flag(RequestName receive, uint64_t iteration) const {
    const RequestName send{receive.index ^ 1};
    const Side& side = world_.side(receive);
    const Side& other = world_.side(send);
    const std::string what = "flag of " + name(send, iteration);
    if (side.done_landed < iteration && world_.is_killed(other.rank))
      return killed(other.rank);
    if (side.done_landed >= iteration)
      return {what + " is raised, and not seen", std::nullopt, Blame::kProtocol};
    if (side.done_fired >= iteration)
      return {what + " has fired, and is not raised", std::nullopt,
              was_told(other) ? Blame::kFailure : Blame::kProtocol};
    if (other.core == nullptr)
      return {what + ": the request was freed", std::nullopt, blame_of_free(other)};
    const uint64_t value = world_.process(other.rank).nic.model().read(other.core->completion).value().reached();
    const uint64_t wanted = other.core->completion_value(iteration - other.before) - 1;
    if (value < wanted)
      return {what + " waits for the write: its counter holds " + of(value, wanted),
              Thing{Thing::Kind::kData, 0, receive.message(), iteration}, Blame::kUser};
    return not_posted(what, send, iteration);
  }

  // Of what is not there: a request that was freed, or let go of once its failure had been told.
  static Blame blame_of_free(const Side& side) {
    return side.failed > 0 || side.ever_released ? Blame::kFailure : Blame::kUser;
  }

  Link data(uint32_t message, uint64_t iteration) const {
    const RequestName send{2 * message};
    const Side& side = world_.side(send);
    const std::string what = "write of " + name(send, iteration);
    if (side.core == nullptr)
      return {what + ": the request was freed", std::nullopt, blame_of_free(side)};
    const core::Request& core = *side.core;
    if (side.data_fired >= side.pieces * iteration)
      return {what + " has fired, and does not complete", std::nullopt,
              side.failed > 0 ? Blame::kFailure : Blame::kProtocol};
    const bool ready = core.transfer.ready;
    const bool may_fire =
        side.started >= iteration && (ready || world_.side(RequestName{2 * message + 1}).clear_counted >= iteration);
    if (!ready && (may_fire || !overflows(side))) {
      const uint64_t posted = side.data_fired + waiting(side.rank, core.trigger, core, nic::OpKind::kWrite, false);
      if (posted < side.pieces * iteration)
        return not_posted(what, send, iteration);
    }
    if (side.started < iteration)
      return {what + " waits for its stream", Thing{Thing::Kind::kStart, 0, send.index, iteration}, Blame::kUser};
    if (!ready && world_.side(RequestName{2 * message + 1}).clear_counted < iteration)
      return {what + " waits for its clear-to-send", Thing{Thing::Kind::kClear, 0, message, iteration}, Blame::kUser};
    if (ready)
      return on_shared_trigger(what, send, iteration, nic::OpKind::kWrite);
    return {what + " may fire, and does not: its trigger counter holds " +
                of(world_.process(side.rank).nic.model().read(core.trigger).value().reached(),
                   2 * (iteration - side.before)),
            std::nullopt, Blame::kProtocol};
  }

  Link clear(uint32_t message, uint64_t iteration) const {
    const RequestName receive{2 * message + 1};
    const Side& side = world_.side(receive);
    const std::string what = "clear-to-send of " + name(receive, iteration);
    if (side.core == nullptr)
      return {what + ": the request was freed", std::nullopt, blame_of_free(side)};
    if (side.clear_fired >= iteration)
      return {what + " has fired, and does not arrive", std::nullopt,
              side.failed > 0 ? Blame::kFailure : Blame::kProtocol};
    if (side.started < iteration)
      return {what + " waits for its stream", Thing{Thing::Kind::kStart, 0, receive.index, iteration}, Blame::kUser};
    return on_shared_trigger(what, receive, iteration, nic::OpKind::kAtomic);
  }

  // An operation that hangs on its queue's trigger, behind a start that the stream has reached.
  Link on_shared_trigger(const std::string& what, RequestName request, uint64_t iteration, nic::OpKind kind) const {
    const Side& side = world_.side(request);
    const NicModel& model = world_.process(side.rank).nic.model();
    for (uint32_t counter = 0; counter < model.limits().max_counters; ++counter) {
      if (waiting(side.rank, {counter}, *side.core, kind, false) == 0)
        continue;
      const auto entry = model.first_waiting({counter});
      return {what + " is posted: its trigger counter holds " +
                  of(model.read({counter}).value().reached(), model.threshold_of(*entry)) +
                  ", though its stream has rung",
              std::nullopt, Blame::kProtocol};
    }
    return not_posted(what, request, iteration);
  }

  const World& world_;
};

WaitChain chain_from(const Tracer& tracer, const Thing& beginning) {
  WaitChain chain;
  std::vector<Thing> seen;
  std::vector<Blame> blames;
  std::optional<Thing> thing = beginning;
  size_t first = 0;  // of the links that count
  while (thing) {
    if (const auto before = std::find(seen.begin(), seen.end(), *thing); before != seen.end()) {
      first = static_cast<size_t>(before - seen.begin());
      chain.cycle = true;
      break;
    }
    const Link link = tracer.follow(*thing);
    seen.push_back(*thing);
    chain.links.push_back(link.text);
    blames.push_back(link.blame);
    thing = link.next;
  }
  // Of a circle every link counts, of a chain the end: but want of entries anywhere makes all the rest wait, where it
  // is not itself for what was lost.
  const bool lost = !chain.cycle && !blames.empty() && blames.back() == Blame::kFailure;
  const auto pool = std::find(blames.begin() + static_cast<ptrdiff_t>(first), blames.end(), Blame::kPool);
  chain.blame = lost                   ? Blame::kFailure
                : pool != blames.end() ? Blame::kPool
                : blames.empty()       ? Blame::kProtocol
                                       : blames.back();
  for (size_t i = 0; i < chain.links.size(); ++i) {
    chain.text += i == 0 ? "" : "\n <- ";
    chain.text += chain.links[i];
  }
  if (chain.cycle)
    chain.text += "\n <- and so on: this is a circle";
  if (chain.blame == Blame::kUser)
    chain.text += "\nThe program itself makes these wait for each other; no network card could help.";
  if (chain.blame == Blame::kPool)
    chain.text += "\nThere are too few deferred-work entries, and they are not reserved for a whole start.";
  return chain;
}

}  // namespace

WaitChain WaitChain::of(const World& world) {
  const Tracer tracer(world);
  const std::vector<Thing> beginnings = tracer.beginnings();
  WaitChain chain;
  chain.blame = Blame::kFailure;
  // What was lost explains those who wait for it, and nobody else.
  for (size_t i = 0; i < beginnings.size() && chain.blame == Blame::kFailure; ++i)
    chain = chain_from(tracer, beginnings[i]);
  return chain;
}

}  // namespace lanyard::nicsim
