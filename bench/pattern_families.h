// The patterns between groups of ranks that CommBench is named for (sections 4.3.1 and 4.3.2 of the paper), and the
// matrices of an irregular application (section 4.4).
//
// Rank r is place r mod g of node r / g. Node 0 is the primary one.
#ifndef LANYARD_BENCH_PATTERN_FAMILIES_H_
#define LANYARD_BENCH_PATTERN_FAMILIES_H_

#include <cstdint>

#include "bench/pattern.h"
#include "transport/base/status.h"

namespace lanyard::bench {

enum class Family : uint8_t {
  kRail,   // place i of one node to place i of another, i < k
  kFan,    // the first k places of node 0 to all g of node 1: the paper's asymmetric family
  kDense,  // the first k places of one node to the first k of another: the symmetric family
  kSelf,   // the first k places of each node to themselves
};

// From the primary node to the others; from them; both; or from every node to every other one.
enum class Direction : uint8_t { kOut, kIn, kBi, kOmni };

struct Shape {
  int nodes = 2;     // n
  int group = 1;     // g, ranks of a node
  int subgroup = 1;  // k, of those
  Family family = Family::kRail;
  Direction direction = Direction::kOut;
  uint64_t bytes = 1;  // of each message
};

// Messages are in the order of node pairs, of which bi has all outward ones first, then by source, then by destination.
// kInvalidArgument: no such shape, or too many messages. A fan has two nodes, and so no omni; self has no direction but
// kOut.
Result<Pattern> make_pattern(const Shape& shape);

// A distributed sparse matrix's messages, drawn: so many in all, so many a row at least and at most, both of which
// occur; each rank has one to itself, and some goes one way only.
struct IrregularShape {
  int ranks = 16;
  int messages = 169;
  int least = 7, most = 15;     // of a row
  uint64_t bytes = 92'900'000;  // of all
  uint64_t seed = 1;
};
inline constexpr IrregularShape kIrregular16{};
inline constexpr IrregularShape kIrregular48{
    .ranks = 48, .messages = 974, .least = 10, .most = 29, .bytes = 176'300'000};

// The same on every machine. kInvalidArgument: the numbers contradict each other.
Result<Pattern> make_irregular(const IrregularShape& shape);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PATTERN_FAMILIES_H_
