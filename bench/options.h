// Command lines of the benchmarks: what all of them share.
#ifndef LANYARD_BENCH_OPTIONS_H_
#define LANYARD_BENCH_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "bench/format.h"
#include "bench/mpi_process.h"

namespace lanyard::bench {

constexpr int kExitMismatch = 1;
constexpr int kExitUsage = 2;

// --format and --memory.
void add_format(CLI::App& app, Format& format);
void add_memory(CLI::App& app, std::string& memory);

// Parses on every rank alike, prints on the first. The exit status when the program is to end now:
// 0 after --help, kExitUsage after a mistake.
std::optional<int> parse(CLI::App& app, int argc, char** argv, const MpiProcess& process);

// Says on the first rank what is wrong with the call of a program, and returns kExitUsage.
int usage_error(const MpiProcess& process, const char* program, const std::string& what);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_OPTIONS_H_
