// lanyard mutants: runs the program lanyard-mutants beside this one, which alone has the known mistakes compiled in.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "tools/lanyard/command.h"

namespace lanyard::tools {

namespace {

// Returns where it cannot be run.
int run_mutants(const std::vector<std::string>& arguments) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "lanyard-mutants").string();
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return trouble(program + " cannot be run: bazel build //tools/lanyard:lanyard-mutants");
}

}  // namespace

void add_mutants(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("mutants", "shows that known mistakes are found (options: lanyard mutants --help)");
  command->set_help_flag();
  command->prefix_command();
  command->callback([command, &status] { status = run_mutants(command->remaining()); });
}

}  // namespace lanyard::tools
