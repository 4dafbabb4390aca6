// Plans as tidy CSV, a line a message:
//
//   step,source,destination,source_offset,destination_offset,bytes
//   0,0,1,0,4096,4096
//
// Columns come in any order; without a column `step` all messages are at once. Steps are counted from 0, and lines may
// be in any order. What combines is in no file.
#ifndef LANYARD_BENCH_PLAN_FILE_H_
#define LANYARD_BENCH_PLAN_FILE_H_

#include <string>
#include <string_view>

#include "bench/plan.h"
#include "transport/base/status.h"

namespace lanyard::bench {

// kInvalidArgument: what is wrong, and in which line of `name`.
Result<Plan> parse_plan(std::string_view text, const std::string& name);
// All of a file. kNotFound: it cannot be read.
Result<std::string> read_text(const std::string& path);
// As parse_plan() reads it.
std::string to_csv(const Plan& plan);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PLAN_FILE_H_
