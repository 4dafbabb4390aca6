// Command: what the subcommands of `lanyard` share: exit statuses, errors, and how a schedule is named.
#ifndef LANYARD_TOOLS_LANYARD_COMMAND_H_
#define LANYARD_TOOLS_LANYARD_COMMAND_H_

#include <CLI/CLI.hpp>
#include <string>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/schedulers.h"
#include "transport/base/status.h"

namespace lanyard::tools {

// Exit statuses beside 0 and those of findings (nicsim::exit_status()).
inline constexpr int kExitTrouble = 1;  // a file that cannot be written
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCanary = 3;  // a planted fault was not found

// Each declares its subcommand, which runs as the command line is parsed and sets the exit status.
void add_conformance(CLI::App& app, int& status);
void add_explore(CLI::App& app, int& status);
void add_fuzz(CLI::App& app, int& status);
void add_info(CLI::App& app, int& status);
void add_model(CLI::App& app, int& status);
void add_replay(CLI::App& app, int& status);
void add_trace(CLI::App& app, int& status);

// A subcommand whose --help ends with the items of configurations.
CLI::App* add_subcommand(CLI::App& app, const char* name, const char* meaning);

// Prints one line to stderr.
int usage_error(const std::string& what);  // kExitUsage
int trouble(const std::string& what);      // kExitTrouble

// --config and --schedule of one run.
struct RunName {
  std::string config, schedule;

  void declare(CLI::App& app);
};
// What they name.
struct Run {
  nicsim::Config config;
  nicsim::Scenario scenario;
  nicsim::Schedule schedule;

  // kInvalidArgument.
  static Result<Run> parse(const RunName& name);
};

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_COMMAND_H_
