// lanyard: runs the shipped protocol under schedules of the deterministic engine, lists a machine's
// NICs, and models how long programs would take. See tools/README.md.
#include <fmt/format.h>

#include "tools/lanyard/command.h"

namespace lanyard::tools {

namespace {

int complain(const std::string& what, int status) {
  fmt::print(stderr, "lanyard: {}\n", what);
  return status;
}

}  // namespace

int usage_error(const std::string& what) { return complain(what, kExitUsage); }

int trouble(const std::string& what) { return complain(what, kExitTrouble); }

}  // namespace lanyard::tools

int main(int argc, char** argv) {
  int status = 0;
  CLI::App app{
      "Tests stream-triggered MPI programs on a simulated job, lists network cards, and models how long programs "
      "take."};
  app.name("lanyard")->require_subcommand(1);
  app.footer(lanyard::nicsim::Config::help());
  lanyard::tools::add_fuzz(app, status);
  lanyard::tools::add_explore(app, status);
  lanyard::tools::add_replay(app, status);
  lanyard::tools::add_info(app, status);
  lanyard::tools::add_model(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    return lanyard::tools::usage_error(std::string(error.what()) + " (see --help)");
  }
  return status;
}
