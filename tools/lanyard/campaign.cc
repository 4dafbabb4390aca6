#include "tools/lanyard/campaign.h"

#include <algorithm>
#include <thread>

#include "transport/base/check.h"

namespace lanyard::tools {

namespace {

using std::chrono::steady_clock;

constexpr uint64_t kSchedulesPerTurn = 64;  // the first of which is run again
constexpr uint64_t kRemembered = uint64_t{1} << 22;
constexpr size_t kWorlds = 200;  // a process has address space for 256 at a time

}  // namespace

Campaign::Campaign(const CampaignOptions& options)
    : options_(options),
      most_worlds_(static_cast<uint32_t>(kWorlds / std::clamp<size_t>(options.configs.size(), 1, kWorlds))),
      seen_(kRemembered) {
  LANYARD_CHECK(!options.configs.empty() && options.jobs >= 1 && options.jobs <= kMostJobs, "as the options say");
  const uint64_t each = options.schedules / options.configs.size(), rest = options.schedules % options.configs.size();
  for (const nicsim::Config& config : options.configs) {
    courses_.push_back(std::make_unique<Course>(config, courses_.size()));
    if (options.schedules > 0)
      courses_.back()->quota = each + (courses_.size() <= rest ? 1 : 0);
  }
}

Campaign::~Campaign() = default;

std::optional<Discovery> Campaign::run(std::chrono::nanoseconds period,
                                       const std::function<void(const Progress&)>& look) {
  working_ = options_.jobs;
  std::vector<std::jthread> threads;
  for (uint32_t job = 0; job < options_.jobs; ++job)
    threads.emplace_back([this] { work(); });
  const auto end = options_.time.count() > 0 ? begin_ + options_.time : steady_clock::time_point::max();
  auto next_look = begin_ + period;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_until(lock, std::min(end, next_look), [this] { return working_ == 0; })) {
    const auto now = steady_clock::now();
    if (now >= end)
      break;
    if (now < next_look)
      continue;
    next_look = now + period;
    lock.unlock();
    look(progress());
    lock.lock();
  }
  lock.unlock();
  stop_ = true;
  threads.clear();
  return std::move(discovery_);
}

Progress Campaign::progress() const {
  const std::lock_guard lock(mutex_);
  Progress progress = progress_;
  progress.seconds = std::chrono::duration<double>(steady_clock::now() - begin_).count();
  progress.different_runs = seen_.count();
  progress.more_runs = seen_.full();
  return progress;
}

void Campaign::work() {
  while (std::optional<Turn> turn = begin_turn()) {
    const auto begin = steady_clock::now();
    if (turn->fuzzer == nullptr)
      turn->fuzzer =
          std::make_unique<nicsim::Fuzzer>(turn->course->exchange, turn->course->config.world, options_.schedulers);
    run_turn(*turn);
    end_turn(*turn, steady_clock::now() - begin);
  }
  const std::lock_guard lock(mutex_);
  --working_;
  changed_.notify_all();
}

std::optional<Campaign::Turn> Campaign::begin_turn() {
  const std::lock_guard lock(mutex_);
  Course* course = nullptr;
  // The course that had the least time; of those, one at which fewer are.
  const auto behind = [](const Course& a, const Course& b) {
    return a.busy != b.busy ? a.busy < b.busy : a.spent < b.spent;
  };
  for (const auto& candidate : courses_)
    if (candidate->next < candidate->quota && candidate->busy < most_worlds_ &&
        (course == nullptr || behind(*candidate, *course)))
      course = candidate.get();
  if (course == nullptr || stop_)
    return std::nullopt;
  Turn turn;
  turn.course = course;
  turn.first = course->next;
  turn.count = std::min(kSchedulesPerTurn, course->quota - course->next);
  course->next += turn.count;
  ++course->busy;
  if (!course->idle.empty()) {
    turn.fuzzer = std::move(course->idle.back());
    course->idle.pop_back();
  }
  return turn;
}

void Campaign::end_turn(Turn& turn, std::chrono::nanoseconds took) {
  const std::lock_guard lock(mutex_);
  turn.course->spent += took;
  --turn.course->busy;
  turn.course->idle.push_back(std::move(turn.fuzzer));
  progress_.schedules += turn.done;
  progress_.steps += turn.steps;
  progress_.coverage += turn.coverage;
}

void Campaign::run_turn(Turn& turn) {
  nicsim::World& world = turn.fuzzer->world();
  for (uint64_t i = 0; i < turn.count && !stop_.load(std::memory_order_relaxed); ++i) {
    const uint64_t seed = options_.seed + turn.first + i;
    nicsim::Report report = turn.fuzzer->run(seed);
    ++turn.done;
    turn.steps += world.steps();
    // The same steps are another run in another configuration.
    seen_.insert(world.trace_hash() ^ turn.course->number * 0x9e3779b97f4a7c15u);
    if (report.ok() && i == 0)
      report = repeat(turn, seed);
    if (!report.ok())
      return discover(turn, seed, report);
  }
}

nicsim::Report Campaign::repeat(Turn& turn, uint64_t seed) {
  nicsim::World& world = turn.fuzzer->world();
  const uint64_t hash = world.trace_hash(), steps = world.steps();
  const auto same = [&] { return world.trace_hash() == hash && world.steps() == steps; };
  const nicsim::Schedule schedule = turn.fuzzer->record(seed);
  if (!same())
    return {nicsim::Finding::kNondeterminism, "determinism", "the same seed gave two different runs", 0};
  turn.coverage.add(world, schedule);
  if (!same())
    return {nicsim::Finding::kNondeterminism, "determinism", "a run and the replay of its schedule differ", 0};
  return {};
}

void Campaign::discover(Turn& turn, uint64_t seed, const nicsim::Report& report) {
  stop_ = true;
  Discovery discovery{turn.course->config, report, turn.fuzzer->scheduler_of(seed), seed, turn.fuzzer->record(seed)};
  turn.coverage.add(turn.fuzzer->world(), discovery.schedule);
  const std::lock_guard lock(mutex_);
  if (!discovery_)
    discovery_ = std::move(discovery);
}

}  // namespace lanyard::tools
