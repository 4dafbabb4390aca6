#include "nicsim/deterministic/fuzz.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nicsim/deterministic/explore.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

const Report& replay(World& world, const Schedule& schedule) {
  Replay replay(schedule);
  world.reset();
  return world.run(replay);
}

}  // namespace

Fuzzer::Fuzzer(const Scenario& scenario, const WorldOptions& options) : world_(scenario, options) {
  replay(world_, {});  // for the approximate number of steps
  const uint64_t steps = world_.steps();
  for (uint32_t kind = 0; kind < kSchedulerKinds; ++kind)
    schedulers_[kind] = make_scheduler(static_cast<SchedulerKind>(kind), world_, steps);
}

Scheduler& Fuzzer::begin(uint64_t seed) {
  Scheduler& scheduler = *schedulers_[seed % kSchedulerKinds];
  scheduler.begin(seed);
  world_.reset();
  return scheduler;
}

Schedule Fuzzer::record(uint64_t seed) {
  Recorder recorder(begin(seed));
  world_.run(recorder);
  return recorder.take();
}

bool Fuzzer::repeats(uint64_t seed) {
  const uint64_t hash = world_.trace_hash(), steps = world_.steps();
  run(seed);
  return world_.trace_hash() == hash && world_.steps() == steps;
}

Verdict fuzz(const Scenario& scenario, const FuzzOptions& options) {
  constexpr uint64_t kRunsPerRepeat = 64;
  LANYARD_CHECK(scenario.validate().ok(), scenario.validate().message().c_str());
  Fuzzer fuzzer(scenario, options.world);
  Verdict verdict;
  for (; verdict.schedules < options.schedules && verdict.ok(); ++verdict.schedules) {
    verdict.seed = options.seed + verdict.schedules;
    verdict.report = fuzzer.run(verdict.seed);
    if (verdict.ok() && verdict.schedules % kRunsPerRepeat == 0 && !fuzzer.repeats(verdict.seed))
      verdict.report = {Finding::kNondeterminism, "determinism", "the same seed gave two different runs", 0};
  }
  if (!verdict.ok())
    verdict.schedule = fuzzer.record(verdict.seed);
  return verdict;
}

// ---- Shrinking

namespace {

using Clock = std::chrono::steady_clock;
using Kind = Action::Kind;

constexpr uint64_t kTriesPerWorkload = 20'000;
constexpr uint64_t kBreadthFirstStates = 300'000;

bool same(const Report& a, const Report& b) { return a.finding == b.finding && std::strcmp(a.oracle, b.oracle) == 0; }

// ---- Smaller programs

bool concerns(const Action& action, RequestName request) {
  return is_of_message(action.kind) ? action.side() == request
                                    : std::ranges::find(action.requests, request) != action.requests.end();
}

std::array<RequestName, 2> sides_of(uint32_t message) { return {RequestName{2 * message}, {2 * message + 1}}; }

const std::vector<Action>& actions_of(const Scenario& scenario, RequestName request) {
  return scenario.program(scenario.rank_of(request)).actions();
}

// Removes the request from the actions that `which` selects, and actions that have no request left.
template <typename Which>
void drop(Scenario& scenario, RequestName request, Which which) {
  size_t place = 0;
  std::erase_if(scenario.rank(scenario.rank_of(request)).actions(), [&](Action& action) {
    if (!which(place++, action) || !concerns(action, request))
      return false;
    std::erase(action.requests, request);
    return action.requests.empty();
  });
}

// Returns the scenario with `ranks` ranks and without an unused message. Later messages move up.
Scenario rebuilt(const Scenario& scenario, uint32_t ranks, uint32_t without) {
  Scenario smaller(ranks);
  for (uint32_t i = 0; i < scenario.messages().size(); ++i)
    if (const auto& [from, to, options] = scenario.messages()[i]; i != without)
      smaller.message(from, to, options);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (Action action : scenario.program(rank).actions()) {
      action.message -= action.message > without ? 1 : 0;
      for (RequestName& request : action.requests)
        request.index -= request.message() > without ? 2 : 0;
      smaller.rank(rank).on(action.queue).actions().push_back(std::move(action));
    }
  }
  return smaller;
}

Scenario without_message(Scenario scenario, uint32_t message) {
  for (const RequestName request : sides_of(message))
    drop(scenario, request, [](size_t, const Action&) { return true; });
  return rebuilt(scenario, scenario.ranks(), message);
}

// Removes what both sides do with the message from its last start on, but keeps frees and matches.
std::optional<Scenario> without_last_start(const Scenario& scenario, uint32_t message) {
  Scenario smaller = scenario;
  for (const RequestName request : sides_of(message)) {
    const std::vector<Action>& actions = actions_of(scenario, request);
    // The actions that prepare the start: the last of each kind before it.
    std::optional<size_t> start, pack, await;
    for (size_t place = actions.size(); place-- > 0;) {
      const Kind kind = actions[place].kind;
      if (!concerns(actions[place], request))
        continue;
      if (!start && kind == Kind::kStart && !actions[place].refused)
        start = place;
      if (start && !pack && kind == Kind::kPack)
        pack = place;
      if (start && !await && kind == Kind::kAwait)
        await = place;
    }
    if (!start)
      return std::nullopt;
    drop(smaller, request, [&](size_t place, const Action& action) {
      const bool freed = action.kind == Kind::kFree || action.kind == Kind::kMatch || action.kind == Kind::kMatched;
      return place == pack || place == await || (place >= *start && !freed);
    });
  }
  return smaller;
}

Scenario without_kernels(Scenario scenario, uint32_t message) {
  for (const RequestName request : sides_of(message))
    drop(scenario, request,
         [](size_t, const Action& action) { return action.kind == Kind::kPack || action.kind == Kind::kUnpack; });
  return scenario;
}

// Returns programs that are smaller in one respect, the most promising first. They lack a message,
// an idle last rank, the last start of a message, its kernels, a call that must be refused, or a
// kSync. Each is valid, and both sides of a message lose the same.
std::vector<Scenario> smaller_programs(const Scenario& scenario) {
  std::vector<Scenario> all;
  const auto add = [&](std::optional<Scenario> smaller) {
    if (smaller && smaller->validate().ok() && smaller->to_string() != scenario.to_string())
      all.push_back(std::move(*smaller));
  };
  const auto messages = static_cast<uint32_t>(scenario.messages().size());
  const uint32_t last = scenario.ranks() - 1;
  for (uint32_t message = 0; message < messages && messages > 1; ++message)
    add(without_message(scenario, message));
  if (last > 0 && std::ranges::none_of(scenario.messages(), [last](const Scenario::Message& message) {
        return message.from == last || message.to == last;
      }))
    add(rebuilt(scenario, last, UINT32_MAX));
  for (uint32_t message = 0; message < messages; ++message)
    add(without_last_start(scenario, message));
  for (uint32_t message = 0; message < messages; ++message)
    add(without_kernels(scenario, message));
  for (uint32_t rank = 0; rank < scenario.ranks(); ++rank) {
    const std::vector<Action>& actions = scenario.program(rank).actions();
    for (size_t place = 0; place < actions.size(); ++place) {
      if (!actions[place].refused && actions[place].kind != Kind::kSync)
        continue;
      Scenario smaller = scenario;
      std::vector<Action>& rest = smaller.rank(rank).actions();
      rest.erase(rest.begin() + static_cast<ptrdiff_t>(place));
      add(std::move(smaller));
    }
  }
  return all;
}

// ---- The workload

// Returns workloads that are smaller in one respect, the most promising first.
std::vector<Config> smaller(const Config& config) {
  std::vector<Config> all;
  if (config.program != nullptr)
    for (Scenario& program : smaller_programs(*config.program)) {
      all.push_back(config);
      all.back().program = std::make_shared<const Scenario>(std::move(program));
    }
  for (Config& simpler : config.simpler())
    all.push_back(std::move(simpler));
  return all;
}

// Returns a schedule of the workload with the finding, if it finds one before `end`.
std::optional<Schedule> find_in(const Config& config, const Report& wanted, Clock::time_point end) {
  const Scenario scenario = config.scenario();
  Fuzzer fuzzer(scenario, config.world);
  for (uint64_t seed = 0; seed < kTriesPerWorkload && Clock::now() < end; ++seed)
    if (same(fuzzer.run(seed), wanted))
      return fuzzer.record(seed);
  return std::nullopt;
}

// Goes to a smaller workload with the finding. Returns false if none is found.
bool shrink_workload(Shrunk& shrunk, Clock::time_point end) {
  for (const Config& candidate : smaller(shrunk.config))
    if (std::optional<Schedule> schedule = find_in(candidate, shrunk.report, end)) {
      shrunk.config = candidate;
      shrunk.schedule = std::move(*schedule);
      return true;
    }
  return false;
}

// ---- The schedule

// Sets runs of choices to 0, long runs first, if the finding stays and takes at most `most` steps.
void drop_deviations(World& world, const Report& wanted, Schedule& schedule, uint64_t most, Clock::time_point end) {
  for (size_t length = std::max<size_t>(schedule.size() / 2, 1);; length /= 2) {
    for (size_t begin = 0; begin < schedule.size() && Clock::now() < end; begin += length) {
      Schedule candidate = schedule;
      const auto first = candidate.begin() + static_cast<ptrdiff_t>(begin);
      const auto last = candidate.begin() + static_cast<ptrdiff_t>(std::min(begin + length, candidate.size()));
      if (std::count(first, last, 0u) == last - first)
        continue;
      std::fill(first, last, 0);
      if (const Report& report = replay(world, candidate); same(report, wanted) && report.step <= most)
        schedule = std::move(candidate);
    }
    if (length <= 1)
      break;
  }
  while (!schedule.empty() && schedule.back() == 0)
    schedule.pop_back();
}

void shrink_schedule(Shrunk& shrunk, World& world, Clock::time_point end) {
  drop_deviations(world, shrunk.report, shrunk.schedule, UINT64_MAX, end);
  world.reset();
  Result<Exploration> search = explore(world, {.breadth_first = true, .max_states = kBreadthFirstStates});
  if (!search.ok() || !same(search.value().report, shrunk.report))
    return;
  shrunk.shortest = search.value().report.step;
  // The shortest run switches agents often. A run with few deviations may be a fifth longer.
  const uint64_t most = shrunk.shortest + shrunk.shortest / 5;
  Schedule shortest = std::move(search.value().schedule);
  drop_deviations(world, shrunk.report, shortest, most, end);
  if (replay(world, shrunk.schedule).step > most || deviations(shortest) < deviations(shrunk.schedule))
    shrunk.schedule = std::move(shortest);
}

}  // namespace

Shrunk shrink(const Config& config, const Schedule& schedule, std::chrono::nanoseconds time) {
  Shrunk shrunk;
  shrunk.config = config;
  shrunk.schedule = schedule;
  {
    const Scenario scenario = config.scenario();
    World world(scenario, config.world);
    shrunk.report = replay(world, schedule);
  }
  for (const auto end = Clock::now() + time; Clock::now() < end && shrink_workload(shrunk, end);) {
  }
  const Scenario scenario = shrunk.config.scenario();
  World world(scenario, shrunk.config.world);
  shrink_schedule(shrunk, world, Clock::now() + time);
  shrunk.report = replay(world, shrunk.schedule);
  return shrunk;
}

}  // namespace lanyard::nicsim
