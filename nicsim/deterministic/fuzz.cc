#include "nicsim/deterministic/fuzz.h"

#include <algorithm>

#include "nicsim/deterministic/random.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

constexpr uint64_t kRunsPerRepeat = 64;
constexpr uint64_t kRunsPerClock = 16;

// Takes whatever stands first.
class FirstChoice final : public Chooser {
  uint32_t choose(uint32_t, ChoiceKind, const uint32_t*) override { return 0; }
};

// About how many steps a schedule has: one is run to see.
uint64_t length_of(World& world) {
  FirstChoice first;
  world.run(first);
  const uint64_t steps = world.steps();
  world.reset();
  return steps;
}

}  // namespace

Fuzzer::Fuzzer(const Scenario& scenario, const WorldOptions& options, std::vector<SchedulerKind> schedulers)
    : world_(scenario, options), kinds_(std::move(schedulers)), steps_(length_of(world_)) {
  if (kinds_.empty())
    for (uint32_t kind = 0; kind < kSchedulerKinds; ++kind)
      kinds_.push_back(static_cast<SchedulerKind>(kind));
  for (const SchedulerKind kind : kinds_)
    schedulers_.push_back(make_scheduler(kind, world_, steps_));
  trunks_.resize(kinds_.size());
}

uint64_t Fuzzer::trunk_of(uint64_t seed) const { return seed / kinds_.size() / kBranches; }

void Fuzzer::run_trunk(uint64_t seed, Scheduler& scheduler, Chooser& chooser) {
  Random random(trunk_of(seed) * kinds_.size() + seed % kinds_.size());
  scheduler.begin(random.next());
  world_.reset();
  world_.run_until(random.next() % std::max<uint64_t>(steps_, 1), chooser);
}

const Report& Fuzzer::run(uint64_t seed) {
  const size_t which = seed % schedulers_.size();
  Scheduler& scheduler = *schedulers_[which];
  Trunk& trunk = trunks_[which];
  if (trunk.number == trunk_of(seed)) {
    world_.restore(trunk.image);
  } else {
    run_trunk(seed, scheduler, scheduler);
    if (!world_.report().ok())
      return world_.report();
    world_.save(trunk.image);
    trunk.number = trunk_of(seed);
  }
  scheduler.begin(seed, world_.steps());
  return world_.run(scheduler);
}

Schedule Fuzzer::record(uint64_t seed) {
  Scheduler& scheduler = *schedulers_[seed % schedulers_.size()];
  Recorder recorder(scheduler);
  run_trunk(seed, scheduler, recorder);
  scheduler.begin(seed, world_.steps());
  world_.run(recorder);
  return recorder.take();
}

bool Fuzzer::repeats(uint64_t seed) {
  const uint64_t hash = world_.trace_hash(), steps = world_.steps();
  trunks_.assign(kinds_.size(), {});
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
