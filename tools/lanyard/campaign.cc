#include "tools/lanyard/campaign.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "nicsim/deterministic/scenario.h"
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
      most_worlds_(static_cast<uint32_t>(std::max<size_t>(kWorlds / (options.configs.size() + 1), 1))),
      fixed_time_(std::min(kLongestFixedTime, options.time / 3)) {
  LANYARD_CHECK(!options.configs.empty() && options.jobs >= 1 && options.jobs <= kMostJobs,
                "a campaign needs configurations, and 1 to 64 jobs");
  const uint64_t of_random = options.random_programs ? options.schedules / 2 : 0, rest = options.schedules - of_random;
  const auto add = [&](uint64_t quota) -> Target& {
    Target& target = *targets_.emplace_back(std::make_unique<Target>());
    if (options.schedules > 0)
      target.quota = quota;
    return target;
  };
  for (size_t i = 0; i < options.configs.size(); ++i)
    add(rest / options.configs.size() + (i < rest % options.configs.size() ? 1 : 0)).workload =
        std::make_shared<const Workload>(options.configs[i], i + 1);
  if (options.random_programs)
    add(of_random);
}

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
      batch->fuzzer = std::make_unique<nicsim::Fuzzer>(batch->workload->scenario, batch->workload->config.world);
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
  CrashNote note("lanyard fuzz --config " + batch.workload->config.to_string());
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

nicsim::Report Campaign::repeat(Batch& batch, uint64_t seed) {
  nicsim::World& world = batch.fuzzer->world();
  const uint64_t hash = world.trace_hash(), steps = world.steps();
  const auto same = [&] { return world.trace_hash() == hash && world.steps() == steps; };
  const nicsim::Schedule schedule = batch.fuzzer->record(seed);
  // Another world lies elsewhere in memory, which reveals a dependence on addresses.
  nicsim::Fuzzer elsewhere(batch.workload->scenario, batch.workload->config.world);
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
  Discovery discovery{batch.workload->config, report, seed, batch.fuzzer->record(seed)};
  batch.coverage.add(batch.fuzzer->world(), discovery.schedule);
  const std::lock_guard lock(mutex_);
  if (!discovery_)
    discovery_ = std::move(discovery);
}

nicsim::Verdict watch_canary(const std::string& text, uint64_t seed) {
  const nicsim::Config config = nicsim::Config::parse(text).value();
  return nicsim::fuzz(config.scenario(), {.seed = seed, .schedules = kCanarySchedules, .world = config.world});
}

// ---- Coverage

namespace {

// Counts the choices of another chooser.
class Counting final : public nicsim::Chooser {
 public:
  Counting(const nicsim::World& world, nicsim::Chooser& inner, Coverage& coverage)
      : world_(world), inner_(inner), coverage_(coverage) {}
  uint32_t choose(uint32_t n, nicsim::ChoiceKind kind, const uint32_t* agents) override {
    const uint32_t choice = inner_.choose(n, kind, agents);
    if (kind == nicsim::ChoiceKind::kStep)
      ++coverage_.steps[static_cast<size_t>(world_.kind_of(agents[choice]))];
    if (choice != 0)
      ++coverage_.choices[static_cast<size_t>(kind)];
    return choice;
  }

 private:
  const nicsim::World& world_;
  nicsim::Chooser& inner_;
  Coverage& coverage_;
};

// The meaning of a choice other than 0, by ChoiceKind; null (kStep, kMail) if not reported.
constexpr const char* kEvents[nicsim::kChoiceKinds] = {
    nullptr,
    "coalesced rings",
    "failures",
    "lost rings",
    "no room",
    "stale reads",
    "frozen reads",
    "stolen entries",
    "torn reads and landings",
    "late acks",
    "early acks",
    "kills",
    nullptr,
    "failures left behind",
    "scarcity",
    "late events",
    "calls while others drive",
};

}  // namespace

void Coverage::add(nicsim::World& world, const nicsim::Schedule& schedule) {
  world.reset();
  nicsim::Replay replay(schedule);
  Counting counting(world, replay, *this);
  for (bool more = true; more;) {
    // A forced step makes no choice, so count it here.
    if (const auto agent = world.forced())
      ++steps[static_cast<size_t>(world.kind_of(*agent))];
    more = world.step(counting);
  }
  world.run(counting);
}

void Coverage::operator+=(const Coverage& other) {
  std::ranges::transform(steps, other.steps, steps.begin(), std::plus());
  std::ranges::transform(choices, other.choices, choices.begin(), std::plus());
}

std::string Coverage::to_string() const {
  std::string text = fmt::format("steps {}/{}", steps.size() - std::ranges::count(steps, 0u), steps.size()), never;
  const auto add_to_never = [&](const char* name) {
    never += (never.empty() ? "; never: " : ", ") + std::string(name);
  };
  for (uint32_t i = 0; i < nicsim::kStepKinds; ++i)
    if (steps[i] == 0)
      add_to_never(nicsim::step_name(static_cast<nicsim::StepKind>(i)));
  for (uint32_t i = 0; i < nicsim::kChoiceKinds; ++i)
    if (kEvents[i] != nullptr && choices[i] > 0)
      text += std::string(", ") + kEvents[i];
    else if (kEvents[i] != nullptr)
      add_to_never(kEvents[i]);
  return text + never;
}

// ---- The portfolio

namespace {

// The collectives of api/collective.h on three processes, twice: an allgather with two sets of
// messages in turn, a broadcast from the first rank, and one from the last.
constexpr char kCollectives[] =
    "program=0-1:16i1aj1a_0-2:16t1i1aj1a_1-0:16t2i1aj1a_1-2:16t3i1aj1a_2-0:16t4i1aj1a_2-1:16t5i1aj1a_0-1:16t6i1bj"
    "1b_0-2:16t7i1bj1b_1-0:16t8i1bj1b_1-2:16t9i1bj1b_2-0:16t10i1bj1b_2-1:16t11i1bj1b_0-1:16t12i2j2_0-2:16t13i2j2_"
    "2-0:16t14i3j3_2-1:16t15i3j3/p0_p1_s0.1.2r.4r_w0.1.2r.4r_u2_u4_p12_p13_s12.13_w12.13_s14r_w14r_u14_p6_p7_s6.7"
    ".8r.10r_w6.7.8r.10r_u8_u10_p12_p13_s12.13_w12.13_s14r_w14r_u14_y/p2_p3_s2.3.0r.5r_w2.3.0r.5r_u0_u5_s12r_w12r"
    "_u12_s15r_w15r_u15_p8_p9_s8.9.6r.11r_w8.9.6r.11r_u6_u11_s12r_w12r_u12_s15r_w15r_u15_y/p4_p5_s4.5.1r.3r_w4.5."
    "1r.3r_u1_u3_s13r_w13r_u13_p14_p15_s14.15_w14.15_p10_p11_s10.11.7r.9r_w10.11.7r.9r_u7_u9_s13r_w13r_u13_p14_p1"
    "5_s14.15_w14.15_y";

// Starts `count` messages together and receives them one after another, the last one
// first. So the entries needed first are at the end of an overflow with more operations
// than are looked at together.
nicsim::Config last_first(uint32_t count) {
  nicsim::Scenario scenario(2);
  std::vector<nicsim::RequestName> sends;
  std::vector<nicsim::MessageName> messages;
  for (uint32_t i = 0; i < count; ++i) {
    messages.push_back(scenario.message(0, 1, {.bytes = 8, .tag = static_cast<int>(i)}));
    sends.push_back(messages.back().send);
  }
  scenario.rank(0).start(sends).wait(sends).sync();
  for (; !messages.empty(); messages.pop_back())
    scenario.rank(1).start({messages.back().receive}).wait({messages.back().receive}).sync();
  nicsim::Config config;
  config.world.depth = 4;
  config.program = std::make_shared<const nicsim::Scenario>(std::move(scenario));
  return config;
}

}  // namespace

std::vector<nicsim::Config> portfolio() {
  // Small configurations: their schedules are short, and few messages and iterations
  // suffice to show mistakes.
  static constexpr const char* kTexts[] = {
      "2ranks,1req-one-way,2iter",
      "2ranks,1req-each-way,3iter",
      "2ranks,2req-each-way,2iter",
      "2ranks,1req-each-way,3iter,ready",
      "2ranks,3req-each-way,2iter,queues=2",
      "2ranks,2req-each-way,2iter,single-starts,sync",
      "2ranks,2req-each-way,2iter,sends-first,depth=1",
      "2ranks,1req-each-way,3iter,depth=2",
      "2ranks,2req-each-way,2iter,single-starts,depth=3",
      "2ranks,2req-each-way,2iter,queues=2,depth=5",
      "2ranks,2req-each-way,2iter,ready,depth=8",
      // A start has 8 entries: one start fits, and the next one waits.
      "2ranks,2req-each-way,3iter,depth=8,no-overflow,no-room",
      // With 5 entries both hosts can block for ever; 6 are enough.
      "2ranks,2req-each-way,2iter,sends-first,depth=6,blocking-post",
      "2ranks,1req-each-way,2iter,bytes=100,max-message=40",
      "2ranks,1req-each-way,2iter,bytes=0",
      "1ranks,2req-each-way,2iter",
      "3ranks,1req-each-way,2iter,depth=4",
      "4ranks,1req-each-way,1iter,neighbours=2",
      "2ranks,2req-each-way,3iter,failures",
      "2ranks,2req-each-way,2iter,depth=3,no-room,stale-reads",
      "2ranks,2req-each-way,2iter,depth=4,frozen-reads,stolen-entries",
      "2ranks,2req-each-way,3iter,depth=10,no-overflow,stolen-entries",
      "3ranks,1req-each-way,3iter,kills,depth=4",
      "2ranks,2req-each-way,2iter,early-acks",
      "2ranks,2req-each-way,2iter,sender-flag,early-acks",
      "2ranks,1req-each-way,3iter,sender-flag,early-acks,ready,depth=4",
      "2ranks,1req-each-way,2iter,sender-flag,early-acks,bytes=100,max-message=40,failures,free",
      "3ranks,1req-each-way,2iter,sender-flag,early-acks,kills,free",
      "2ranks,1req-each-way,2iter,sender-flag,depth=1,free",
      "2ranks,1req-each-way,2iter,sender-flag,depth=2,free,stale-reads",
      "2ranks,2req-each-way,3iter,cxi-driver",
      "2ranks,2req-each-way,2iter,depth=3,sender-flag,cxi-driver,early-acks,no-room,stolen-entries",
      "2ranks,1req-each-way,2iter,cxi-driver,failures,free",
      "2ranks,1req-each-way,2iter,free,mail-by-card",
      "3ranks,1req-one-way,1iter,early-acks,in-flight=2,mail-by-card",
      "3ranks,1req-each-way,1iter,kills,mail-by-card",
      "2ranks,2req-each-way,2iter,depth=5,cxi-driver,failures,no-room,stolen-entries",
      "2ranks,1req-each-way,2iter,sync,cxi-driver,failures,late-events",
      "2ranks,1req-each-way,2iter,bytes=0,cxi-driver,failures,free",
      "3ranks,1req-each-way,2iter,sender-flag,cxi-driver,early-acks,kills",
      "2ranks,2req-each-way,3iter,two-sets",
      "3ranks,1req-each-way,4iter,depth=3,stale-reads,two-sets",
      "3ranks,1req-each-way,3iter,cxi-driver,failures,two-sets",
  };
  std::vector<nicsim::Config> configs;
  for (const char* text : kTexts)
    configs.push_back(nicsim::Config::parse(text).value());
  for (const char* world : {"", ",depth=3,sender-flag,early-acks,torn", ",cxi-driver,failures"})
    configs.push_back(nicsim::Config::parse(std::string(kCollectives) + world).value());
  configs.push_back(last_first(140));
  return configs;
}

// ---- Crashes

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

thread_local const CrashNote* note = nullptr;

// If this fails, nothing more can be done.
void write_all(int to, std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(to, text.data(), text.size());
}

void write_number(int to, uint64_t number) {
  char digits[20];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), number);
  write_all(to, {digits, static_cast<size_t>(end - digits)});
}

}  // namespace

// Calls only functions that a signal handler may call.
void CrashNote::tell(int signal) {
  if (const CrashNote* mine = std::exchange(note, nullptr); mine != nullptr) {
    write_all(STDOUT_FILENO, mine->command_);
    write_all(STDOUT_FILENO, " --schedules 1 --seed ");
    write_number(STDOUT_FILENO, mine->seed_);
    write_all(STDOUT_FILENO, "  # crashes\n");
    write_all(STDERR_FILENO, "lanyard: the code under test crashed with signal ");
    write_number(STDERR_FILENO, static_cast<uint64_t>(signal));
    write_all(STDERR_FILENO, "; the command on stdout repeats the run\n");
  }
  ::raise(signal);  // SA_RESETHAND: ends the process as without a handler
}

void CrashNote::install() {
  struct sigaction action = {};
  action.sa_handler = &CrashNote::tell;
  action.sa_flags = SA_RESETHAND | SA_NODEFER;
  for (const int signal : kSignals)
    LANYARD_CHECK(::sigaction(signal, &action, nullptr) == 0, std::strerror(errno));
}

CrashNote::CrashNote(std::string command) : command_(std::move(command)) { note = this; }
CrashNote::~CrashNote() { note = nullptr; }

}  // namespace lanyard::tools
