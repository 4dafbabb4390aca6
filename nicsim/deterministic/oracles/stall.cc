#include "nicsim/deterministic/oracles/ending.h"

#include <algorithm>
#include <optional>

namespace lanyard::nicsim::oracle {

namespace {

constexpr uint32_t kMostRanks = 8, kMostEntries = 8;  // in a text

uint32_t requests_of(const World& world) { return static_cast<uint32_t>(2 * world.scenario().messages().size()); }

std::string name(const World& world, uint32_t request, uint64_t iteration) {
  return "(" + world.scenario().describe({request}) + ") iteration " + std::to_string(iteration);
}

bool has_ended(const Process& process) { return process.next_action == process.program.size(); }

bool wants_entries(const Process& process) {
  return process.nic.posting() > 0 || (process.wants_room && !has_ended(process) &&
                                       process.program[process.next_action].kind == Action::Kind::kStart);
}

uint64_t iterations_done(const Side& side) { return side.before + side.core->iterations_done(); }

bool has_failed(const World& world, const Side& side) {
  return side.failed > 0 || side.ever_released || world.is_killed(side.rank);
}

bool anything_failed(const World& world) {
  for (uint32_t request = 0; request < requests_of(world); ++request)
    if (has_failed(world, world.side(RequestName{request})))
      return true;
  return false;
}

// Whether both sides of that message have started the iteration, neither has failed, and their cards have entries.
bool may_complete(const World& world, uint32_t request, uint64_t iteration) {
  for (const uint32_t each : {request, request ^ 1}) {
    const Side& side = world.side(RequestName{each});
    const bool ended = side.core != nullptr && side.core->exchange != nullptr && side.core->exchange->ended;
    if (side.started < iteration || has_failed(world, side) || ended || wants_entries(world.process(side.rank)))
      return false;
  }
  return true;
}

// Whether the iteration of this request must complete. It waits for all members of its exchange and of its peers'
// exchanges, and for the other set where there are two.
bool must_complete(const World& world, uint32_t request, uint64_t iteration) {
  bool must = true;
  const uint64_t of_other_set = iteration - (world.scenario().set({request}) == 1 ? 1 : 0);
  world.for_each_merged(request, [&](uint32_t member) {
    for (const uint32_t side : {member, member ^ 1})
      world.for_each_merged(side, [&](uint32_t each) {
        must = must && may_complete(world, each, iteration);
        world.for_each_of_other_set(each, [&](uint32_t other) {
          for (const uint32_t turn : {other, other ^ 1})
            must = must && world.side(RequestName{turn}).core != nullptr &&
                   iterations_done(world.side(RequestName{turn})) >= of_other_set;
        });
      });
  });
  return must;
}

// The first message that must complete, and does not.
std::optional<std::string> stuck_message(const World& world) {
  for (uint32_t request = 0; request < requests_of(world); ++request) {
    const Side& side = world.side(RequestName{request});
    if (side.core == nullptr || side.pieces == 0 || side.released || iterations_done(side) >= side.started)
      continue;
    const uint64_t iteration = iterations_done(side) + 1;
    if (must_complete(world, request, iteration))
      return name(world, request, iteration) + " was started on both sides, and does not complete";
  }
  return std::nullopt;
}

// A stream that waits for something that has completed, has failed or was freed.
std::optional<std::string> stuck_stream(const World& world, const Process& process) {
  for (const auto& queued : process.streams) {
    if (queued->stream.empty())
      continue;
    const StepItem& item = queued->stream.front();
    if (item.kind != StepItem::Kind::kWait || item.request == StepItem::kNothing)
      continue;
    const Side& side = world.side(RequestName{item.request});
    const std::string wait = "a stream of rank " + std::to_string(process.rank) + " waits for " +
                             name(world, item.request, item.iteration) + ", which ";
    if (side.core == nullptr)
      return wait + "was freed";
    if (side.released && item.iteration > side.before)
      return wait + "has failed, as the program was told";
    if (iterations_done(side) >= item.iteration)
      return wait + "has completed";
  }
  return std::nullopt;
}

// A host that waits for a match of what is there on both sides.
std::optional<std::string> stuck_match(const World& world, const Process& process) {
  if (has_ended(process) || process.program[process.next_action].kind != Action::Kind::kMatched)
    return std::nullopt;
  for (const RequestName request : process.program[process.next_action].requests) {
    const Side& side = world.side(request);
    const Side& other = world.side(RequestName{request.index ^ 1});
    if (side.core != nullptr && side.core->state == core::Request::State::kMatching && other.core != nullptr &&
        other.core->state != core::Request::State::kFresh && !world.is_killed(other.rank))
      return "(" + world.scenario().describe(request) + ") is there on both sides, and is not matched";
  }
  return std::nullopt;
}

// Whether a start, a match or a promise is missing.
bool is_unmade(const World& world) {
  for (uint32_t send = 0; send < requests_of(world); send += 2) {
    const Side& one = world.side(RequestName{send});
    const Side& other = world.side(RequestName{send + 1});
    const auto matching = [](const Side& side) {
      return side.core != nullptr && side.core->state == core::Request::State::kMatching;
    };
    if (one.started != other.started || matching(one) || matching(other))
      return true;
  }
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank)
    for (const auto& queued : world.process(rank).streams)
      if (!queued->stream.empty() && queued->stream.front().kind == StepItem::Kind::kWait &&
          queued->stream.front().request == StepItem::kNothing)
        return true;
  return false;
}

// What the core does not know: where the program stands, and which operations wait at the card.
std::string engine_facts(const World& world, const Process& process) {
  std::string text = "\nrank " + std::to_string(process.rank);
  if (process.killed)
    return text + " was killed";
  if (process.gave_up)
    text += " was told of a failure and gave up";
  else if (has_ended(process))
    text += " has ended its program";
  else
    text += "'s program is at: " + world.describe(process.program[process.next_action]);
  const NicModel& model = process.nic.model();
  std::string waiting;
  uint32_t entries = 0;
  for (uint32_t counter = 0; counter < model.limits().max_counters; ++counter)
    for (auto entry = model.first_waiting({counter}); entry; entry = model.next_waiting(*entry))
      if (!World::is_mail(model.op_of(*entry)) && entries++ < kMostEntries)
        waiting += (waiting.empty() ? "\n  at its card wait: " : ", ") + world.describe(process, model.op_of(*entry)) +
                   " at " + std::to_string(model.read({counter}).value().reached()) + " of " +
                   std::to_string(model.threshold_of(*entry));
  text += waiting + (entries > kMostEntries ? " and " + std::to_string(entries - kMostEntries) + " more" : "");
  if (wants_entries(process))
    text += "\n  it wants an entry, and its card has " + std::to_string(process.nic.free_entries()) + " of " +
            std::to_string(model.limits().deferred_depth) + " free";
  return text;
}

// The stall reports of all ranks.
std::string reports(World& world) {
  std::string text;
  for (uint32_t rank = 0; rank < std::min(world.scenario().ranks(), kMostRanks); ++rank) {
    Process& process = world.process(rank);
    text += engine_facts(world, process);
    for (const auto& queued : process.streams) {
      if (process.killed || (queued->stream.empty() && queued->queue->first_under_way() == nullptr))
        continue;
      text += "\n  ";
      for (const char c : queued->queue->explain_stall())
        text += c == '\n' ? "\n  " : std::string(1, c);
    }
  }
  if (world.scenario().ranks() > kMostRanks)
    text += "\nand " + std::to_string(world.scenario().ranks() - kMostRanks) + " more ranks";
  return text;
}

std::optional<std::string> stuck_rank(const World& world) {
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank) {
    const Process& process = world.process(rank);
    if (process.killed)
      continue;
    if (std::optional<std::string> stuck = stuck_stream(world, process))
      return stuck;
    if (std::optional<std::string> stuck = stuck_match(world, process))
      return stuck;
  }
  return std::nullopt;
}

bool any_wants_entries(const World& world) {
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank)
    if (wants_entries(world.process(rank)))
      return true;
  return false;
}

}  // namespace

void explain_stall(World& world) {
  std::optional<std::string> stuck = stuck_message(world);
  if (!stuck)
    stuck = stuck_rank(world);
  const auto find = [&world](Finding finding, const std::string& cause) {
    world.find(finding, "liveness", cause + reports(world));
  };
  if (stuck)
    return find(Finding::kDeadlock, *stuck);
  if (anything_failed(world))
    return;
  if (any_wants_entries(world))
    return find(Finding::kDeadlock,
                "There are too few deferred-work entries, and they are not reserved for a whole start.");
  if (is_unmade(world))
    return find(
        Finding::kUser,
        "The program itself waits for a start or a match that it makes later or never; no network card could help.");
  find(Finding::kDeadlock, "something could go on, and does not");
}

}  // namespace lanyard::nicsim::oracle
