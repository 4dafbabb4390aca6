#include "nicsim/deterministic/shrink.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "nicsim/deterministic/explore.h"
#include "nicsim/deterministic/fuzz.h"
#include "nicsim/deterministic/smaller_programs.h"

namespace lanyard::nicsim {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kEntriesAStart = 2;
constexpr uint64_t kTriesPerWorkload = 20'000;
constexpr uint64_t kBreadthFirstStates = 300'000;
constexpr uint64_t kFinishingStates = 200'000;

bool same(const Report& a, const Report& b) { return a.finding == b.finding && std::strcmp(a.oracle, b.oracle) == 0; }

const Report& replay(World& world, const Schedule& schedule) {
  Replay replay(schedule);
  world.reset();
  return world.run(replay);
}

// ---- The workload

// Workloads that are smaller in one respect, the most promising first.
std::vector<Config> smaller(const Config& config) {
  std::vector<Config> all;
  const auto with = [&](auto change) {
    Config candidate = config;
    change(candidate);
    const std::string text = candidate.to_string();
    if (text != config.to_string() && Config::parse(text).ok())
      all.push_back(candidate);
  };
  if (config.program != nullptr)
    for (Scenario& smaller : smaller_programs(*config.program))
      with([&](Config& c) { c.program = std::make_shared<const Scenario>(std::move(smaller)); });
  with([](Config& c) { c.halo.ranks = std::min(c.halo.ranks, 2u); });
  with([](Config& c) { c.halo.neighbours = 1; });
  with([](Config& c) { c.halo.each_way = 1; });
  with([](Config& c) { c.halo.iterations = 1; });
  with([](Config& c) { c.halo.both_ways = c.halo.ranks == 1; });
  with([](Config& c) { c.halo.queues = 1; });
  with([](Config& c) { c.world.uneven = false; });
  with([](Config& c) {
    c.world.max_message_bytes = WorldOptions().max_message_bytes;
    c.world.uneven = false;
  });
  // Not to one rank, which would be smaller: what a rank does to itself is harder to read.
  with([](Config& c) { c.halo.ranks = c.halo.ranks > 2 ? c.halo.ranks - 1 : c.halo.ranks; });
  with([](Config& c) { c.halo.each_way = std::max(c.halo.each_way - 1, 1u); });
  with([](Config& c) { c.halo.iterations = std::max(c.halo.iterations - 1, 1u); });
  // Fewer entries for fewer requests: the want of them stays. But each request's start shall have room for itself.
  const auto fewer = [](uint32_t depth, uint32_t less) {
    return depth <= kEntriesAStart ? depth : std::max(less, kEntriesAStart);
  };
  with([&](Config& c) {
    c.halo.each_way = std::max(c.halo.each_way / 2, 1u);
    c.world.depth = fewer(c.world.depth, c.world.depth / 2);
  });
  with([&](Config& c) {
    c.halo.ranks = std::min(c.halo.ranks, 2u);
    c.world.depth = fewer(c.world.depth, c.world.depth / 2);
  });
  with([&](Config& c) { c.world.depth = fewer(c.world.depth, c.world.depth - 1); });
  with([](Config& c) { c.halo.sync = false; });
  with([](Config& c) { c.halo.startall = true; });
  with([](Config& c) { c.halo.sends_first = false; });
  with([](Config& c) { c.halo.ready = false; });
  with([](Config& c) { c.world.failures = false; });
  with([](Config& c) { c.world.lost_rings = false; });
  with([](Config& c) { c.world.no_room = false; });
  with([](Config& c) { c.world.scarce = false; });
  with([](Config& c) { c.world.stale_reads = false; });
  with([](Config& c) { c.world.frozen_reads = false; });
  with([](Config& c) { c.world.late_events = false; });
  with([](Config& c) { c.world.stolen_entries = false; });
  with([](Config& c) { c.world.kills = false; });
  with([](Config& c) { c.world.mail_by_card = false; });
  with([](Config& c) { c.world.early_acks = false; });
  with([](Config& c) { c.world.torn = false; });
  with([](Config& c) { c.world.slow = false; });
  with([](Config& c) { c.world.in_order = false; });
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

// Keeps the better of two runs to the finding: fewer steps; of as many, fewer deviations.
class Best {
 public:
  Best(World& world, const Report& wanted) : world_(world), wanted_(wanted) {}

  // Whether the schedule leads to the finding, in no more steps than `most`.
  bool leads(const Schedule& schedule, uint64_t most) {
    const Report& report = replay(world_, schedule);
    return same(report, wanted_) && report.step <= most;
  }
  uint64_t steps(const Schedule& schedule) { return replay(world_, schedule).step; }

 private:
  World& world_;
  const Report& wanted_;
};

// Sets choices to 0 as long as the finding stays, in runs of halving length.
void drop_deviations(Best& best, Schedule& schedule, uint64_t most, Clock::time_point end) {
  for (size_t length = std::max<size_t>(schedule.size() / 2, 1);; length /= 2) {
    for (size_t begin = 0; begin < schedule.size() && Clock::now() < end; begin += length) {
      Schedule candidate = schedule;
      const auto first = candidate.begin() + static_cast<ptrdiff_t>(begin);
      const auto last = candidate.begin() + static_cast<ptrdiff_t>(std::min(begin + length, candidate.size()));
      if (std::all_of(first, last, [](uint32_t choice) { return choice == 0; }))
        continue;
      std::fill(first, last, 0);
      if (best.leads(candidate, most))
        schedule = std::move(candidate);
    }
    if (length <= 1)
      break;
  }
  while (!schedule.empty() && schedule.back() == 0)
    schedule.pop_back();
}

// Notes how many alternatives each choice of a run had.
class Width final : public Chooser {
 public:
  Width(const Schedule& schedule, std::vector<uint32_t>& widths) : replay_(schedule), widths_(widths) {
    widths_.clear();
  }
  uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) override {
    const Arena::Outside outside;
    widths_.push_back(n);
    return replay_.choose(n, kind, agents);
  }

 private:
  Replay replay_;
  std::vector<uint32_t>& widths_;
};

// All schedules with up to `most` deviations from `base` behind its choice number `from`: the shortest run to the
// finding.
void try_deviations(World& world, const Report& wanted, const Schedule& base, size_t from, uint32_t most,
                    Clock::time_point end, std::optional<Schedule>& found, uint64_t& steps) {
  std::vector<uint32_t> widths;
  Width width(base, widths);
  world.reset();
  const Report& report = world.run(width);
  if (same(report, wanted) && report.step < steps) {
    steps = report.step;
    found = base;
  }
  if (most == 0)
    return;
  for (size_t at = from; at < widths.size() && Clock::now() < end; ++at) {
    for (uint32_t choice = 1; choice < widths[at]; ++choice) {
      Schedule longer = base;
      longer.resize(at + 1, 0);
      longer[at] = choice;
      try_deviations(world, wanted, longer, at + 1, most - 1, end, found, steps);
    }
  }
}

void shrink_schedule(Shrunk& shrunk, World& world, Clock::time_point end) {
  Best best(world, shrunk.report);
  drop_deviations(best, shrunk.schedule, UINT64_MAX, end);

  world.reset();
  if (Result<Exploration> search = explore(world, {.breadth_first = true, .max_states = kBreadthFirstStates});
      search.ok() && same(search.value().report, shrunk.report)) {
    shrunk.shortest = search.value().report.step;
    // The breadth-first run is as short as can be and goes zigzag; one with few deviations may be longer by a fifth.
    const uint64_t most = shrunk.shortest + shrunk.shortest / 5;
    Schedule shortest = std::move(search.value().schedule);
    drop_deviations(best, shortest, most, end);
    if (best.steps(shrunk.schedule) > most || deviations(shortest) < deviations(shrunk.schedule))
      shrunk.schedule = std::move(shortest);
  }
  // Few deviations, all combinations: the fewest that do, and of these the shortest run.
  for (uint32_t most = 0; most < deviations(shrunk.schedule) && Clock::now() < end; ++most) {
    std::optional<Schedule> found;
    uint64_t steps = shrunk.shortest > 0 ? shrunk.shortest + shrunk.shortest / 5 + 1 : UINT64_MAX;
    try_deviations(world, shrunk.report, {}, 0, most, end, found, steps);
    if (found) {
      shrunk.schedule = std::move(*found);
      break;
    }
  }
}

// ---- The critical step

// Whether some run finishes from the world's present state; none where the search did not get through.
std::optional<bool> can_finish(World& world) {
  Result<Exploration> search = explore(world, {.until_good_end = true, .max_states = kFinishingStates});
  if (!search.ok())
    return std::nullopt;
  if (search.value().good_end)
    return true;
  return search.value().complete ? std::optional(false) : std::nullopt;
}

// Once no run finishes any more, none will: so the step can be found by halving.
uint64_t critical_step(const Shrunk& shrunk, World& world, Clock::time_point end) {
  uint64_t good = 0, bad = shrunk.report.step;
  const auto judge = [&](uint64_t steps) {
    Replay replay(shrunk.schedule);
    world.reset();
    for (uint64_t step = 0; step < steps; ++step)
      world.step(replay);
    return can_finish(world);
  };
  const std::optional<bool> at_all = judge(0);
  if (!at_all)
    return Shrunk::kUnknown;
  if (!*at_all)
    return 0;
  while (bad - good > 1) {
    const uint64_t middle = good + (bad - good) / 2;
    const std::optional<bool> fine = Clock::now() < end ? judge(middle) : std::nullopt;
    if (!fine)
      return Shrunk::kUnknown;
    (*fine ? good : bad) = middle;
  }
  return bad;
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
  shrunk.critical_step = critical_step(shrunk, world, Clock::now() + options.time);
  return shrunk;
}

}  // namespace lanyard::nicsim
