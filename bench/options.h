// Command lines of the benchmarks: what all of them share.
#ifndef LANYARD_BENCH_OPTIONS_H_
#define LANYARD_BENCH_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "bench/mpi_process.h"

namespace lanyard::bench {

constexpr int kExitMismatch = 1;
constexpr int kExitUsage = 2;

enum class Format { kText, kCsv, kJson };

inline void add_format(CLI::App& app, Format& format) {
  static const std::map<std::string, Format> kFormats = {
      {"text", Format::kText}, {"csv", Format::kCsv}, {"json", Format::kJson}};
  app.add_option_function<std::string>(
         "--format", [&format](const std::string& name) { format = kFormats.at(name); },
         "text, csv or json (default: text)")
      ->check(CLI::IsMember({"text", "csv", "json"}))
      ->type_name("NAME");
}

// Parses on every rank alike, prints on the first. The exit status when the program is to end now:
// 0 after --help, kExitUsage after a mistake.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv, const MpiProcess& process) {
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

// Says on the first rank what is wrong with the call of a program, and returns kExitUsage.
inline int usage_error(const MpiProcess& process, const char* program, const std::string& what) {
  if (process.is_first())
    std::fprintf(stderr, "%s: %s (see --help)\n", program, what.c_str());
  return kExitUsage;
}

// A CSV field: quoted where it must be.
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos)
    return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"')
      quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_OPTIONS_H_
