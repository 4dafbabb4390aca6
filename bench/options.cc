#include "bench/options.h"

#include <cstdio>
#include <map>
#include <sstream>

namespace lanyard::bench {

void add_format(CLI::App& app, Format& format) {
  static const std::map<std::string, Format> kFormats = {
      {"text", Format::kText}, {"csv", Format::kCsv}, {"json", Format::kJson}};
  app.add_option_function<std::string>(
         "--format", [&format](const std::string& name) { format = kFormats.at(name); },
         "text, csv or json (default: text)")
      ->check(CLI::IsMember({"text", "csv", "json"}))
      ->type_name("NAME");
}

void add_memory(CLI::App& app, std::string& memory) {
  app.add_option("--memory", memory,
                 "host; device: buffers, kernels and streams of a GPU, where there is one (default: "
                 "host)")
      ->check(CLI::IsMember({"host", "device"}));
}

std::optional<int> parse(CLI::App& app, int argc, char** argv, const MpiProcess& process) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const bool is_help = app.exit(error, out, err) == 0;
    if (process.is_first())
      std::fprintf(stdout, "%s", out.str().c_str());
    if (process.is_first())
      std::fprintf(stderr, "%s", err.str().c_str());
    return is_help ? 0 : kExitUsage;
  }
  return std::nullopt;
}

int usage_error(const MpiProcess& process, const char* program, const std::string& what) {
  if (process.is_first())
    std::fprintf(stderr, "%s: %s (see --help)\n", program, what.c_str());
  return kExitUsage;
}

}  // namespace lanyard::bench
