// The options that say which patterns are meant, for every program that takes patterns. No MPI.
#ifndef LANYARD_BENCH_PATTERNS_OPTIONS_H_
#define LANYARD_BENCH_PATTERNS_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/patterns/pattern.h"
#include "transport/base/status.h"

namespace lanyard::bench::patterns {

struct PatternOptions {
  std::vector<std::string> patterns = {"rail"};  // families, collectives, files
  std::vector<std::string> directions = {"out"};
  std::vector<int> subgroups;   // none: the group
  std::vector<uint64_t> bytes;  // none: 65536, and 4 of a file's count
  int nodes = 2;
  int group = 1;
  bool divide = false;
  bool stripes = false;
  enum class Order : uint8_t { kApart, kSequence, kConcurrent };
  Order order = Order::kApart;  // of several patterns
};

// --pattern, --direction, --subgroup, --divide, --stripe.
void add_pattern_options(CLI::App& app, PatternOptions& options);

// One plan that the options ask for.
struct PatternCase {
  std::string name;
  std::string direction = "-";  // "-": it has none, and no subgroup
  int subgroup = 0;
  uint64_t bytes = 0;       // of a message, or of a file's count
  uint64_t data_bytes = 0;  // of all messages before striping
  Plan plan;
};

// Every combination of the lists, as far as it makes a difference. kInvalidArgument, and why.
Result<std::vector<PatternCase>> make_cases(const PatternOptions& options);

}  // namespace lanyard::bench::patterns

#endif  // LANYARD_BENCH_PATTERNS_OPTIONS_H_
