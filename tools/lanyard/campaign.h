// Campaign: schedules of several configurations run by several threads until one finds something, or time is up.
#ifndef LANYARD_TOOLS_LANYARD_CAMPAIGN_H_
#define LANYARD_TOOLS_LANYARD_CAMPAIGN_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "nicsim/deterministic/chooser.h"
#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/fuzz.h"
#include "nicsim/deterministic/report.h"
#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::tools {

// Which kinds of steps, choices and faults occurred in runs, and how often.
struct Coverage {
  std::array<uint64_t, nicsim::kStepKinds> steps{};      // by StepKind
  std::array<uint64_t, nicsim::kChoiceKinds> choices{};  // by ChoiceKind: how often another than 0 was chosen

  // Runs the schedule from the beginning and counts what occurs in it.
  void add(nicsim::World& world, const nicsim::Schedule& schedule);
  Coverage& operator+=(const Coverage& other);
  // "steps 10/10, coalesced rings, failures; never: no-room"
  std::string to_string() const;
};

struct CampaignOptions {
  std::vector<nicsim::Config> configs;  // none: random programs only
  // Random programs too (random_config()), one a batch of 64 schedules: once a third of the time is over, but after a
  // minute at the latest; or for half of the schedules where their number is limited.
  bool random_programs = false;
  std::vector<nicsim::SchedulerKind> schedulers;  // in turn; empty: all of them
  uint64_t seed = 1;                 // schedule k of each configuration, from 0, follows from seed + k alone
  uint64_t schedules = 0;            // at most, of all configurations together; 0: no limit
  std::chrono::nanoseconds time{0};  // at most; 0: no limit
  uint32_t jobs = 1;                 // threads, from 1 to kMostJobs
};
inline constexpr uint32_t kMostJobs = 64;

struct Discovery {
  nicsim::Config config;
  nicsim::Report report;
  nicsim::SchedulerKind scheduler = nicsim::SchedulerKind::kRandom;
  uint64_t seed = 0;  // of the schedule
  nicsim::Schedule schedule;
};

// So far.
struct Progress {
  double seconds = 0;
  uint64_t schedules = 0;
  uint64_t steps = 0;
  uint64_t programs = 0;  // random ones
  uint64_t different_runs = 0;
  bool more_runs = false;  // than are told apart
  Coverage coverage;       // of one schedule in 64, and of the one that found something
};

// For one run().
class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options);
  ~Campaign();
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  // Blocks. Requires a configuration or random programs. Gives each configuration the same share of the time, or of the
  // schedules where their number is limited; one schedule in 64 runs four times, once in another world, and must run
  // the same. Calls `look` on this thread whenever `period` has passed. Of several discoveries by several threads at
  // once, one is returned.
  std::optional<Discovery> run(std::chrono::nanoseconds period, const std::function<void(const Progress&)>& look);
  Progress progress() const;

 private:
  // What is run.
  struct Workload {
    Workload(const nicsim::Config& config, uint64_t number)
        : config(config), number(number), scenario(config.scenario()) {}
    const nicsim::Config config;
    const uint64_t number;  // another one for each
    const nicsim::Scenario scenario;
  };
  // A configuration, or all random programs, and how far it has got.
  struct Target {
    std::shared_ptr<const Workload> workload;  // null: random programs
    std::vector<std::unique_ptr<nicsim::Fuzzer>> idle;
    uint64_t next = 0;            // schedule
    uint64_t quota = UINT64_MAX;  // schedules
    std::chrono::nanoseconds spent{0};
    uint32_t busy = 0;  // threads at it
  };
  // Some schedules of a target, one after another.
  struct Batch {
    Target* target = nullptr;
    std::shared_ptr<const Workload> workload;  // outlives the fuzzer
    std::unique_ptr<nicsim::Fuzzer> fuzzer;
    uint64_t first = 0, count = 0;
    uint64_t done = 0, steps = 0;
    std::vector<uint64_t> runs;  // by their hashes
    Coverage coverage;
  };

  void work();
  std::optional<Batch> begin_batch();
  Target* next_target();
  void end_batch(Batch& batch, std::chrono::nanoseconds took);
  void run_batch(Batch& batch);
  std::string command_of(const nicsim::Config& config) const;
  // Runs the fuzzer's last schedule again: what is wrong with that.
  nicsim::Report repeat(Batch& batch, uint64_t seed);
  void discover(Batch& batch, uint64_t seed, const nicsim::Report& report);

  const CampaignOptions options_;
  const uint32_t most_worlds_;                 // of a target
  const std::chrono::nanoseconds fixed_time_;  // before random programs
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex.
  std::vector<std::unique_ptr<Target>> targets_;
  std::unordered_set<uint64_t> seen_;  // runs
  Progress progress_;
  std::optional<Discovery> discovery_;
  uint32_t working_ = 0;
};

// The configurations that `lanyard fuzz` runs where it is told none. No schedule of any of them has anything to be
// found while the protocol and the model are right.
std::vector<nicsim::Config> portfolio();

// What the calling thread runs, told should it die of a signal, so that a crash of the code under test can be had
// again. At most one a thread.
class CrashNote {
 public:
  // From now on a thread of this process with a note that dies of a signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT)
  // writes the command that repeats its last run to stdout, and that it crashed to stderr, before it does.
  static void install();

  // `command`, to which a seed and the rest are appended.
  explicit CrashNote(std::string command);
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;

  void runs(uint64_t seed) { seed_ = seed; }

 private:
  static void tell(int signal);

  const std::string command_;
  volatile uint64_t seed_ = 0;
};

// The canary: a run that must be found faulty, so that a fuzzer that finds nothing is known to look. A small exchange
// on NICs that lose rings, which no NIC may.
inline constexpr const char* kCanary = "2ranks,1req-one-way,1iter,lost-rings";
inline constexpr uint64_t kCanarySchedules = 2'000;
// Runs schedules of the configuration until the oracles report something, or the canary's number of them. Requires a
// valid configuration.
nicsim::Verdict watch_canary(const std::string& config, uint64_t seed,
                             const std::vector<nicsim::SchedulerKind>& schedulers);

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_CAMPAIGN_H_
