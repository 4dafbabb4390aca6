// A plan as text, as CSV, and as a picture of its byte matrix.
#ifndef LANYARD_BENCH_PATTERNS_DESCRIPTION_H_
#define LANYARD_BENCH_PATTERNS_DESCRIPTION_H_

#include <string>

#include "bench/patterns/pattern.h"

namespace lanyard::bench::patterns {

// The bytes from each rank (row) to each rank (column).
std::string matrix_text(const Plan& plan);
// step,source,destination,offset,bytes: a line a message.
std::string messages_csv(const Plan& plan);
// The matrix as an SVG: the darker, the more bytes. Lines stand between nodes of `group` ranks, and
// the last node is whole.
std::string matrix_svg(const Plan& plan, int group);

}  // namespace lanyard::bench::patterns

#endif  // LANYARD_BENCH_PATTERNS_DESCRIPTION_H_
