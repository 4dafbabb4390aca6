// lanyard: runs the shipped protocol under schedules of the deterministic engine, lists a machine's
// NICs, and models how long programs would take. See tools/README.md.
#include <fmt/format.h>

#include "tools/lanyard/command.h"

int main(int argc, char** argv) {
  using lanyard::tools::Failure;
  int status = 0;
  CLI::App app{
      "Tests stream-triggered MPI programs on a simulated job, lists network cards, and models how long programs "
      "take."};
  app.name("lanyard")->require_subcommand(1);
  app.footer(lanyard::nicsim::Config::help());
  lanyard::tools::add_fuzz(app, status);
  lanyard::tools::add_explore(app, status);
  lanyard::tools::add_replay(app, status);
  lanyard::tools::add_info(app);
  lanyard::tools::add_model(app);
  const auto complain = [](const Failure& failure) {
    fmt::print(stderr, "lanyard: {}\n", failure.what);
    return failure.status;
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0
               ? app.exit(error)
               : complain({lanyard::tools::kExitUsage, std::string(error.what()) + " (see --help)"});
  } catch (const Failure& failure) {
    return complain(failure);
  }
  return status;
}
