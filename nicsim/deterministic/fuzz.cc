#include "nicsim/deterministic/fuzz.h"

#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

constexpr uint64_t kRunsPerRepeat = 64;
constexpr uint64_t kRunsPerClock = 16;

// About how many steps a schedule has: one is run to see.
uint64_t length_of(World& world) {
  const Schedule none;
  Replay first(none);
  world.run(first);
  const uint64_t steps = world.steps();
  world.reset();
  return steps;
}

}  // namespace

Fuzzer::Fuzzer(const Scenario& scenario, const WorldOptions& options, std::vector<SchedulerKind> schedulers)
    : world_(scenario, options), kinds_(std::move(schedulers)) {
  const uint64_t steps = length_of(world_);
  if (kinds_.empty())
    for (uint32_t kind = 0; kind < kSchedulerKinds; ++kind)
      kinds_.push_back(static_cast<SchedulerKind>(kind));
  for (const SchedulerKind kind : kinds_)
    schedulers_.push_back(make_scheduler(kind, world_, steps));
}

Scheduler& Fuzzer::begin(uint64_t seed) {
  Scheduler& scheduler = *schedulers_[seed % schedulers_.size()];
  scheduler.begin(seed);
  world_.reset();
  return scheduler;
}

const Report& Fuzzer::run(uint64_t seed) { return world_.run(begin(seed)); }

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
  LANYARD_CHECK(scenario.validate().ok(), scenario.validate().message().c_str());
  Fuzzer fuzzer(scenario, options.world, options.schedulers);
  Verdict verdict;
  const auto begin = std::chrono::steady_clock::now();
  for (; verdict.schedules < options.schedules && verdict.ok(); ++verdict.schedules) {
    if (options.time.count() > 0 && verdict.schedules % kRunsPerClock == 0 &&
        std::chrono::steady_clock::now() - begin > options.time)
      break;
    verdict.seed = options.seed + verdict.schedules;
    verdict.scheduler = fuzzer.scheduler_of(verdict.seed);
    verdict.report = fuzzer.run(verdict.seed);
    verdict.steps += fuzzer.world().steps();
    if (verdict.ok() && verdict.schedules % kRunsPerRepeat == 0 && !fuzzer.repeats(verdict.seed))
      verdict.report = {Finding::kNondeterminism, "determinism", "the same seed gave two different runs", 0};
  }
  if (!verdict.ok())
    verdict.schedule = fuzzer.record(verdict.seed);
  return verdict;
}

}  // namespace lanyard::nicsim
