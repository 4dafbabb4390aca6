// What `patterns` is asked for, and the plan that this is.
#ifndef LANYARD_BENCH_PATTERN_OPTIONS_H_
#define LANYARD_BENCH_PATTERN_OPTIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/plan.h"
#include "transport/base/status.h"

namespace lanyard::bench {

struct PatternOptions {
  std::vector<std::string> patterns = {"rail"};
  std::string order = "sequence";
  int nodes = 0;     // 0: as many as there are with `group` ranks each, else 2, of an odd number of ranks 1
  int group = 0;     // 0: the ranks over the nodes
  int subgroup = 0;  // 0: all of the group
  std::string direction = "out";
  uint64_t bytes = 65536;
  std::vector<uint64_t> stripes;  // none: `bytes` evenly
  uint64_t total_bytes = 0;       // 0: as many as the application has
  uint64_t seed = 1;
  std::string file;
  std::string part = "all";
};

// Their names.
std::span<const std::string_view> pattern_names();

// Sets what is 0 of nodes, group and subgroup, and stripes, for a job of so many ranks. kInvalidArgument: they do not
// fit together.
Status complete(PatternOptions& options, int ranks);
// Whether a pattern is one of ranks that come in nodes: not one that is read or drawn.
bool is_of_nodes(const PatternOptions& options);
// `text` is the file's. kInvalidArgument: what is wrong. Requires complete() options. A plan without a message is
// wrong.
Result<Plan> make_plan(const PatternOptions& options, std::string_view text);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PATTERN_OPTIONS_H_
