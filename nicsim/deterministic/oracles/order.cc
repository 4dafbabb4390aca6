#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nicsim/deterministic/oracles/oracles.h"

namespace lanyard::nicsim::oracle {

namespace {

RequestName send_of(const Transit& transit) { return {transit.request & ~1u}; }
RequestName receive_of(const Transit& transit) { return {transit.request | 1u}; }

std::string name(const World& world, uint32_t request) { return "the " + world.scenario().describe({request}); }
std::string name(const World& world, uint32_t request, uint64_t iteration) {
  return fmt::format("{}, iteration {}", name(world, request), iteration);
}

void wrong(World& world, Finding finding, const char* oracle, uint32_t request, uint64_t iteration, const char* what) {
  world.find(finding, oracle, name(world, request, iteration) + ": " + what);
}

void broken(World& world, Finding finding, const Transit& transit, const char* what) {
  world.find(
      finding, "order",
      fmt::format("the {} of {}: {}", role_name(transit.role), name(world, transit.request, transit.iteration), what));
}

// Returns n if the n-th request of this name has that number; 0 if none has.
uint64_t generation(const World& world, uint32_t request, uint64_t number) {
  const auto& requests = world.process(world.side(RequestName{request}).rank).requests;
  const auto last = requests.begin() + static_cast<ptrdiff_t>(number);
  return number > 0 && last[-1] == request ? static_cast<uint64_t>(std::count(requests.begin(), last, request)) : 0;
}

// True if the request is or was in one exchange with the request `other` of that number.
bool were_merged(const World& world, uint32_t request, uint32_t other, uint64_t number) {
  const uint32_t exchange = world.scenario().merged({request});
  return exchange != 0 && exchange == world.scenario().merged({other}) &&
         world.scenario().set({request}) == world.scenario().set({other}) &&
         generation(world, request, world.side(RequestName{request}).number) == generation(world, other, number);
}

// True if the packet goes to that region of that process.
bool goes_to(const World& world, const Transit& transit, uint32_t rank, nic::RegionId region) {
  const Result<nic::RemoteKey> key = world.process(rank).card().key(region);
  return transit.to == rank && key.ok() && transit.packet.key == key.value().value;
}

// True if the program has freed the other side of the message before that iteration.
bool was_freed_by_program(const World& world, const Transit& transit) {
  const Side& other = world.side(RequestName{transit.request}.other());
  return transit.role != Transit::Role::kDone && transit.role != Transit::Role::kFlag && other.core == nullptr &&
         other.started < transit.iteration;
}

// True if a side of the message was released. Its enqueued operations still run, and nobody may
// rely on their results.
bool was_released(const World& world, const Transit& transit) {
  return world.side(send_of(transit)).ever_released || world.side(receive_of(transit)).ever_released;
}

// True if it goes to the done word of a later request.
bool is_anothers(const World& world, const Transit& transit) {
  const Process& process = world.process(transit.to);
  return std::any_of(process.requests.begin(), process.requests.end(), [&](uint32_t request) {
    const core::Request* core = world.side(RequestName{request}).core;
    const bool is_its = core != nullptr && core->done.valid() &&
                        ((core->done.key.value == transit.packet.key && core->done.offset == transit.packet.offset) ||
                         (core->exchange != nullptr && core->exchange->other != nullptr &&
                          core->exchange->counted_done.value == transit.packet.key));
    return is_its && core->number != transit.owner && !were_merged(world, request, transit.request, transit.owner);
  });
}

void check_data_fired(World& world, const Transit& transit) {
  const Side& send = world.side(send_of(transit));
  const Side& receive = world.side(receive_of(transit));
  if (receive.core == nullptr || !goes_to(world, transit, receive.rank, receive.core->buffer))
    return broken(world, Finding::kOrder, transit, "does not go to its receive's buffer");
  if (send.started < transit.iteration)
    return broken(world, Finding::kOrder, transit, "fires before its stream has got to that start");
  if (world.is_implied(transit.request)) {
    if (!world.is_given(receive_of(transit).index, transit.iteration))
      broken(world, Finding::kOrder, transit, "fires before its receive's program has given the buffer back");
    return;
  }
  if (!send.core->transfer.ready && receive.clear_counted < transit.iteration)
    return broken(world, Finding::kOrder, transit, "fires without that clear-to-send");
  if (send.core->transfer.ready && receive.started < transit.iteration)
    return broken(world, Finding::kUser, transit, "a ready send runs before its receive was started");
}

// After a release a write still needs its clear-to-send, whatever streams ring. (For later requests
// in this place it is not known to which start a write belongs.)
void check_late_write(World& world, const Transit& transit) {
  const Side& send = world.side(send_of(transit));
  const Side& receive = world.side(receive_of(transit));
  const bool needs_clearance = !send.core->transfer.ready && !world.is_implied(transit.request);
  if (needs_clearance && send.before == 0 && receive.before == 0 && receive.clear_counted < transit.iteration)
    broken(world, Finding::kOrder, transit, "fires without that clear-to-send, after a failure");
}

void check_clear_fired(World& world, const Transit& transit) {
  const Side& send = world.side(send_of(transit));
  const Side& receive = world.side(receive_of(transit));
  if (!send.ever_released && (send.core == nullptr || !goes_to(world, transit, send.rank, send.core->clear_to_send)))
    return broken(world, Finding::kOrder, transit, "does not go to its own send");
  if (world.is_implied(transit.request))
    return broken(world, Finding::kOrder, transit, "is sent though the other set's messages say as much");
  if (receive.started < transit.iteration)
    return broken(world, Finding::kOrder, transit, "fires before its stream has got to that start");
}

void check_part_done(World& world, const Transit& transit, uint32_t request) {
  const Side& side = world.side(request);
  const uint64_t wanted = transit.iteration * side.pieces;
  const bool receive = RequestName{request}.receive();
  const bool flags = core::raises_flags(world.options().strategy) && side.pieces > 0;
  if (flags && (receive ? side.flag_counted : side.flag_acked) < transit.iteration)
    return broken(world, Finding::kOrder, transit,
                  receive ? "grows before a flag is there" : "grows before its flag has completed");
  if (receive && (side.data_landed < wanted || (!flags && side.data_counted < wanted)) &&
      !is_told_falsely(world, request, transit.iteration))
    return broken(world, Finding::kOrder, transit, "grows before the data is there");
  if (!receive && side.data_acked < wanted)
    return broken(world, Finding::kOrder, transit, "grows before the write has completed");
}

void check_done_fired(World& world, const Transit& transit) {
  world.for_each_merged(transit.request, [&](uint32_t request) { check_part_done(world, transit, request); });
}

// A failed write raises its flag too. Only its sender is told: strategy B can do no more (P3).
void check_flag_fired(World& world, const Transit& transit) {
  const Side& send = world.side(transit.request);
  const Side& receive = world.side(receive_of(transit));
  if (receive.core == nullptr || !goes_to(world, transit, receive.rank, receive.core->flag) ||
      transit.packet.offset != 0)
    return broken(world, Finding::kOrder, transit, "does not go to its receive's word");
  if (!is_told_falsely(world, receive_of(transit).index, transit.iteration) &&
      receive.data_landed < transit.iteration * send.pieces)
    return broken(world, Finding::kOrder, transit, "is raised before the data is there");
}

}  // namespace

bool is_told_falsely(const World& world, uint32_t request, uint64_t iteration) {
  const uint64_t lost = world.side(RequestName{request}.other()).first_lost;
  return core::raises_flags(world.options().strategy) && RequestName{request}.receive() && lost > 0 &&
         lost <= iteration;
}

void check_fired(World& world, const Transit& transit) {
  const Side& side = world.side(transit.request);
  const bool freed = side.core == nullptr || side.core->number != transit.owner;
  if (freed && side.ever_released)
    return;  // its failure was told, and it was freed with this in flight
  // A released receive sends its remaining clear-to-sends (P16). They may fire entries posted
  // ahead, and entries that were due when the request stopped standing.
  const bool ahead = was_released(world, transit) && (side.standing || transit.iteration <= side.starts + side.ahead);
  if (freed && !(ahead && transit.iteration > side.before))
    return broken(world, Finding::kOrder, transit, "fires after its request was freed");
  // A driver without a free entry runs due operations during the start that posts them.
  const uint64_t starts = freed ? side.starts : std::max(side.starts, side.before + side.core->starts);
  if (transit.iteration > starts && transit.role != Transit::Role::kFlag && !ahead)
    return broken(world, Finding::kOrder, transit, "fires once more than its request was started: a duplicate");
  // After a cut, a side may be freed early or never matched: nothing arrives there.
  const bool cut = world.are_cut(transit.from, transit.to);
  if (!cut && was_freed_by_program(world, transit) && !was_released(world, transit) &&
      world.side(transit.request).started >= transit.iteration)
    return broken(world, Finding::kUser, transit, "finds the other side freed");
  if (transit.role == Transit::Role::kData && transit.payload == nullptr)
    ++world.side(transit.request).data_read;  // nothing to read
  if (!cut && transit.role == Transit::Role::kData && was_released(world, transit))
    check_late_write(world, transit);
  if (cut || was_released(world, transit))
    return;
  switch (transit.role) {
    case Transit::Role::kData: return check_data_fired(world, transit);
    case Transit::Role::kClear: return check_clear_fired(world, transit);
    case Transit::Role::kDone: return check_done_fired(world, transit);
    case Transit::Role::kFlag: return check_flag_fired(world, transit);
    case Transit::Role::kMail: return;  // it belongs to no request
  }
}

void check_read(World& world, const Transit& transit) {
  Side& side = world.side(transit.request);
  ++side.data_read;
  const RequestName request{transit.request};
  if (side.checked && !was_released(world, transit) &&
      !is_content(transit.bytes.data(), transit.bytes.size(), transit.packet.offset, request.message(),
                  transit.iteration))
    broken(world, Finding::kIntegrity, transit, "reads a source that does not hold that content");
}

void check_landed(World& world, const Transit& transit) {
  if (transit.role == Transit::Role::kDone && is_anothers(world, transit))
    return broken(world, Finding::kOrder, transit, "is added to the word of another request");
  Side& receive = world.side(receive_of(transit).index);
  switch (transit.role) {
    case Transit::Role::kDone:
      return world.for_each_merged(transit.request, [&](uint32_t request) { ++world.side(request).done_landed; });
    case Transit::Role::kFlag: receive.done_landed += world.flags_tell_stream(transit.request) ? 1 : 0; return;
    case Transit::Role::kData: ++receive.data_landed; return check_landing(world, transit);
    default: return;
  }
}

void check_landing(World& world, const Transit& transit) {
  const Side& send = world.side(send_of(transit));
  const Side& receive = world.side(receive_of(transit));
  const bool implied = world.is_implied(transit.request);
  // A released send must not write where the other side reads. (For later requests in this place it
  // is not known to which start a write belongs.)
  const bool counts = !was_released(world, transit) || (!receive.ever_released && send.before == 0);
  if (implied && counts && !world.is_given(receive_of(transit).index, transit.iteration))
    return broken(world, Finding::kIntegrity, transit, "lands before its receive's program has given the buffer back");
  if (was_released(world, transit))
    return;
  if (!implied && receive.started < transit.iteration)
    return broken(world, Finding::kIntegrity, transit, "lands before its receive was started");
  if (receive.checked && receive.filled + 1 < transit.iteration)
    return broken(world, Finding::kIntegrity, transit, "overwrites content that was not read yet");
}

void check_counted(World& world, const Transit& transit) {
  Side& receive = world.side(receive_of(transit).index);
  if (transit.role == Transit::Role::kData)
    ++receive.data_counted;
  else if (transit.role == Transit::Role::kClear)
    ++receive.clear_counted;
  else if (transit.role == Transit::Role::kFlag)
    ++receive.flag_counted;
}

void check_refused(World& world, const Transit& transit) {
  // The target knows that its peer was killed and has ended the match. The peer may have gone on.
  if (was_released(world, transit) ||
      (world.is_killed(transit.from) && world.process(transit.to).has_lost(transit.from)))
    return;
  if (was_freed_by_program(world, transit))
    return broken(world, Finding::kUser, transit, "finds the other side freed");
  broken(world, Finding::kOrder, transit, "names memory that is not registered (any more)");
}

void check_rung(World& world, const Process& process, const StepItem& item) {
  const nic::CounterId counter = process.nic.rung_by(item.op);
  const auto wrong = [&](const std::string& what) {
    const uint64_t iteration = world.side(RequestName{item.start}).started + 1;
    world.find(Finding::kOrder, "lifetime", fmt::format("{}: rings {}", name(world, item.start, iteration), what));
  };
  for (const RequestName request : requests_of(world, process)) {
    const Side& side = world.side(request);
    if (side.core != nullptr && side.core->trigger == counter && side.core->number != item.number &&
        !were_merged(world, request.index, item.start, item.number))
      return wrong("the trigger of a request that came later, " + name(world, request.index));
  }
  if (!process.nic.model().is_open(counter))
    wrong("a counter that was closed");
}

void check_started(World& world, uint32_t request) {
  Side& side = world.side(request);
  ++side.started;
  world.for_each_of_other_set(request, [&](uint32_t index) {
    const Side& other = world.side(RequestName{index});
    if (RequestName{index}.receive() && world.is_implied(index) && other.checked && other.filled < other.waited)
      wrong(world, Finding::kUser, "order", request, side.started,
            "is started before the other set's content was read");
  });
  if (!side.checked)
    return;
  if (RequestName{request}.receive() && side.filled + 1 < side.started)
    return wrong(world, Finding::kUser, "order", request, side.started, "is started before its last content was read");
  if (!RequestName{request}.receive() && side.filled < side.started)
    return wrong(world, Finding::kUser, "order", request, side.started, "is started before it was packed");
}

void check_waited(World& world, uint32_t request, uint64_t iteration) {
  Side& side = world.side(request);
  side.waited = std::max(side.waited, iteration);  // another queue may be behind
  // A released receive sends its other clear-to-sends, so later writes may count for a failed one.
  const bool peer_let_go = world.side(RequestName{request}.other()).ever_released;
  if (side.released || peer_let_go || is_told_falsely(world, request, side.waited))
    return;
  const uint64_t wanted = side.waited * side.pieces;
  if (RequestName{request}.receive() ? side.data_landed < wanted : side.data_acked < wanted)
    wrong(world, Finding::kIntegrity, "order", request, side.waited, "its wait passes before it is complete");
}

void check_packed(World& world, uint32_t request) {
  Side& side = world.side(request);
  if (side.started > std::max(side.waited, side.seen_complete))
    return wrong(world, Finding::kUser, "order", request, side.filled + 1, "is packed while the last one is under way");
  if (side.data_read < side.started * side.pieces && side.failed == 0)
    return wrong(world, Finding::kIntegrity, "order", request, side.filled,
                 "its wait passed before its source was read");
}

void check_unpacked(World& world, uint32_t request) {
  Side& side = world.side(request);
  const std::vector<std::byte> seen = without_gaps(side);
  const MessageOptions& message = world.scenario().messages()[RequestName{request}.message()].options;
  ++side.filled;
  if (side.filled > side.waited)
    return wrong(world, Finding::kUser, "order", request, side.filled, "is read before its wait");
  const uint64_t bytes = message.nobody ? 0 : message.bytes;
  if (side.checked && !side.ever_released && !world.side(RequestName{request}.other()).ever_released &&
      !is_told_falsely(world, request, side.filled) &&
      !is_content(seen.data(), bytes, 0, RequestName{request}.message(), side.filled))
    return wrong(world, Finding::kIntegrity, "content", request, side.filled,
                 "the kernel does not find that content in the buffer");
  if (std::any_of(seen.begin() + static_cast<ptrdiff_t>(bytes), seen.end(),
                  [](std::byte byte) { return byte != kUntouched; }))
    return wrong(world, Finding::kIntegrity, "content", request, side.filled,
                 "something was written behind the message");
}

bool has_moved(const World& world, RequestName request) {
  const Side& side = world.side(request);
  return side.layout == nullptr || side.moved >= (request.receive() ? side.waits : side.starts);
}

bool check_moves(World& world, const StepItem& item) {
  const Side& side = world.side(RequestName{item.request});
  const auto wrong = [&](Finding finding, const char* oracle, const char* what) {
    oracle::wrong(world, finding, oracle, item.request, side.moved + 1, what);
    return false;
  };
  if (side.core == nullptr || side.core->number != item.number)
    return wrong(Finding::kOrder, "lifetime", "its stream packs or unpacks for it after it was freed");
  switch (item.op.kind) {
    case gpu::StreamOp::Kind::kPack:
      if (side.data_read < side.started * side.pieces && side.failed == 0)
        return wrong(Finding::kIntegrity, "order", "is packed before the last one has left");
      return side.started <= side.moved || wrong(Finding::kOrder, "order", "is packed after its start");
    case gpu::StreamOp::Kind::kUnpack:
      return side.waited > side.moved || wrong(Finding::kOrder, "order", "is unpacked before its wait");
    default: {
      const bool counts_on = item.op.kind == gpu::StreamOp::Kind::kWriteNext64;
      const uint64_t told = counts_on ? *item.op.count + item.op.value : item.op.value;
      return told - side.core->moved.base <= side.moved - side.before ||
             wrong(Finding::kOrder, "order", "counts as packed or unpacked before it is");
    }
  }
}

void check_moved(World& world, uint32_t request) {
  Side& side = world.side(request);
  ++side.moved;
  if (!gaps_are_untouched(side))
    wrong(world, Finding::kIntegrity, "content", request, side.moved,
          "something was written into the gaps of its buffer");
}

void check_seen_complete(World& world, uint32_t request) {
  if (!has_moved(world, RequestName{request}))
    wrong(world, Finding::kOrder, "order", request, world.side(request).moved + 1,
          "counts as complete though its stream has not come to pack or unpack for it");
}

void check_unsettled(World& world, const Process& process, uint32_t queue) {
  for (const uint32_t request : process.requests) {
    const Side& side = world.side(request);
    if (side.core == nullptr)
      continue;
    // It also asks about starts made here if the last start was on another queue.
    const bool asks = side.core->asked > side.core->assured && side.core->failures == 0;
    if (RequestName{request}.receive() && asks && side.core->asked > side.core->iterations_done())
      return wrong(world, Finding::kOrder, "liveness", request, side.before + side.core->asked,
                   "its sender is asked how that went, and it has not completed");
    if ((side.queue == queue && !side.core->complete()) || (RequestName{request}.receive() && asks))
      return;
  }
  world.find(
      Finding::kOrder, "liveness",
      fmt::format("rank {}: MPIX_Queue_wait waits on queue {}, where everything has completed", process.rank, queue));
}

void check_matched(World& world, uint32_t request) {
  const Side &side = world.side(request), &other = world.side(request ^ 1);
  const Scenario::Message& message = world.scenario().messages()[RequestName{request}.message()];
  const auto wrong = [&](Finding finding, const char* oracle, const std::string& what) {
    world.find(finding, oracle, name(world, request) + what);
  };
  if (side.core == nullptr)
    return wrong(Finding::kUser, "lifetime", " was freed before");
  const core::Request& core = *side.core;
  if (!core.matched())
    return wrong(Finding::kOrder, "matching", " is not matched: " + core.match_error.message());
  if (message.options.nobody) {  // MPI 4.0 section 3.10
    if (core.matched_peer != core::kNobody || core.matched_bytes != 0 || core.matched_tag != core::kAnyTag)
      wrong(Finding::kOrder, "matching", " is matched, but says: " + core.describe());
    return;
  }
  // The other side may be freed and matched again before this one looks.
  if (core.matched_nic != other.rank || core.matched_number > world.process(other.rank).requests.size() ||
      generation(world, request ^ 1, core.matched_number) != generation(world, request, side.number))
    return wrong(Finding::kOrder, "matching", " is matched with another request");
  if (core.matched_bytes != message.options.bytes || core.matched_tag != message.options.tag)
    wrong(Finding::kOrder, "matching", " is matched, but says: " + core.describe());
}

void check_unmatched(World& world, uint32_t request) {
  const core::Request* core = world.side(request).core;
  if (core == nullptr)
    return world.find(Finding::kUser, "lifetime", name(world, request) + " was freed before");
  if (core->matched() || core->match_error.code() != Code::kTruncated)
    world.find(Finding::kOrder, "matching",
               fmt::format("{} is too long for its receive, and {}: {}", name(world, request),
                           core->matched() ? "is matched" : "it says",
                           core->matched() ? core->describe() : core->match_error.message()));
}

void check_offers(World& world, const Process& process) {
  // True if the receive for this offer was never made.
  const auto unmatched = [&](uint32_t from, uint64_t send) {
    return world.side(RequestName{world.process(from).requests[send - 1] | 1}).number == 0;
  };
  const std::span<const Mailbox::Offer> offers = process.mail.offers();
  for (uint32_t from = 0; from < world.scenario().ranks(); ++from) {
    if (process.nic.is_lost(from))
      continue;
    const core::MatchCard* oldest = process.matcher.unmatched_offer(from, kCommunicator);
    const auto right = std::find_if(offers.begin(), offers.end(), [&](const Mailbox::Offer& offer) {
      return offer.from == from && unmatched(from, offer.send);
    });
    if (right != offers.end() && (oldest == nullptr || (oldest->send != right->send && unmatched(from, oldest->send))))
      return world.find(Finding::kOrder, "matching",
                        fmt::format("rank {} forgets the offer of {}, which was not withdrawn", process.rank,
                                    name(world, world.process(from).requests[right->send - 1])));
    if (right == offers.end() && oldest != nullptr && unmatched(from, oldest->send))
      return world.find(Finding::kOrder, "matching",
                        fmt::format("rank {} keeps an offer of rank {} that was withdrawn", process.rank, from));
  }
}

void check_counter(World& world, const Process& process, uint32_t counter) {
  const NicModel& model = process.nic.model();
  const char* wrong = process.shadow.compare(model, counter);
  if (wrong == nullptr)
    return;
  const Result<nic::CounterValue> read = model.read({counter});
  const nic::CounterValue value = read.ok() ? read.value() : nic::CounterValue{};
  const nic::CounterValue right = process.shadow.value(counter);
  std::string text =
      fmt::format("rank {}, counter {}: {}; it holds {} and {} failures, right were {} and {} failures", process.rank,
                  counter, wrong, value.success, value.failure, right.success, right.failure);
  if (const auto entry = model.first_waiting({counter}))
    text += fmt::format("; what waits first, {}, has threshold {}", world.describe(process, model.op_of(*entry)),
                        model.threshold_of(*entry));
  world.find(Finding::kOrder, "NIC", text);
}

}  // namespace lanyard::nicsim::oracle
