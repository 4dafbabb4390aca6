// lanyard fuzz: runs schedules of one or many configurations until one has a finding.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <random>
#include <thread>

#include "nicsim/deterministic/world.h"
#include "nicsim/deterministic/schedulers.h"
#include "tools/lanyard/campaign.h"
#include "tools/lanyard/command.h"

namespace lanyard::tools {

namespace {

constexpr double kSeconds = 10;

struct Options {
  double seconds = 0;
  uint64_t schedules = 0;
  std::optional<uint64_t> seed;
  std::string config;
  double shrink = 10;
  uint32_t jobs = std::clamp(std::thread::hardware_concurrency(), 1u, kMostJobs);
};

void declare(CLI::App& app, Options& o) {
  CLI::Option* seconds = app.add_option("--seconds", o.seconds, "run for this long (default: 10)")
                             ->check(CLI::Range(0.01, 1e7).description(""))
                             ->type_name("S");
  app.add_option("--schedules", o.schedules, "run this many schedules instead")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 62).description(""))
      ->type_name("N")
      ->excludes(seconds);
  app.add_option("--seed", o.seed, "seed of the first schedule of each configuration (default: random)")
      ->check([](const std::string& text) { return std::string(text[0] == '-' ? "a seed cannot be negative" : ""); })
      ->type_name("N");
  app.add_option("--config", o.config,
                 "the configuration to run, see below (default: a portfolio, then random programs)")
      ->type_name("ITEM,...");
  app.add_option("--shrink", o.shrink,
                 "time for each of the two phases that shrink a finding; 0: do not shrink (default: 10)")
      ->check(CLI::Range(0.0, 1e7).description(""))
      ->type_name("S");
  app.add_option("--jobs", o.jobs, fmt::format("threads (default: {}, the processors)", o.jobs))
      ->check(CLI::Range(1u, kMostJobs).description(""))
      ->type_name("N");
}

std::chrono::nanoseconds in_time(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

CampaignOptions campaign_of(const Options& o) {
  CampaignOptions options;
  if (o.config.empty()) {
    options.configs = portfolio();
    options.random_programs = true;
  } else {
    options.configs = {value_of(nicsim::Config::parse(o.config))};
  }
  options.seed = o.seed ? *o.seed : uint64_t{std::random_device()()} << 32 | std::random_device()();
  options.schedules = o.schedules;
  if (o.schedules == 0)
    options.time = in_time(o.seconds > 0 ? o.seconds : kSeconds);
  options.jobs = o.jobs;
  return options;
}

std::string line_of(const Progress& p) {
  const double seconds = std::max(p.seconds, 1e-9);
  return fmt::format("{:.1f} s: {} schedules, {:.0f} schedules/s, {:.0f} steps/s, {}{} different runs; {}", p.seconds,
                     p.schedules, static_cast<double>(p.schedules) / seconds, static_cast<double>(p.steps) / seconds,
                     p.more_runs ? "over " : "", p.different_runs, p.coverage.to_string());
}

std::string command_of(const nicsim::Config& config, const nicsim::Schedule& schedule) {
  return fmt::format("lanyard replay --config {} --schedule {}", config.to_string(), nicsim::encode(schedule));
}

// Prints to stdout. The first line is the command that repeats the finding.
void print(const Discovery& found) {
  fmt::print("{}  # oracle: {}\n", command_of(found.config, found.schedule), found.report.oracle);
  fmt::print("{} seed={:#x} config={} step {}, scheduler {}\n{}\n", finding_name(found.report.finding), found.seed,
             found.config.to_string(), found.report.step, scheduler_name(nicsim::Fuzzer::scheduler_of(found.seed)),
             found.report.text);
  std::fflush(stdout);
}

// Prints the same finding in a shorter run.
void print_shrunk(const Discovery& found, std::chrono::nanoseconds time) {
  const nicsim::Shrunk shrunk = nicsim::shrink(found.config, found.schedule, time);
  fmt::print("shrunk: {}\n", command_of(shrunk.config, shrunk.schedule));
  fmt::print("{} step {}, {} choices other than the first", finding_name(shrunk.report.finding), shrunk.report.step,
             nicsim::deviations(shrunk.schedule));
  if (shrunk.shortest > 0)
    fmt::print(", the shortest run has {} steps", shrunk.shortest);
  fmt::print("\n{}\n", shrunk.report.text);
}

int fuzz(const Options& o) {
  const CampaignOptions options = campaign_of(o);
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  fmt::print(stderr, "seed {:#x}\n", options.seed);

  const nicsim::Verdict canary = watch_canary(kCanary, options.seed);
  if (canary.ok()) {
    fmt::print(stderr,
               "lanyard: the canary was not found: {} schedules of {} passed every oracle, so this build's other runs "
               "prove nothing\n",
               kCanarySchedules, kCanary);
    return kExitCanary;
  }
  fmt::print(stderr, "self-test: the fault planted in {} was found ({}, the canary), in {} schedules\n", kCanary,
             finding_name(canary.report.finding), canary.schedules);

  CrashNote::install();
  Campaign campaign(options);
  const auto look = [&](const Progress& progress) {
    fmt::print(stderr, "{}{}{}", terminal ? "\r" : "", line_of(progress), terminal ? "\x1b[K" : "\n");
    std::fflush(stderr);
  };
  const std::optional<Discovery> found = campaign.run(std::chrono::seconds(terminal ? 1 : 10), look);
  if (terminal)
    fmt::print(stderr, "\r\x1b[K");
  const Progress total = campaign.progress();
  if (found) {
    print(*found);
    // If runs of one schedule differ, no schedule leads to the finding.
    if (o.shrink > 0 && found->report.finding != nicsim::Finding::kNondeterminism)
      print_shrunk(*found, in_time(o.shrink));
  }
  const std::string what =
      o.config.empty() ? fmt::format("{} configurations and {} random programs", options.configs.size(), total.programs)
                       : o.config;
  fmt::print("{} in {}\n{}\n", found ? "1 finding" : "no findings", what, line_of(total));
  return found ? exit_status(found->report.finding) : 0;
}

}  // namespace

void add_fuzz(CLI::App& app, int& status) {
  add_subcommand(app, status, "fuzz", "runs many schedules until one has a finding", declare, fuzz);
}

}  // namespace lanyard::tools
