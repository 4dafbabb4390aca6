#include "bench/pattern_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bench/payload.h"

namespace lanyard::bench {
namespace {

using Edges = std::vector<Pattern::Edge>;

// Of a shape whose numbers are right but for this one.
uint64_t edge_count(const Shape& s) {
  const auto nodes = static_cast<uint64_t>(s.nodes), k = static_cast<uint64_t>(s.subgroup);
  uint64_t of_a_pair = k;
  if (s.family == Family::kSelf)
    return nodes * k;
  if (s.family == Family::kFan)
    of_a_pair = k * static_cast<uint64_t>(s.group);
  if (s.family == Family::kDense)
    of_a_pair = k * k;
  if (s.direction == Direction::kOmni)
    return of_a_pair * nodes * (nodes - 1);
  return of_a_pair * (nodes - 1) * (s.direction == Direction::kBi ? 2 : 1);
}

// But for their number.
std::string mistake(const Shape& s) {
  if (s.nodes < 1 || s.group < 1 || s.nodes > Pattern::kMostRanks / s.group)
    return fmt::format("{} nodes of {} ranks: both are at least 1, and {} ranks the most", s.nodes, s.group,
                       Pattern::kMostRanks);
  if (s.subgroup < 1 || s.subgroup > s.group)
    return fmt::format("a subgroup of {} ranks in a group of {}: it has 1 to {}", s.subgroup, s.group, s.group);
  if (s.family == Family::kSelf)
    return s.direction == Direction::kOut ? "" : "what goes to itself has no direction: leave it at out";
  if (s.nodes < 2)
    return "1 node: between nodes there are at least 2";
  if (s.family != Family::kFan)
    return "";
  if (s.nodes != 2)
    return fmt::format("{} nodes: a fan is between 2", s.nodes);
  return s.direction == Direction::kOmni ? "a fan goes out, in or bi: omni is of nodes that are alike" : "";
}

// From one node to another.
void connect(const Shape& s, int from, int to, Edges& edges) {
  const int receivers = s.family == Family::kFan ? s.group : s.subgroup;
  for (int i = 0; i < s.subgroup; ++i)
    for (int j = 0; j < receivers; ++j)
      if (s.family != Family::kRail || i == j)
        edges.push_back({from * s.group + i, to * s.group + j, s.bytes});
}

// The same messages the other way.
Edges reversed(Edges edges) {
  for (Pattern::Edge& edge : edges)
    std::swap(edge.source, edge.destination);
  std::stable_sort(edges.begin(), edges.end(), [](const Pattern::Edge& a, const Pattern::Edge& b) {
    return std::pair(a.source, a.destination) < std::pair(b.source, b.destination);
  });
  return edges;
}

// Numbers that look random and are the same everywhere.
class Lottery {
 public:
  explicit Lottery(uint64_t seed) : seed_(mix(seed)) {}
  uint64_t below(uint64_t bound) { return mix(seed_ ^ ++drawn_) % bound; }

 private:
  const uint64_t seed_;
  uint64_t drawn_ = 0;
};

std::string mistake(const IrregularShape& s) {
  if (s.ranks < 2 || s.ranks > Pattern::kMostRanks)
    return fmt::format("{} ranks: there are 2 to {}", s.ranks, Pattern::kMostRanks);
  if (s.least < 1 || s.least > s.most || s.most > s.ranks)
    return fmt::format("{} to {} messages a row: a row has 1 to {}", s.least, s.most, s.ranks);
  const int64_t spread = s.most - s.least, ranks = s.ranks;
  const int64_t fewest = ranks * s.least + spread, most = ranks * s.most - spread;
  if (s.messages < fewest || s.messages > most)
    return fmt::format("{} messages: {} rows of {} to {}, both of which occur, have {} to {}", s.messages, s.ranks,
                       s.least, s.most, fewest, most);
  if (s.messages == ranks * ranks)
    return fmt::format("{} messages are all that there can be: none goes one way only", s.messages);
  if (s.bytes < static_cast<uint64_t>(s.messages) || s.bytes > Pattern::kMostMemory)
    return fmt::format("{} bytes: {} messages have {} to {}", s.bytes, s.messages, s.messages, Pattern::kMostMemory);
  return "";
}

std::vector<int> draw_counts(const IrregularShape& s, Lottery& lottery) {
  const uint64_t ranks = static_cast<uint64_t>(s.ranks);
  std::vector<int> counts(ranks, s.least);
  const uint64_t most = lottery.below(ranks);
  counts[most] = s.most;
  const uint64_t least = (most + 1 + lottery.below(ranks - 1)) % ranks;
  int left = s.messages - std::accumulate(counts.begin(), counts.end(), 0);
  while (left > 0) {
    const uint64_t row = lottery.below(ranks);
    if (row == least || counts[row] == s.most)
      continue;
    ++counts[row];
    --left;
  }
  return counts;
}

uint64_t distance(int a, int b) { return static_cast<uint64_t>(a < b ? b - a : a - b); }

// Those of a row: itself, and of the others near ones rather than far ones, as partitions of a volume have neighbours.
std::vector<int> draw_row(int row, int count, int ranks, Lottery& lottery) {
  std::vector<std::pair<uint64_t, int>> tickets;
  for (int column = 0; column < ranks; ++column)
    tickets.emplace_back(column == row ? 0 : distance(row, column) * (1 + lottery.below(1000)), column);
  std::sort(tickets.begin(), tickets.end());
  std::vector<int> columns;
  for (int i = 0; i < count; ++i)
    columns.push_back(tickets[static_cast<size_t>(i)].second);
  std::sort(columns.begin(), columns.end());
  return columns;
}

bool has_one_way(const Edges& edges) {
  std::vector<std::pair<int, int>> there, back;
  for (const Pattern::Edge& edge : edges) {
    there.emplace_back(edge.source, edge.destination);
    back.emplace_back(edge.destination, edge.source);
  }
  std::sort(there.begin(), there.end());
  std::sort(back.begin(), back.end());
  return there != back;
}

// Near ones have more, at least a byte each, all of them together s.bytes.
void draw_bytes(const IrregularShape& s, Lottery& lottery, Edges& edges) {
  std::vector<uint64_t> weights;
  for (const Pattern::Edge& edge : edges)
    weights.push_back(1 + (100 + lottery.below(1000)) / (1 + distance(edge.source, edge.destination)));
  const uint64_t sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  uint64_t left = s.bytes;
  for (size_t i = 0; i < edges.size(); ++i) {
    edges[i].bytes = 1 + (s.bytes - edges.size()) * weights[i] / sum;
    left -= edges[i].bytes;
  }
  for (size_t i = 0; i < left; ++i)
    ++edges[i].bytes;
}

}  // namespace

Result<Pattern> make_pattern(const Shape& shape) {
  if (const std::string what = mistake(shape); !what.empty())
    return Status(Code::kInvalidArgument, what);
  if (const uint64_t edges = edge_count(shape); edges > Pattern::kMostMessages)
    return Status(Code::kInvalidArgument, fmt::format("{} messages: {} are the most", edges, Pattern::kMostMessages));
  Edges edges;
  if (shape.family == Family::kSelf) {
    for (int node = 0; node < shape.nodes; ++node)
      for (int i = 0; i < shape.subgroup; ++i)
        edges.push_back({node * shape.group + i, node * shape.group + i, shape.bytes});
  } else if (shape.direction == Direction::kOmni) {
    for (int from = 0; from < shape.nodes; ++from)
      for (int to = 0; to < shape.nodes; ++to)
        if (from != to)
          connect(shape, from, to, edges);
  } else {
    Edges out;
    for (int node = 1; node < shape.nodes; ++node)
      connect(shape, 0, node, out);
    if (shape.direction != Direction::kIn)
      edges = out;
    if (shape.direction != Direction::kOut) {
      const Edges in = reversed(out);
      edges.insert(edges.end(), in.begin(), in.end());
    }
  }
  return Pattern::laid_out(edges);
}

Result<Pattern> make_irregular(const IrregularShape& shape) {
  if (const std::string what = mistake(shape); !what.empty())
    return Status(Code::kInvalidArgument, what);
  constexpr int kDraws = 100;
  Lottery lottery(shape.seed);
  for (int draw = 0; draw < kDraws; ++draw) {
    Edges edges;
    const std::vector<int> counts = draw_counts(shape, lottery);
    for (int row = 0; row < shape.ranks; ++row)
      for (const int column : draw_row(row, counts[static_cast<size_t>(row)], shape.ranks, lottery))
        edges.push_back({row, column, 0});
    if (!has_one_way(edges))
      continue;
    draw_bytes(shape, lottery, edges);
    return Pattern::laid_out(edges);
  }
  return Status(Code::kInvalidArgument,
                fmt::format("{} draws gave no matrix with a message that goes one way only", kDraws));
}

}  // namespace lanyard::bench
