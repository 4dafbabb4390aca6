#include "bench/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace lanyard::bench {
namespace {

// What a message does with bytes of a rank's memory.
struct Access {
  int rank = 0;
  uint64_t begin = 0, end = 0;
  bool writes = false;
  size_t message = 0;
};

std::string mistake(const Message& m) {
  for (const int rank : {m.source, m.destination})
    if (rank < 0 || rank >= Pattern::kMostRanks)
      return fmt::format("rank {} is none of 0 to {}", rank, Pattern::kMostRanks - 1);
  if (m.bytes < 1 || m.bytes > Pattern::kMostBytes)
    return fmt::format("{} bytes, and a message has 1 to {}", m.bytes, Pattern::kMostBytes);
  for (const uint64_t offset : {m.source_offset, m.destination_offset})
    if (offset > Pattern::kMostMemory - m.bytes)
      return fmt::format("offset {} is beyond {} bytes of memory", offset, Pattern::kMostMemory);
  return "";
}

// The first two accesses, in the order of memory, of which one writes what the other reads or writes.
std::string conflict(const std::vector<Message>& messages) {
  std::vector<Access> accesses;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& m = messages[i];
    accesses.push_back({m.source, m.source_offset, m.source_offset + m.bytes, false, i});
    accesses.push_back({m.destination, m.destination_offset, m.destination_offset + m.bytes, true, i});
  }
  std::sort(accesses.begin(), accesses.end(),
            [](const Access& a, const Access& b) { return std::pair(a.rank, a.begin) < std::pair(b.rank, b.begin); });
  // Of what begins before: what reaches furthest, and what of the writes does.
  const Access* furthest = nullptr;
  const Access* write = nullptr;
  for (const Access& access : accesses) {
    if (furthest != nullptr && furthest->rank != access.rank)
      furthest = write = nullptr;
    const Access* const before = access.writes ? furthest : write;
    if (before != nullptr && before->end > access.begin)
      return fmt::format("message {} {} and message {} {} bytes {} to {} of rank {}", before->message,
                         before->writes ? "writes" : "reads", access.message, access.writes ? "writes" : "reads",
                         access.begin, std::min(before->end, access.end) - 1, access.rank);
    if (furthest == nullptr || access.end > furthest->end)
      furthest = &access;
    if (access.writes && (write == nullptr || access.end > write->end))
      write = &access;
  }
  return "";
}

uint64_t aligned(uint64_t bytes) {
  return (bytes + Pattern::kAlignment - 1) / Pattern::kAlignment * Pattern::kAlignment;
}

}  // namespace

Result<Pattern> Pattern::of(std::vector<Message> messages) {
  for (size_t i = 0; i < messages.size(); ++i)
    if (const std::string what = mistake(messages[i]); !what.empty())
      return Status(Code::kInvalidArgument, fmt::format("message {}: {}", i, what));
  if (const std::string what = conflict(messages); !what.empty())
    return Status(Code::kInvalidArgument, what);
  return Pattern(std::move(messages));
}

Result<Pattern> Pattern::laid_out(std::span<const Edge> edges) {
  std::map<int, uint64_t> out, in;  // by rank
  std::vector<Message> messages;
  const auto take = [](uint64_t& next, uint64_t bytes) { return std::exchange(next, next + aligned(bytes)); };
  for (const Edge& edge : edges) {
    messages.push_back({edge.source, edge.destination, 0, 0, edge.bytes});
    if (const std::string what = mistake(messages.back()); !what.empty())
      return Status(Code::kInvalidArgument, fmt::format("message {}: {}", messages.size() - 1, what));
    messages.back().source_offset = take(out[edge.source], edge.bytes);
  }
  for (Message& m : messages)
    m.destination_offset = out[m.destination] + take(in[m.destination], m.bytes);
  return of(std::move(messages));
}

Pattern::Pattern(std::vector<Message> messages) : messages_(std::move(messages)) {
  for (const Message& m : messages_) {
    uint64_t& from = memory_[m.source];
    from = std::max(from, m.source_offset + m.bytes);
    uint64_t& to = memory_[m.destination];
    to = std::max(to, m.destination_offset + m.bytes);
  }
}

uint64_t Pattern::bytes() const {
  uint64_t sum = 0;
  for (const Message& m : messages_)
    sum += m.bytes;
  return sum;
}

std::vector<uint64_t> Pattern::matrix(int ranks) const {
  LANYARD_CHECK(ranks >= this->ranks(), "a matrix has all ranks of its pattern");
  const size_t side = static_cast<size_t>(ranks);
  std::vector<uint64_t> cells(side * side);
  for (const Message& m : messages_)
    cells[static_cast<size_t>(m.source) * side + static_cast<size_t>(m.destination)] += m.bytes;
  return cells;
}

template <class Condition>
Pattern Pattern::only(Condition&& holds) const {
  std::vector<Message> some;
  std::copy_if(messages_.begin(), messages_.end(), std::back_inserter(some), holds);
  return Pattern(std::move(some));
}

Pattern Pattern::within(int group) const {
  return only([&](const Message& m) { return m.source / group == m.destination / group; });
}

Pattern Pattern::between(int group) const {
  return only([&](const Message& m) { return m.source / group != m.destination / group; });
}

Result<Pattern> Pattern::shifted(uint64_t bytes) const {
  if (bytes > kMostMemory)
    return Status(Code::kInvalidArgument, fmt::format("a shift by {} bytes is beyond a rank's memory", bytes));
  std::vector<Message> moved = messages_;
  for (Message& m : moved) {
    m.source_offset += bytes;
    m.destination_offset += bytes;
  }
  return of(std::move(moved));
}

Result<Pattern> Pattern::with(const Pattern& other) const {
  std::vector<Message> all = messages_;
  all.insert(all.end(), other.messages_.begin(), other.messages_.end());
  return of(std::move(all));
}

}  // namespace lanyard::bench
