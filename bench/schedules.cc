// How fast the deterministic engine is: schedules a second on small worlds, with every oracle on, and one large world.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/fuzz.h"

namespace {

using lanyard::nicsim::Config;
using lanyard::nicsim::Exchange;
using lanyard::nicsim::Fuzzer;
using lanyard::nicsim::Report;
using lanyard::nicsim::SchedulerKind;
using Seconds = std::chrono::duration<double>;

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Runs schedules of one scheduler for so long, or so many; false where one found something.
bool measure(const std::string& text, SchedulerKind kind, Seconds time, uint64_t most) {
  const Config config = Config::parse(text).value();
  const Exchange exchange = config.exchange();
  const auto start = std::chrono::steady_clock::now();
  Fuzzer fuzzer(exchange, config.world, {kind});
  const auto begin = std::chrono::steady_clock::now();
  constexpr uint64_t kRunsPerClock = 64;
  uint64_t schedules = 0, steps = 0;
  Seconds took{0};
  do {
    for (uint64_t i = 0; i < kRunsPerClock && took < time && schedules < most; ++i) {
      const Report& report = fuzzer.run(schedules++);
      steps += fuzzer.world().steps();
      if (!report.ok()) {
        fmt::print("{}: {}: {}\n", text, report.oracle, report.text);
        return false;
      }
      if (exchange.ranks() > 16)
        took = std::chrono::steady_clock::now() - begin;
    }
    took = std::chrono::steady_clock::now() - begin;
  } while (took < time && schedules < most);
  fmt::print("{:40} {:8} {:12.0f} {:12.0f} {:8.1f} {:10.1f} {:8.2f} {:8.0f}\n", text, scheduler_name(kind),
             static_cast<double>(schedules) / took.count(), static_cast<double>(steps) / took.count(),
             static_cast<double>(steps) / static_cast<double>(schedules),
             static_cast<double>(fuzzer.world().image_bytes()) / 1024, Seconds(begin - start).count(), peak_mib());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("How fast the deterministic engine is, on one core, with every oracle on.");
  std::vector<std::string> configs{"2ranks,1req-one-way,2iter", "2ranks,2req-one-way,2iter",
                                   "2ranks,2req-each-way,2iter"};
  std::vector<std::string> schedulers{"random", "pct", "swarm", "delay"};
  double seconds = 5;
  uint64_t schedules = UINT64_MAX;
  bool large = false;
  app.add_option("--config", configs, "workloads, see lanyard fuzz --help");
  app.add_option("--seconds", seconds, "for each workload and scheduler")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--scheduler", schedulers, "random, pct, swarm, delay")->check(CLI::IsMember(schedulers));
  app.add_option("--schedules", schedules, "at most, so that instructions can be counted")->check(CLI::PositiveNumber);
  app.add_flag("--large", large, "one run of 8,192 ranks with 8 neighbours each, 10 iterations");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& config : configs) {
    if (const auto parsed = Config::parse(config); !parsed.ok()) {
      fmt::print(stderr, "schedules: {}\n", parsed.status().message());
      return 2;
    }
  }
  fmt::print("{:40} {:8} {:>12} {:>12} {:>8} {:>10} {:>8} {:>8}\n", "workload", "by", "schedules/s", "steps/s", "steps",
             "image KiB", "set-up s", "peak MiB");
  if (large)
    return measure("8192ranks,1req-each-way,10iter,neighbours=4", SchedulerKind::kRandom, Seconds(1e-9), 1) ? 0 : 1;
  for (const std::string& config : configs)
    for (const std::string& scheduler : schedulers)
      if (!measure(config, lanyard::nicsim::scheduler_of(scheduler).value(), Seconds(seconds), schedules))
        return 1;
  return 0;
}
