#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "nicsim/deterministic/oracles/oracles.h"

namespace lanyard::nicsim::oracle {

namespace {

constexpr uint32_t kMostRanks = 8, kMostEntries = 8;  // shown in a report

std::string name(const World& world, RequestName request, uint64_t iteration) {
  return fmt::format("({}) iteration {}", world.scenario().describe(request), iteration);
}

bool wants_entries(const Process& process) {
  const Action* next = next_action(process);
  return process.nic.posting() > 0 || (process.wants_room && next != nullptr && next->kind == Action::Kind::kStart);
}

uint64_t iterations_done(const Side& side) { return side.before + side.core->iterations_done(); }

bool has_failed(const World& world, const Side& side) {
  return side.failed > 0 || side.ever_released || world.is_killed(side.rank);
}

// True if both sides have started the iteration, and neither has failed or waits for entries.
bool may_complete(const World& world, RequestName request, uint64_t iteration) {
  for (const RequestName each : {request, request.other()}) {
    const Side& side = world.side(each);
    const bool ended = side.core != nullptr && side.core->exchange != nullptr && side.core->exchange->ended;
    if (side.started < iteration || has_failed(world, side) || ended || wants_entries(world.process(side.rank)))
      return false;
  }
  return true;
}

// True if the iteration of this request must complete. It waits for all members of its exchange and
// of its peers' exchanges, and for the other set if there are two.
bool must_complete(const World& world, RequestName request, uint64_t iteration) {
  bool must = true;
  const uint64_t of_other_set = iteration - (world.scenario().set(request) == 1 ? 1 : 0);
  world.for_each_merged(request.index, [&](uint32_t member) {
    for (const uint32_t side : {member, member ^ 1})
      world.for_each_merged(side, [&](uint32_t each) {
        must = must && may_complete(world, {each}, iteration);
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
  for (const RequestName request : requests_of(world)) {
    const Side& side = world.side(request);
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
    const char* why = side.core == nullptr                            ? "was freed"
                      : side.released && item.iteration > side.before ? "has failed, as the program was told"
                      : iterations_done(side) >= item.iteration       ? "has completed"
                                                                      : nullptr;
    if (why != nullptr)
      return fmt::format("a stream of rank {} waits for {}, which {}", process.rank,
                         name(world, {item.request}, item.iteration), why);
  }
  return std::nullopt;
}

// A host that waits for a match although both sides are there.
std::optional<std::string> stuck_match(const World& world, const Process& process) {
  const Action* next = next_action(process);
  if (next == nullptr || next->kind != Action::Kind::kMatched)
    return std::nullopt;
  for (const RequestName request : next->requests) {
    const Side& other = world.side(request.other());
    if (is_matching(world.side(request)) && other.core != nullptr &&
        other.core->state != core::Request::State::kFresh && !world.is_killed(other.rank))
      return fmt::format("({}) is there on both sides, and is not matched", world.scenario().describe(request));
  }
  return std::nullopt;
}

// True if a start, a match or a promise is missing.
bool is_unmade(const World& world) {
  const auto waits_for_promise = [](const auto& queued) {
    return !queued->stream.empty() && queued->stream.front().kind == StepItem::Kind::kWait &&
           queued->stream.front().request == StepItem::kNothing;
  };
  return any_of(requests_of(world),
                [&](RequestName request) {
                  const Side& side = world.side(request);
                  return is_matching(side) || side.started != world.side(request.other()).started;
                }) ||
         any_of(living(world),
                [&](const Process& process) { return std::ranges::any_of(process.streams, waits_for_promise); });
}

// Facts that the core does not know: the state of the program, and operations waiting at the card.
std::string engine_facts(const World& world, const Process& process) {
  std::string text = fmt::format("\nrank {}", process.rank);
  if (process.killed)
    return text + " was killed";
  if (process.gave_up)
    text += " was told of a failure and gave up";
  else if (const Action* next = next_action(process))
    text += "'s program is at: " + world.describe(*next);
  else
    text += " has ended its program";
  const NicModel& model = process.nic.model();
  uint32_t entries = 0;
  for (uint32_t counter = 0; counter < model.limits().max_counters; ++counter)
    for (auto entry = model.first_waiting({counter}); entry; entry = model.next_waiting(*entry))
      if (!World::is_mail(model.op_of(*entry)) && entries++ < kMostEntries)
        text += fmt::format("{}{} at {} of {}", entries == 1 ? "\n  at its card wait: " : ", ",
                            world.describe(process, model.op_of(*entry)), model.read({counter}).value().reached(),
                            model.threshold_of(*entry));
  if (entries > kMostEntries)
    text += fmt::format(" and {} more", entries - kMostEntries);
  if (wants_entries(process))
    text += fmt::format("\n  it wants an entry, and its card has {} of {} free", process.nic.free_entries(),
                        model.limits().deferred_depth);
  return text;
}

// The stall reports of the first kMostRanks ranks.
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
    text += fmt::format("\nand {} more ranks", world.scenario().ranks() - kMostRanks);
  return text;
}

// The first thing that could continue, and does not.
std::optional<std::string> stuck(const World& world) {
  std::optional<std::string> first = stuck_message(world);
  for (const Process& process : living(world)) {
    if (!first)
      first = stuck_stream(world, process);
    if (!first)
      first = stuck_match(world, process);
  }
  return first;
}

}  // namespace

void explain_stall(World& world) {
  const auto find = [&world](Finding finding, const std::string& cause) {
    world.find(finding, "liveness", cause + reports(world));
  };
  if (const std::optional<std::string> cause = stuck(world))
    return find(Finding::kDeadlock, *cause);
  if (any_of(requests_of(world), [&](RequestName request) { return has_failed(world, world.side(request)); }))
    return;
  if (any_of(living(world), wants_entries))
    return find(Finding::kDeadlock,
                "There are too few deferred-work entries, and they are not reserved for a whole start.");
  if (is_unmade(world))
    return find(
        Finding::kUser,
        "The program itself waits for a start or a match that it makes later or never; no network card could help.");
  find(Finding::kDeadlock, "something could go on, and does not");
}

}  // namespace lanyard::nicsim::oracle
