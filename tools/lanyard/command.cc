#include "tools/lanyard/command.h"

#include <fmt/format.h>

namespace lanyard::tools {

namespace {

int complain(const std::string& what, int status) {
  fmt::print(stderr, "lanyard: {}\n", what);
  return status;
}

}  // namespace

CLI::App* add_subcommand(CLI::App& app, const char* name, const char* meaning) {
  CLI::App* command = app.add_subcommand(name, meaning);
  command->footer(nicsim::Config::help());
  return command;
}

int usage_error(const std::string& what) { return complain(what, kExitUsage); }

int trouble(const std::string& what) { return complain(what, kExitTrouble); }

void RunName::declare(CLI::App& app) {
  app.add_option("--config", config, "the workload and its world, see below")->required()->type_name("ITEM,...");
  app.add_option("--schedule", schedule, "every choice, as lanyard fuzz prints it; 0: the first agent always goes on")
      ->required()
      ->type_name("HEX");
}

Result<Run> Run::parse(const RunName& name) {
  Result<nicsim::Config> config = nicsim::Config::parse(name.config);
  if (!config.ok())
    return config.status();
  Result<nicsim::Schedule> schedule = nicsim::decode(name.schedule);
  if (!schedule.ok())
    return schedule.status();
  return Run{config.value(), config.value().scenario(), std::move(schedule.value())};
}

}  // namespace lanyard::tools
