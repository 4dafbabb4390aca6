// lanyard trace: one schedule as a trace for ui.perfetto.dev.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "nicsim/deterministic/story.h"
#include "nicsim/deterministic/world.h"
#include "tools/lanyard/command.h"

namespace lanyard::tools {

namespace {

struct Options {
  RunName run;
  std::string perfetto;
};

void declare(CLI::App& app, Options& o) {
  o.run.declare(app);
  app.add_option("--perfetto", o.perfetto, "writes a trace for ui.perfetto.dev; -: to stdout")
      ->type_name("FILE")
      ->required();
}

// An empty string, or why the text cannot be written.
std::string write(const std::string& path, const std::string& text) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (file == nullptr)
    return path + ": " + std::strerror(errno);
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written = (file == stdout ? std::fflush(file) : std::fclose(file)) == 0 && written;
  return written ? "" : path + ": " + std::strerror(errno);
}

int trace(const Options& o) {
  const Result<Run> run = Run::parse(o.run);
  if (!run.ok())
    return usage_error(run.status().message());
  nicsim::World world(run.value().scenario, run.value().config.world);
  const nicsim::Story story = nicsim::Story::tell(world, run.value().schedule);
  if (const std::string why = write(o.perfetto, story.perfetto_trace()); !why.empty())
    return trouble(why);
  return 0;
}

}  // namespace

void add_trace(CLI::App& app, int& status) {
  CLI::App* command = add_subcommand(app, "trace", "draws one schedule");
  const auto options = std::make_shared<Options>();
  declare(*command, *options);
  command->callback([options, &status] { status = trace(*options); });
}

}  // namespace lanyard::tools
