// Command: what the subcommands of `lanyard` share: exit statuses and errors.
#ifndef LANYARD_TOOLS_LANYARD_COMMAND_H_
#define LANYARD_TOOLS_LANYARD_COMMAND_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "nicsim/deterministic/config.h"

namespace lanyard::tools {

// Exit statuses beside 0 and those of findings (nicsim::exit_status()).
inline constexpr int kExitTrouble = 1;  // a file that cannot be written
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCanary = 3;  // a planted fault was not found

// Each declares its subcommand, which runs as the command line is parsed and sets the exit status.
void add_explore(CLI::App& app, int& status);
void add_fuzz(CLI::App& app, int& status);
void add_info(CLI::App& app, int& status);
void add_model(CLI::App& app, int& status);
void add_replay(CLI::App& app, int& status);
// Of `lanyard model`.
void add_model_fit(CLI::App& model, int& status);
void add_model_compare(CLI::App& model, int& status);

// A subcommand whose --help ends with the items of configurations.
template <typename Options>
void add_subcommand(CLI::App& app, int& status, const char* name, const char* meaning,
                    void (*declare)(CLI::App&, Options&), int (*run)(const Options&)) {
  CLI::App* command = app.add_subcommand(name, meaning);
  command->footer(nicsim::Config::help());
  const auto options = std::make_shared<Options>();
  declare(*command, *options);
  command->callback([options, &status, run] { status = run(*options); });
}

// Prints one line to stderr.
int usage_error(const std::string& what);  // kExitUsage
int trouble(const std::string& what);      // kExitTrouble

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_COMMAND_H_
