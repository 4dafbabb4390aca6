// Campaign: several threads run schedules of several configurations until one has a finding,
// or the time is up.
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
#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::tools {

// Which kinds of steps, choices and faults occurred in runs, and how often.
struct Coverage {
  std::array<uint64_t, nicsim::kStepKinds> steps{};      // by StepKind
  std::array<uint64_t, nicsim::kChoiceKinds> choices{};  // by ChoiceKind: choices other than 0

  // Runs the schedule from the start and counts its steps and choices.
  void add(nicsim::World& world, const nicsim::Schedule& schedule);
  void operator+=(const Coverage& other);
  // For example "steps 10/10, coalesced rings, failures; never: no-room".
  std::string to_string() const;
};

struct CampaignOptions {
  std::vector<nicsim::Config> configs;
  // Also run random programs (random_config()), one for each batch of 64 schedules. With a time
  // limit they start after a third of the time, or after a minute if that is earlier. With a limit
  // of schedules they get half of them.
  bool random_programs = false;
  uint64_t seed = 1;                 // schedule k of a configuration depends only on seed + k
  uint64_t schedules = 0;            // limit for all configurations together; 0: none
  std::chrono::nanoseconds time{0};  // limit; 0: none
  uint32_t jobs = 1;                 // threads, 1 to kMostJobs
};
inline constexpr uint32_t kMostJobs = 64;

struct Discovery {
  nicsim::Config config;
  nicsim::Report report;
  uint64_t seed = 0;  // of the schedule
  nicsim::Schedule schedule;
};

// The progress so far.
struct Progress {
  double seconds = 0;
  uint64_t schedules = 0;
  uint64_t steps = 0;
  uint64_t programs = 0;  // random programs
  uint64_t different_runs = 0;
  bool more_runs = false;  // more than are told apart
  Coverage coverage;       // of one schedule in 64, and of the one with the finding
};

// An object runs once.
class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options);
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  // Requires a configuration. Blocks. Each configuration gets the same share of the time, or of the
  // schedules if their number is limited. One schedule in 64 runs four times, once in another
  // world; all four runs must be identical. Calls `look` on this thread once every `period`. If
  // several threads have a finding at once, returns one of them.
  std::optional<Discovery> run(std::chrono::nanoseconds period, const std::function<void(const Progress&)>& look);
  Progress progress() const;

 private:
  // A configuration to run.
  struct Workload {
    Workload(const nicsim::Config& config, uint64_t number)
        : config(config), number(number), scenario(config.scenario()) {}
    const nicsim::Config config;
    const uint64_t number;  // unique
    const nicsim::Scenario scenario;
  };
  // A configuration, or all random programs, and its progress.
  struct Target {
    std::shared_ptr<const Workload> workload;  // null: random programs
    std::vector<std::unique_ptr<nicsim::Fuzzer>> idle;
    uint64_t next = 0;            // next schedule
    uint64_t quota = UINT64_MAX;  // limit of schedules
    std::chrono::nanoseconds spent{0};
    uint32_t busy = 0;  // threads that work on it
  };
  // Consecutive schedules of a target.
  struct Batch {
    Target* target = nullptr;
    std::shared_ptr<const Workload> workload;  // must outlive the fuzzer
    std::unique_ptr<nicsim::Fuzzer> fuzzer;
    uint64_t first = 0, count = 0;
    uint64_t done = 0, steps = 0;
    std::vector<uint64_t> runs;  // trace hashes
    Coverage coverage;
  };

  void work();
  std::optional<Batch> begin_batch();
  Target* next_target();
  void end_batch(Batch& batch, std::chrono::nanoseconds took);
  void run_batch(Batch& batch);
  // Repeats the fuzzer's last schedule. Returns what differs.
  nicsim::Report repeat(Batch& batch, uint64_t seed);
  void discover(Batch& batch, uint64_t seed, const nicsim::Report& report);

  const CampaignOptions options_;
  const uint32_t most_worlds_;                 // worlds of a target
  const std::chrono::nanoseconds fixed_time_;  // time before random programs
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<std::unique_ptr<Target>> targets_;
  std::unordered_set<uint64_t> seen_;  // runs
  Progress progress_;
  std::optional<Discovery> discovery_;
  uint32_t working_ = 0;
};

// The configurations that `lanyard fuzz` runs by default. None has a finding if the protocol
// and the model are right.
std::vector<nicsim::Config> portfolio();

// Names the calling thread's current run, so that a crash of the code under test can be
// repeated. At most one a thread.
class CrashNote {
 public:
  // Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT in this process. If
  // a thread with a note crashes, they print the command that repeats its run to stdout.
  // A message goes to stderr.
  static void install();

  // A seed and more options are appended to `command`.
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

// The canary: a configuration with a planted fault that fuzzing must find. It shows that a fuzzer
// without findings works. A small exchange on NICs that lose rings, which no NIC may.
inline constexpr const char* kCanary = "2ranks,1req-one-way,1iter,lost-rings";
inline constexpr uint64_t kCanarySchedules = 2'000;
// Runs schedules of the configuration until the oracles report something, at most kCanarySchedules.
// Requires a valid configuration.
nicsim::Verdict watch_canary(const std::string& config, uint64_t seed);

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_CAMPAIGN_H_
