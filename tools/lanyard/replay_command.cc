// lanyard replay: runs one schedule again; prints its steps or draws it.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/story.h"
#include "nicsim/deterministic/world.h"
#include "tools/lanyard/command.h"

namespace lanyard::tools {

namespace {

struct Options {
  std::string config, schedule;
  std::string perfetto;
  uint64_t times = 1;
  bool steps = false;
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--config", o.config, "the configuration of the run, see below")->required()->type_name("ITEM,...");
  app.add_option("--schedule", o.schedule, "the choices, as lanyard fuzz prints them; 0: always the first agent")
      ->required()
      ->type_name("HEX");
  app.add_option("--times", o.times, "run it this often; all runs must be identical (default: 1)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 62).description(""))
      ->type_name("N");
  app.add_flag("--steps", o.steps, "print every step");
  app.add_option("--perfetto", o.perfetto, "write a trace for ui.perfetto.dev")->type_name("FILE");
}

int replay(const Options& o) {
  const nicsim::Config config = value_of(nicsim::Config::parse(o.config));
  const nicsim::Schedule schedule = value_of(nicsim::decode(o.schedule));
  const nicsim::Scenario scenario = config.scenario();
  nicsim::World world(scenario, config.world);
  if (o.steps) {
    const nicsim::Story story = nicsim::Story::tell(world, schedule);
    for (const nicsim::Story::Event& event : story.events)
      fmt::print("{:>5}  rank {}: {}\n", event.step, event.rank, event.text);
  }
  if (!o.perfetto.empty()) {
    std::ofstream file(o.perfetto);
    file << nicsim::Story::tell(world, schedule).perfetto_trace();
    if (!file.flush())
      trouble("cannot write " + o.perfetto);
  }
  nicsim::Report report;
  uint64_t hash = 0, steps = 0;
  for (uint64_t i = 0; i < o.times && report.finding != nicsim::Finding::kNondeterminism; ++i) {
    world.reset();
    nicsim::Replay replay(schedule);
    report = world.run(replay);
    if (i == 0 && replay.misfits() > 0)
      fmt::print(stderr,
                 "lanyard: {} choices of the schedule do not fit this configuration and were replaced by others\n",
                 replay.misfits());
    if (i > 0 && (world.trace_hash() != hash || world.steps() != steps))
      report = {nicsim::Finding::kNondeterminism, "determinism",
                fmt::format("run {} took {} steps, hash {:016x}; the first took {}, hash {:016x}", i + 1, world.steps(),
                            world.trace_hash(), steps, hash),
                0};
    hash = i == 0 ? world.trace_hash() : hash;
    steps = i == 0 ? world.steps() : steps;
  }
  if (report.ok())
    fmt::print("no finding\n");
  else
    fmt::print("{} step {}, oracle: {}\n{}\n", finding_name(report.finding), report.step, report.oracle, report.text);
  fmt::print("hash {:016x}, {} steps", hash, steps);
  if (o.times > 1 && report.finding != nicsim::Finding::kNondeterminism)
    fmt::print(", {} runs the same", o.times);
  fmt::print("\n");
  return exit_status(report.finding);
}

}  // namespace

void add_replay(CLI::App& app, int& status) {
  add_subcommand(app, status, "replay", "runs one schedule again", declare, replay);
}

}  // namespace lanyard::tools
