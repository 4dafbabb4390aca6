#include "nicsim/deterministic/shrink.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nicsim/deterministic/explore.h"
#include "nicsim/deterministic/fuzz.h"

namespace lanyard::nicsim {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kTriesPerWorkload = 20'000;
constexpr uint64_t kBreadthFirstStates = 300'000;

bool same(const Report& a, const Report& b) { return a.finding == b.finding && std::strcmp(a.oracle, b.oracle) == 0; }

const Report& replay(World& world, const Schedule& schedule) {
  Replay replay(schedule);
  world.reset();
  return world.run(replay);
}

// ---- Smaller programs

using Kind = Action::Kind;

bool is_kernel(const Action& action) { return action.kind == Kind::kPack || action.kind == Kind::kUnpack; }
bool of_message(const Action& action) { return is_of_message(action.kind); }
bool names(const Action& action, RequestName request) {
  return std::find(action.requests.begin(), action.requests.end(), request) != action.requests.end();
}
// Whether the action is about that side of that message.
bool concerns(const Action& action, RequestName request) {
  if (!of_message(action))
    return names(action, request);
  const bool by_receiver = action.kind == Kind::kUnpack || action.kind == Kind::kPromise;
  return action.message == request.message() && by_receiver == request.receive();
}

// Takes the side out of the action; an action about nobody goes.
bool take_out(Action& action, RequestName request) {
  if (of_message(action))
    return true;
  std::erase(action.requests, request);
  return action.requests.empty();
}

template <typename Which>
void drop(Scenario& scenario, RequestName request, Which which) {
  std::vector<Action>& actions = scenario.rank(scenario.rank_of(request)).actions();
  size_t place = 0;
  std::erase_if(actions, [&](Action& action) {
    return which(place++, action) && concerns(action, request) && take_out(action, request);
  });
}

const std::vector<Action>& actions_of(const Scenario& scenario, RequestName request) {
  return scenario.program(scenario.rank_of(request)).actions();
}

// The place of the last action of that kind about the request that is no mistake.
std::optional<size_t> last(const Scenario& scenario, RequestName request, Kind kind) {
  const std::vector<Action>& actions = actions_of(scenario, request);
  for (size_t place = actions.size(); place-- > 0;)
    if (actions[place].kind == kind && !actions[place].refused && names(actions[place], request))
      return place;
  return std::nullopt;
}

// Without the message: names of those behind it move up.
Scenario without_message(const Scenario& scenario, uint32_t message) {
  Scenario smaller(scenario.ranks());
  for (uint32_t i = 0; i < scenario.messages().size(); ++i)
    if (i != message)
      smaller.message(scenario.messages()[i].from, scenario.messages()[i].to, scenario.messages()[i].options);
  Scenario rest = scenario;
  for (const RequestName request : {RequestName{2 * message}, RequestName{2 * message + 1}})
    drop(rest, request, [](size_t, const Action&) { return true; });
  for (uint32_t rank = 0; rank < scenario.ranks(); ++rank) {
    for (Action action : rest.program(rank).actions()) {
      if (of_message(action) && action.message > message)
        --action.message;
      for (RequestName& request : action.requests)
        request.index -= request.message() > message ? 2 : 0;
      smaller.rank(rank).on(action.queue).actions().push_back(std::move(action));
    }
  }
  return smaller;
}

// Without what both sides do with the message from its last start on, up to where it is freed.
std::optional<Scenario> without_last_start(const Scenario& scenario, uint32_t message) {
  Scenario smaller = scenario;
  for (const RequestName request : {RequestName{2 * message}, RequestName{2 * message + 1}}) {
    const std::optional<size_t> start = last(scenario, request, Kind::kStart);
    if (!start)
      return std::nullopt;
    const std::vector<Action>& actions = actions_of(scenario, request);
    // What prepares the start stands before it: the last of each kind.
    std::optional<size_t> pack, await;
    for (size_t place = 0; place < *start; ++place) {
      if (concerns(actions[place], request) && actions[place].kind == Kind::kPack)
        pack = place;
      if (concerns(actions[place], request) && actions[place].kind == Kind::kAwait)
        await = place;
    }
    drop(smaller, request, [&](size_t place, const Action& action) {
      const bool freed = action.kind == Kind::kFree || action.kind == Kind::kMatch || action.kind == Kind::kMatched;
      return place == pack || place == await || (place >= *start && !freed);
    });
  }
  return smaller;
}

Scenario without_kernels(const Scenario& scenario, uint32_t message) {
  Scenario smaller = scenario;
  for (const RequestName request : {RequestName{2 * message}, RequestName{2 * message + 1}})
    drop(smaller, request, [](size_t, const Action& action) { return is_kernel(action); });
  return smaller;
}

std::optional<Scenario> without_last_rank(const Scenario& scenario) {
  const uint32_t rank = scenario.ranks() - 1;
  for (const Scenario::Message& message : scenario.messages())
    if (message.from == rank || message.to == rank)
      return std::nullopt;
  Scenario smaller(rank);
  for (const Scenario::Message& message : scenario.messages())
    smaller.message(message.from, message.to, message.options);
  for (uint32_t each = 0; each < rank; ++each)
    for (const Action& action : scenario.program(each).actions())
      smaller.rank(each).on(action.queue).actions().push_back(action);
  return smaller;
}

// Programs that are smaller in one respect, the most promising first: without a message, or a rank that does nothing;
// without the last start of a message, or its kernels; without a call that must be refused, or a wait of the host's.
// Each is valid and balanced: what is left out is left out on both sides of a message.
std::vector<Scenario> smaller_programs(const Scenario& scenario) {
  std::vector<Scenario> all;
  const auto add = [&](std::optional<Scenario> smaller) {
    if (smaller && smaller->validate().ok() && smaller->to_string() != scenario.to_string())
      all.push_back(std::move(*smaller));
  };
  const auto messages = static_cast<uint32_t>(scenario.messages().size());
  for (uint32_t message = 0; message < messages && messages > 1; ++message)
    add(without_message(scenario, message));
  if (scenario.ranks() > 1)
    add(without_last_rank(scenario));
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

// Workloads that are smaller in one respect, the most promising first.
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

// A schedule of that workload with that finding.
std::optional<Schedule> find_in(const Config& config, const Report& wanted, Clock::time_point end) {
  const Scenario scenario = config.scenario();
  Fuzzer fuzzer(scenario, config.world, {});
  for (uint64_t seed = 0; seed < kTriesPerWorkload && Clock::now() < end; ++seed)
    if (same(fuzzer.run(seed), wanted))
      return fuzzer.record(seed);
  return std::nullopt;
}

void shrink_workload(Shrunk& shrunk, Clock::time_point end) {
  for (bool progress = true; progress && Clock::now() < end;) {
    progress = false;
    for (const Config& candidate : smaller(shrunk.config)) {
      std::optional<Schedule> schedule = find_in(candidate, shrunk.report, end);
      if (!schedule)
        continue;
      shrunk.config = candidate;
      shrunk.schedule = std::move(*schedule);
      progress = true;
      break;
    }
  }
}

// ---- The schedule

// Whether the schedule leads to the finding, in no more steps than `most`.
bool leads(World& world, const Report& wanted, const Schedule& schedule, uint64_t most) {
  const Report& report = replay(world, schedule);
  return same(report, wanted) && report.step <= most;
}

// Sets choices to 0 as long as the finding stays, in runs of halving length.
void drop_deviations(World& world, const Report& wanted, Schedule& schedule, uint64_t most, Clock::time_point end) {
  for (size_t length = std::max<size_t>(schedule.size() / 2, 1);; length /= 2) {
    for (size_t begin = 0; begin < schedule.size() && Clock::now() < end; begin += length) {
      Schedule candidate = schedule;
      const auto first = candidate.begin() + static_cast<ptrdiff_t>(begin);
      const auto last = candidate.begin() + static_cast<ptrdiff_t>(std::min(begin + length, candidate.size()));
      if (std::all_of(first, last, [](uint32_t choice) { return choice == 0; }))
        continue;
      std::fill(first, last, 0);
      if (leads(world, wanted, candidate, most))
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
  // The breadth-first run is as short as can be and goes zigzag; one with few deviations may be longer by a fifth.
  const uint64_t most = shrunk.shortest + shrunk.shortest / 5;
  Schedule shortest = std::move(search.value().schedule);
  drop_deviations(world, shrunk.report, shortest, most, end);
  if (replay(world, shrunk.schedule).step > most || deviations(shortest) < deviations(shrunk.schedule))
    shrunk.schedule = std::move(shortest);
}

}  // namespace

Shrunk shrink(const Config& config, const Schedule& schedule, const ShrinkOptions& options) {
  Shrunk shrunk;
  shrunk.config = config;
  shrunk.schedule = schedule;
  {
    const Scenario scenario = config.scenario();
    World world(scenario, config.world);
    shrunk.report = replay(world, schedule);
  }
  shrink_workload(shrunk, Clock::now() + options.time);
  const Scenario scenario = shrunk.config.scenario();
  World world(scenario, shrunk.config.world);
  shrink_schedule(shrunk, world, Clock::now() + options.time);
  shrunk.report = replay(world, shrunk.schedule);
  return shrunk;
}

}  // namespace lanyard::nicsim
