// Command: exit statuses and errors, shared by the subcommands of `lanyard`.
#ifndef LANYARD_TOOLS_LANYARD_COMMAND_H_
#define LANYARD_TOOLS_LANYARD_COMMAND_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>

#include "nicsim/deterministic/config.h"
#include "transport/base/status.h"

namespace lanyard::tools {

// Exit statuses besides 0 and those of findings (nicsim::exit_status()).
inline constexpr int kExitTrouble = 1;  // a file cannot be written
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCanary = 3;  // the planted fault was not found

// Each adds its subcommand. Parsing the command line runs it; some then set the exit status.
void add_explore(CLI::App& app, int& status);
void add_fuzz(CLI::App& app, int& status);
void add_info(CLI::App& app);
void add_model(CLI::App& app);
void add_replay(CLI::App& app, int& status);
// Subcommands of `lanyard model`.
void add_model_fit(CLI::App& model);
void add_model_compare(CLI::App& model);

// Adds a subcommand whose --help ends with the items of configurations.
template <typename Options>
void add_subcommand(CLI::App& app, int& status, const char* name, const char* meaning,
                    void (*declare)(CLI::App&, Options&), int (*run)(const Options&)) {
  CLI::App* command = app.add_subcommand(name, meaning);
  command->footer(nicsim::Config::help());
  const auto options = std::make_shared<Options>();
  declare(*command, *options);
  command->callback([options, &status, run] { status = run(*options); });
}

// Ends a command: main() prints `what` in one line to stderr and returns the exit status.
struct Failure {
  int status;
  std::string what;
};
[[noreturn]] inline void usage_error(const std::string& what) { throw Failure{kExitUsage, what}; }
[[noreturn]] inline void trouble(const std::string& what) { throw Failure{kExitTrouble, what}; }
// The value; an error is one of usage.
template <typename T>
T value_of(Result<T> result) {
  if (!result.ok())
    usage_error(result.status().message());
  return std::move(result.value());
}

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_COMMAND_H_
