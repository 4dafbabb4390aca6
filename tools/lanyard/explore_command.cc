// lanyard explore: visits every state of a small world.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "nicsim/deterministic/explore.h"
#include "nicsim/deterministic/world.h"
#include "tools/lanyard/command.h"

namespace lanyard::tools {

namespace {

struct Options {
  std::string config;
  std::string search = "both";
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--config", o.config, "the configuration to explore, see below")->required();
  app.add_option("--search", o.search, "full, reduced, or both, whose results must agree (default: both)")
      ->check(CLI::IsMember({"full", "reduced", "both"}).description(""))
      ->type_name("HOW");
}

// Explores and prints a line. An exit status other than 0 is final.
int explore_one(const Options& o, const nicsim::Config& config, const nicsim::Scenario& scenario, bool reduced,
                nicsim::Exploration& result) {
  using Seconds = std::chrono::duration<double>;
  nicsim::World world(scenario, config.world);
  const auto begin = std::chrono::steady_clock::now();
  nicsim::ExploreOptions options;
  options.reduced = reduced;
  if (::isatty(STDERR_FILENO))
    options.progress = [](uint64_t states) { fmt::print(stderr, "\r{} states", states); };
  result = value_of(nicsim::explore(world, options));
  const Seconds took = std::chrono::steady_clock::now() - begin;
  if (options.progress)
    fmt::print(stderr, "\r");
  fmt::print("{:8} {:>12} states {:>12} transitions {:>4} ends {:>8.2f} s{}\n", reduced ? "reduced" : "full",
             result.states, result.transitions, result.ends, took.count(), result.complete ? "" : ", not finished");
  std::fflush(stdout);
  if (!result.report.ok())
    fmt::print("lanyard replay --config {} --schedule {}\n{} step {}, oracle: {}\n{}\n", o.config,
               nicsim::encode(result.schedule), finding_name(result.report.finding), result.report.step,
               result.report.oracle, result.report.text);
  return !result.report.ok() ? exit_status(result.report.finding) : result.complete ? 0 : kExitTrouble;
}

int explore(const Options& o) {
  const nicsim::Config config = value_of(nicsim::Config::parse(o.config));
  const nicsim::Scenario scenario = config.scenario();
  nicsim::Exploration reduced, full;
  const bool both = o.search == "both" && nicsim::allows_reduction(config.world);
  if (both || o.search == "reduced")
    if (const int status = explore_one(o, config, scenario, true, reduced); status != 0 || o.search == "reduced")
      return status;
  if (const int status = explore_one(o, config, scenario, false, full); status != 0 || !both)
    return status;
  const bool agree = reduced.ends == full.ends && reduced.ends_digest == full.ends_digest;
  fmt::print("the two {}\n", agree ? "agree" : "DISAGREE: the reduction is wrong for this workload");
  return agree ? 0 : kExitTrouble;
}

}  // namespace

void add_explore(CLI::App& app, int& status) {
  add_subcommand(app, status, "explore", "visits every state that a small workload can reach", declare, explore);
}

}  // namespace lanyard::tools
