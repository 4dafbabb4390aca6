#include "bench/patterns/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lanyard::bench::patterns {
namespace {

Status invalid(const std::string& what) { return {Code::kInvalidArgument, what}; }

Status check_sizes(int nodes, int group, uint64_t bytes) {
  if (nodes < 1 || group < 1 || nodes > Pattern::kMostRanks / group)
    return invalid(fmt::format("{} nodes of {} ranks: {} ranks are the most", nodes, group, Pattern::kMostRanks));
  if (bytes < 1 || bytes > Pattern::kMostBytes)
    return invalid(fmt::format("a message of {} bytes: it has 1 to {}", bytes, Pattern::kMostBytes));
  return {};
}

uint64_t divisor(const Shape& s) {
  const int others = s.nodes - 1;
  const int of_family[] = {others, s.group, s.subgroup * others, 1};
  return s.divide ? static_cast<uint64_t>(of_family[static_cast<size_t>(s.family)]) : 1;
}

Status check_shape(const Shape& s) {
  LANYARD_RETURN_IF_ERROR(check_sizes(s.nodes, s.group, s.bytes));
  if (s.subgroup < 1 || s.subgroup > s.group)
    return invalid(fmt::format("a subgroup of {} places of {}", s.subgroup, s.group));
  if (s.family != Family::kSelf && s.nodes < 2)
    return invalid("one node, and the pattern goes between nodes");
  if (s.family == Family::kFan && s.direction == Direction::kOmni)
    return invalid("a fan is not omni: its two sides differ");
  if (s.bytes < divisor(s))
    return invalid(fmt::format("{} bytes cannot be divided by {}", s.bytes, divisor(s)));
  return {};
}

}  // namespace

Pattern Pattern::of_own_data(std::vector<Message> messages) {
  uint64_t next = 0;
  for (Message& m : messages)
    m.offset = std::exchange(next, next + m.bytes);
  return Pattern(std::move(messages));
}

Pattern Pattern::reversed() const {
  std::vector<Message> turned = messages_;
  for (Message& m : turned)
    std::swap(m.source, m.destination);
  return Pattern(std::move(turned));
}

Pattern Pattern::with(const Pattern& other, uint64_t shift) const {
  std::vector<Message> both = messages_;
  for (Message m : other.messages_) {
    m.offset += shift;
    both.push_back(m);
  }
  return Pattern(std::move(both));
}

Result<Pattern> make_pattern(const Shape& s) {
  LANYARD_RETURN_IF_ERROR(check_shape(s));
  const uint64_t bytes = s.bytes / divisor(s);
  const bool is_omni = s.direction == Direction::kOmni;
  std::vector<Message> out;
  if (s.family == Family::kSelf) {
    for (int rank = 0; rank < s.nodes * s.group; ++rank)
      out.push_back({rank, rank, 0, bytes});
  } else {
    const int width = s.family == Family::kFan ? s.group : s.subgroup;
    for (int hop = 1; hop < s.nodes; ++hop)
      for (int from = 0; from < (is_omni ? s.nodes : 1); ++from)
        for (int turn = 0; turn < (s.family == Family::kRail ? 1 : width); ++turn)
          for (int place = 0; place < s.subgroup; ++place)
            out.push_back(
                {from * s.group + place, (from + hop) % s.nodes * s.group + (place + turn) % width, 0, bytes});
  }
  Pattern pattern(std::move(out));
  if (s.direction == Direction::kBi || (is_omni && s.family == Family::kSelf))
    pattern = pattern.with(pattern.reversed());
  if (s.direction == Direction::kIn)
    pattern = pattern.reversed();
  return Pattern::of_own_data(pattern.messages());
}

Plan::Plan(std::vector<Pattern> steps) : steps_(std::move(steps)) {
  std::erase_if(steps_, [](const Pattern& step) { return step.messages().empty(); });
  for (const Pattern& step : steps_)
    for (const Message& m : step.messages()) {
      ranks_ = std::max({ranks_, m.source + 1, m.destination + 1});
      ++messages_;
      bytes_ += m.bytes;
      extent_ = std::max(extent_, m.offset + m.bytes);
      combines_ = combines_ || m.combines;
    }
}

Plan Plan::then(const Plan& next) const {
  std::vector<Pattern> steps = steps_;
  for (const Pattern& step : next.steps_)
    steps.push_back(Pattern().with(step, extent_));
  return Plan(std::move(steps));
}

Plan Plan::beside(const Plan& other) const {
  std::vector<Pattern> steps = steps_;
  steps.resize(std::max(steps.size(), other.steps_.size()));
  for (size_t i = 0; i < other.steps_.size(); ++i)
    steps[i] = steps[i].with(other.steps_[i], extent_);
  return Plan(std::move(steps));
}

Plan striped(const Pattern& pattern, int group) {
  std::array<std::vector<Message>, 3> steps;
  auto& [split, translate, assemble] = steps;
  const auto count = static_cast<uint64_t>(group);
  for (const Message& m : pattern.messages()) {
    const int from = m.source / group * group, to = m.destination / group * group;
    if (from == to) {
      translate.push_back(m);
      continue;
    }
    uint64_t offset = m.offset;
    for (int place = 0; place < group && offset < m.offset + m.bytes; ++place) {
      const uint64_t bytes = m.bytes / count + (static_cast<uint64_t>(place) < m.bytes % count ? 1 : 0);
      if (from + place != m.source)
        split.push_back({m.source, from + place, offset, bytes});
      translate.push_back({from + place, to + place, offset, bytes});
      if (to + place != m.destination)
        assemble.push_back({to + place, m.destination, offset, bytes});
      offset += bytes;
    }
  }
  return Plan({Pattern(std::move(split)), Pattern(std::move(translate)), Pattern(std::move(assemble))});
}

Result<Plan> make_collective(Collective collective, int nodes, int group, uint64_t bytes) {
  LANYARD_RETURN_IF_ERROR(check_sizes(nodes, group, bytes));
  const int ranks = nodes * group;
  if (ranks < 2)
    return invalid("a collective of one rank sends nothing");
  const auto block = [&](int number) { return static_cast<uint64_t>(number) * bytes; };
  std::vector<Message> between, within;  // leaders; a leader and its node
  if (collective == Collective::kAllToAll) {
    for (int turn = 0; turn < ranks; ++turn)
      for (int rank = 0; rank < ranks; ++rank)
        between.push_back({rank, (rank + turn) % ranks, block(rank * ranks + (rank + turn) % ranks), bytes});
    return Plan({Pattern(std::move(between))});
  }
  // Outward as scatter and broadcast go.
  const bool combines = collective == Collective::kReduce;
  const bool has_blocks = collective == Collective::kScatter || collective == Collective::kGather;
  for (int leader = 0; leader < ranks; leader += group)
    for (int rank = leader; rank < leader + group; ++rank) {
      const uint64_t offset = has_blocks ? block(rank) : 0;
      if (leader != 0 && (has_blocks || rank == leader))
        between.push_back({0, leader, offset, bytes, combines});
      if (rank != leader)
        within.push_back({leader, rank, offset, bytes, combines});
    }
  const Pattern first(std::move(between)), second(std::move(within));
  if (collective == Collective::kGather || combines)
    return Plan({second.reversed(), first.reversed()});
  return Plan({first, second});
}

}  // namespace lanyard::bench::patterns
