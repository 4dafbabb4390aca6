// lanyard explore: visits every state of a small world.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "nicsim/deterministic/explore.h"
#include "nicsim/deterministic/report.h"
#include "tools/lanyard/command.h"

namespace lanyard::tools {

namespace {

struct Options {
  std::string config;
  std::string search = "both";
  uint64_t max_states = nicsim::ExploreOptions().max_states;
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--config", o.config, "the configuration to explore, see below")->required();
  app.add_option("--search", o.search, "full, reduced, or both, whose results must agree (default: both)")
      ->check(CLI::IsMember({"full", "reduced", "both"}).description(""))
      ->type_name("HOW");
  app.add_option("--max-states", o.max_states, "give up after this many states (default: 200 million)")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
}

// Explores and prints a line. Returns false if the result is final.
bool explore_one(const Options& o, const nicsim::Config& config, const nicsim::Scenario& scenario, bool reduced,
                 nicsim::Exploration& result, int& status) {
  using Seconds = std::chrono::duration<double>;
  nicsim::World world(scenario, config.world);
  const auto begin = std::chrono::steady_clock::now();
  nicsim::ExploreOptions options;
  options.reduced = reduced;
  options.max_states = o.max_states;
  if (::isatty(STDERR_FILENO))
    options.progress = [](uint64_t states) { fmt::print(stderr, "\r{} states", states); };
  Result<nicsim::Exploration> found = nicsim::explore(world, options);
  if (!found.ok()) {
    status = usage_error(found.status().message());
    return false;
  }
  result = std::move(found.value());
  const Seconds took = std::chrono::steady_clock::now() - begin;
  if (options.progress)
    fmt::print(stderr, "\r");
  fmt::print("{:8} {:>12} states {:>12} transitions {:>4} ends {:>8.2f} s{}\n", reduced ? "reduced" : "full",
             result.states, result.transitions, result.ends, took.count(), result.complete ? "" : ", not finished");
  std::fflush(stdout);
  if (!result.report.ok()) {
    fmt::print("lanyard replay --config {} --schedule {}\n{} step {}, oracle: {}\n{}\n", o.config,
               nicsim::encode(result.schedule), finding_name(result.report.finding), result.report.step,
               result.report.oracle, result.report.text);
    status = exit_status(result.report.finding);
    return false;
  }
  if (!result.complete)
    status = kExitTrouble;
  return result.complete;
}

int explore(const Options& o) {
  const Result<nicsim::Config> config = nicsim::Config::parse(o.config);
  if (!config.ok())
    return usage_error(config.status().message());
  const nicsim::Scenario scenario = config.value().scenario();
  int status = 0;
  nicsim::Exploration reduced, full;
  const bool both = o.search == "both" && nicsim::allows_reduction(config.value().world);
  if ((both || o.search == "reduced") && !explore_one(o, config.value(), scenario, true, reduced, status))
    return status;
  if (o.search == "reduced")
    return 0;
  if (!explore_one(o, config.value(), scenario, false, full, status))
    return status;
  if (!both)
    return 0;
  const bool agree = reduced.ends == full.ends && reduced.ends_digest == full.ends_digest;
  fmt::print("the two {}\n", agree ? "agree" : "DISAGREE: the reduction is wrong for this workload");
  return agree ? 0 : kExitTrouble;
}

}  // namespace

void add_explore(CLI::App& app, int& status) {
  add_subcommand(app, status, "explore", "visits every state that a small workload can reach", declare, explore);
}

}  // namespace lanyard::tools
