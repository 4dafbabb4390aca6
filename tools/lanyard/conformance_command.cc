// lanyard conformance: a program beside this one, which alone has GoogleTest.
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
int run(const std::vector<std::string>& arguments) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "lanyard-conformance").string();
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return trouble(program +
                 " cannot be run. It belongs to Lanyard's source tree and is not installed; there: bazel build "
                 "//tools/lanyard //tools/lanyard:lanyard-conformance, and bazel-bin/tools/lanyard/lanyard runs it");
}

}  // namespace

void add_conformance(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "conformance",
      "holds a NIC of this machine to the contract; source tree only (options: lanyard conformance --help)");
  command->set_help_flag();
  command->prefix_command();
  command->callback([command, &status] { status = run(command->remaining()); });
}

}  // namespace lanyard::tools
