#include "tools/lanyard/campaign.h"

#include <algorithm>
#include <string>
#include <thread>

#include "nicsim/deterministic/config.h"
#include "transport/base/check.h"

namespace lanyard::tools {

namespace {

using std::chrono::steady_clock;

constexpr uint64_t kSchedulesPerBatch = 64;  // the first of them is repeated
constexpr size_t kRemembered = 1'000'000;    // runs
constexpr std::chrono::nanoseconds kLongestFixedTime = std::chrono::minutes(1);
// A process has address space for 256 worlds: these, and two for each job.
constexpr size_t kWorlds = 120;

}  // namespace

Campaign::Campaign(const CampaignOptions& options)
    : options_(options),
      most_worlds_(static_cast<uint32_t>(kWorlds / std::clamp<size_t>(options.configs.size() + 1, 1, kWorlds))),
      fixed_time_(options.configs.empty() || !options.random_programs ? std::chrono::nanoseconds(0)
                                                                      : std::min(kLongestFixedTime, options.time / 3)) {
  LANYARD_CHECK((!options.configs.empty() || options.random_programs) && options.jobs >= 1 && options.jobs <= kMostJobs,
                "a campaign needs configurations or random programs, and 1 to 64 jobs");
  const uint64_t of_random = !options.random_programs  ? 0
                             : options.configs.empty() ? options.schedules
                                                       : options.schedules / 2;
  const uint64_t count = std::max<size_t>(options.configs.size(), 1);
  const uint64_t each = (options.schedules - of_random) / count, rest = (options.schedules - of_random) % count;
  for (const nicsim::Config& config : options.configs) {
    Target& target = *targets_.emplace_back(std::make_unique<Target>());
    target.workload = std::make_shared<const Workload>(config, targets_.size());
    if (options.schedules > 0)
      target.quota = each + (targets_.size() <= rest ? 1 : 0);
  }
  if (!options.random_programs)
    return;
  Target& target = *targets_.emplace_back(std::make_unique<Target>());
  if (options.schedules > 0)
    target.quota = of_random;
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
  progress.different_runs = seen_.size();
  return progress;
}

void Campaign::work() {
  while (std::optional<Batch> batch = begin_batch()) {
    const auto begin = steady_clock::now();
    if (batch->workload == nullptr) {
      const uint64_t program = options_.seed + batch->first / kSchedulesPerBatch;
      batch->workload = std::make_shared<const Workload>(nicsim::random_config(program), ~program);
    }
    if (batch->fuzzer == nullptr)
      batch->fuzzer = std::make_unique<nicsim::Fuzzer>(batch->workload->scenario, batch->workload->config.world,
                                                       options_.schedulers);
    run_batch(*batch);
    end_batch(*batch, steady_clock::now() - begin);
  }
  const std::lock_guard lock(mutex_);
  --working_;
  changed_.notify_all();
}

// Returns the target with the fewest working threads; among equals, the one with the least time so
// far. With a time limit, random programs replace the configurations when fixed_time_ has passed.
Campaign::Target* Campaign::next_target() {
  const bool by_time = options_.schedules == 0 && options_.random_programs;
  const bool random_now = by_time && steady_clock::now() - begin_ >= fixed_time_;
  Target* next = nullptr;
  const auto behind = [](const Target& a, const Target& b) {
    return a.busy != b.busy ? a.busy < b.busy : a.spent < b.spent;
  };
  for (const auto& candidate : targets_) {
    if (by_time && (candidate->workload == nullptr) != random_now) {
      candidate->idle.clear();  // its time is over, and worlds use up address space
      continue;
    }
    const uint32_t most = candidate->workload == nullptr ? options_.jobs : most_worlds_;
    if (candidate->next < candidate->quota && candidate->busy < most && (next == nullptr || behind(*candidate, *next)))
      next = candidate.get();
  }
  return next;
}

std::optional<Campaign::Batch> Campaign::begin_batch() {
  const std::lock_guard lock(mutex_);
  Target* const target = next_target();
  if (target == nullptr || stop_)
    return std::nullopt;
  Batch batch;
  batch.target = target;
  batch.workload = target->workload;
  batch.first = target->next;
  batch.count = std::min(kSchedulesPerBatch, target->quota - target->next);
  target->next += batch.count;
  ++target->busy;
  if (!target->idle.empty()) {
    batch.fuzzer = std::move(target->idle.back());
    target->idle.pop_back();
  }
  return batch;
}

void Campaign::end_batch(Batch& batch, std::chrono::nanoseconds took) {
  const std::lock_guard lock(mutex_);
  batch.target->spent += took;
  --batch.target->busy;
  if (batch.target->workload != nullptr)
    batch.target->idle.push_back(std::move(batch.fuzzer));
  else
    ++progress_.programs;
  progress_.schedules += batch.done;
  progress_.steps += batch.steps;
  progress_.coverage += batch.coverage;
  for (const uint64_t run : batch.runs)
    if (seen_.size() < kRemembered)
      seen_.insert(run);
    else if (!seen_.contains(run))
      progress_.more_runs = true;
}

void Campaign::run_batch(Batch& batch) {
  nicsim::World& world = batch.fuzzer->world();
  CrashNote note(command_of(batch.workload->config));
  for (uint64_t i = 0; i < batch.count && !stop_.load(std::memory_order_relaxed); ++i) {
    const uint64_t seed = options_.seed + batch.first + i;
    note.runs(seed);
    nicsim::Report report = batch.fuzzer->run(seed);
    ++batch.done;
    batch.steps += world.steps();
    // The same steps in another configuration are another run.
    batch.runs.push_back(world.trace_hash() ^ batch.workload->number * 0x9e3779b97f4a7c15u);
    if (report.ok() && i == 0)
      report = repeat(batch, seed);
    if (!report.ok())
      return discover(batch, seed, report);
  }
}

// Without a seed.
std::string Campaign::command_of(const nicsim::Config& config) const {
  std::string command = "lanyard fuzz --config " + config.to_string();
  for (const nicsim::SchedulerKind kind : options_.schedulers)
    command += std::string(" --scheduler ") + nicsim::scheduler_name(kind);
  return command;
}

nicsim::Report Campaign::repeat(Batch& batch, uint64_t seed) {
  nicsim::World& world = batch.fuzzer->world();
  const uint64_t hash = world.trace_hash(), steps = world.steps();
  const auto same = [&] { return world.trace_hash() == hash && world.steps() == steps; };
  const nicsim::Schedule schedule = batch.fuzzer->record(seed);
  // Another world lies elsewhere in memory, which reveals a dependence on addresses.
  nicsim::Fuzzer elsewhere(batch.workload->scenario, batch.workload->config.world, options_.schedulers);
  elsewhere.run(seed);
  if (!same() || elsewhere.world().trace_hash() != hash || elsewhere.world().steps() != steps)
    return {nicsim::Finding::kNondeterminism, "determinism", "the same seed gave two different runs", 0};
  batch.coverage.add(world, schedule);
  if (!same())
    return {nicsim::Finding::kNondeterminism, "determinism", "a run and the replay of its schedule differ", 0};
  return {};
}

void Campaign::discover(Batch& batch, uint64_t seed, const nicsim::Report& report) {
  stop_ = true;
  Discovery discovery{batch.workload->config, report, batch.fuzzer->scheduler_of(seed), seed,
                      batch.fuzzer->record(seed)};
  batch.coverage.add(batch.fuzzer->world(), discovery.schedule);
  const std::lock_guard lock(mutex_);
  if (!discovery_)
    discovery_ = std::move(discovery);
}

nicsim::Verdict watch_canary(const std::string& text, uint64_t seed,
                             const std::vector<nicsim::SchedulerKind>& schedulers) {
  const nicsim::Config config = nicsim::Config::parse(text).value();
  return nicsim::fuzz(
      config.scenario(),
      {.seed = seed, .schedules = kCanarySchedules, .time = {}, .schedulers = schedulers, .world = config.world});
}

}  // namespace lanyard::tools
