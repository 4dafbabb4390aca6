// lanyard mutants, lanyard conformance: programs beside this one. The first alone has the known mistakes compiled in,
// the second GoogleTest.
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
int run(const std::string& name, const std::vector<std::string>& arguments) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / name).string();
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return trouble(program +
                 " cannot be run. It belongs to Lanyard's source tree and is not installed; there: bazel build "
                 "//tools/lanyard //tools/lanyard:" +
                 name + ", and bazel-bin/tools/lanyard/lanyard runs it");
}

void add(CLI::App& app, const char* name, const char* meaning, int& status) {
  CLI::App* command = app.add_subcommand(name, meaning);
  command->set_help_flag();
  command->prefix_command();
  command->callback([command, name, &status] { status = run(std::string("lanyard-") + name, command->remaining()); });
}

}  // namespace

void add_programs(CLI::App& app, int& status) {
  add(app, "mutants", "shows that known mistakes are found; source tree only (options: lanyard mutants --help)",
      status);
  add(app, "conformance",
      "holds a NIC of this machine to the contract; source tree only (options: lanyard conformance --help)", status);
}

}  // namespace lanyard::tools
