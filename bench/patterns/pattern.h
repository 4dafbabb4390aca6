// Pattern: messages that go at once. Plan: patterns one after another. Immutable values without
// MPI, after CommBench (Hidayetoglu et al., ICS '24, sections 4.1 to 4.4).
//
// Node r holds the ranks r g .. r g + g - 1. A rank's place is its number inside its node.
// The data of a plan has addresses, the same ones on every rank. A message carries the bytes at
// offset .. offset + bytes - 1 of its source to the same addresses of its destination. A rank sends
// what an earlier step brought it there; where no message of an earlier step brought all of it, the
// rank sends data of its own.
#ifndef LANYARD_BENCH_PATTERNS_PATTERN_H_
#define LANYARD_BENCH_PATTERNS_PATTERN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "transport/base/status.h"

namespace lanyard::bench::patterns {

struct Message {
  int source = 0;
  int destination = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  // The destination combines it with its own data, by exclusive or, once all messages of the step
  // have come.
  bool combines = false;

  friend bool operator==(const Message&, const Message&) = default;
};

class Pattern {
 public:
  static constexpr uint64_t kMostBytes = INT32_MAX;  // of a message: an MPI count
  static constexpr int kMostRanks = 4096;            // so that a matrix of them has room in memory

  Pattern() = default;
  explicit Pattern(std::vector<Message> messages) : messages_(std::move(messages)) {}
  // The messages with new offsets: the data of each lies behind that of the one before.
  static Pattern of_own_data(std::vector<Message> messages);

  const std::vector<Message>& messages() const { return messages_; }
  // Every message the other way.
  Pattern reversed() const;
  // These messages and the other's. Data at the same address, but for the shift of the other's, is
  // the same data.
  Pattern with(const Pattern& other, uint64_t shift = 0) const;

 private:
  std::vector<Message> messages_;
};

enum class Family : uint8_t {
  kRail,   // place s to place s, s < k
  kFan,    // every place s < k to all g places
  kDense,  // every place s < k to every place d < k
  kSelf,   // every rank to itself
};
// From node 0 to all others; from them; both; from every node to every other one.
enum class Direction : uint8_t { kOut, kIn, kBi, kOmni };

struct Shape {
  Family family = Family::kRail;
  Direction direction = Direction::kOut;
  int nodes = 2;        // n
  int group = 1;        // g: ranks of a node
  int subgroup = 1;     // k: places that take part, at most g
  uint64_t bytes = 1;   // of a message
  bool divide = false;  // these bytes are divided: rail by n - 1, fan by g, dense by k (n - 1)
};
// Every message has data of its own. A rank sends to its own place first, then to the places behind
// it in turn, so that no place is everyone's first destination. kInvalidArgument: there is no such
// pattern, and why.
Result<Pattern> make_pattern(const Shape& shape);

// A file's messages, each with data of its own. Three numbers in the first line: a line each of
// source, destination and count. One number N: N lines of N counts follow, by source and
// destination. Else the first line is the first of as many lines of counts. `unit`: bytes of a
// count, from 1 on. kInvalidArgument: "PATH:LINE: REASON", or "PATH: REASON".
Result<Pattern> read_pattern(const std::string& path, uint64_t unit);

class Plan {
 public:
  Plan() = default;
  // Steps without messages are left out.
  explicit Plan(std::vector<Pattern> steps);

  const std::vector<Pattern>& steps() const { return steps_; }
  int ranks() const { return ranks_; }  // the least number that has all messages
  uint64_t messages() const { return messages_; }
  uint64_t bytes() const { return bytes_; }  // of all messages
  bool combines() const { return combines_; }

  // This plan, and then the other, on data of its own.
  Plan then(const Plan& next) const;
  // Both at once, step beside step, each on data of its own.
  Plan beside(const Plan& other) const;

 private:
  std::vector<Pattern> steps_;
  int ranks_ = 0;
  uint64_t messages_ = 0, bytes_ = 0;
  uint64_t extent_ = 0;  // the first address behind all data
  bool combines_ = false;
};

// Each message between nodes in three steps (section 4.2, figure 4). Split: its source gives every
// other place of its node a part. Translate: each place sends its part to its like in the other
// node. Assemble: these give them to the destination. Parts differ by one byte at most, the first
// are the longer ones, empty ones are not sent. A message inside a node goes whole, with the
// translation.
Plan striped(const Pattern& pattern, int group);

// `bytes` are a rank's contribution, rank 0 is the root. The leaders of nodes, their places 0, talk
// to each other and to the ranks of their nodes; all-to-all is one step. Broadcast and reduce: data
// at address 0. Scatter and gather: block r, of so many bytes, is that of rank r. All-to-all: block
// r * ranks + s goes from r to s.
enum class Collective : uint8_t { kBroadcast, kScatter, kGather, kReduce, kAllToAll };
// kInvalidArgument: sizes that cannot be.
Result<Plan> make_collective(Collective collective, int nodes, int group, uint64_t bytes);

// ---- Descriptions

// The bytes from each rank (row) to each rank (column).
std::string matrix_text(const Plan& plan);
// step,source,destination,offset,bytes: a line a message.
std::string messages_csv(const Plan& plan);
// The matrix as an SVG: the darker, the more bytes. Lines stand between nodes of `group` ranks, and
// the last node is whole.
std::string matrix_svg(const Plan& plan, int group);

}  // namespace lanyard::bench::patterns

#endif  // LANYARD_BENCH_PATTERNS_PATTERN_H_
