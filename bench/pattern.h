// Pattern: messages that go at once, as a value that never changes: which ranks, from where to where, how many bytes.
// After CommBench (Hidayetoglu et al., ICS '24, sections 4.1 to 4.3). No MPI.
//
// Every rank has one piece of memory. A message takes bytes from the memory of its source and puts them into that of
// its destination. Nothing orders the messages of a pattern, so no byte that one of them writes is read or written by
// another one.
#ifndef LANYARD_BENCH_PATTERN_H_
#define LANYARD_BENCH_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "transport/base/status.h"

namespace lanyard::bench {

struct Message {
  int source = 0;
  int destination = 0;
  uint64_t source_offset = 0;
  uint64_t destination_offset = 0;
  uint64_t bytes = 0;

  friend bool operator==(const Message&, const Message&) = default;
};

class Pattern {
 public:
  static constexpr uint64_t kMostBytes = INT32_MAX;           // of a message: a count of MPI's
  static constexpr uint64_t kMostMemory = uint64_t{1} << 40;  // of a rank
  static constexpr int kMostRanks = 1 << 20;
  static constexpr uint64_t kMostMessages = uint64_t{1} << 24;  // of what is made or read, so that it fits in memory
  static constexpr uint64_t kAlignment = 64;  // of what laid_out() places: no two messages share a cache line

  // An edge of a pattern whose places do not matter.
  struct Edge {
    int source = 0;
    int destination = 0;
    uint64_t bytes = 0;
  };

  Pattern() = default;
  // kInvalidArgument, and what is wrong with which message, counted from 0.
  static Result<Pattern> of(std::vector<Message> messages);
  // Each message from and to a place of its own: a rank's memory has first what it sends, then what it receives, each
  // in the order of the edges. As of().
  static Result<Pattern> laid_out(std::span<const Edge> edges);

  std::span<const Message> messages() const { return messages_; }
  // The least number of ranks that have all of them.
  int ranks() const { return memory_.empty() ? 0 : memory_.rbegin()->first + 1; }
  // That the messages reach; 0 for ranks that have none.
  uint64_t memory(int rank) const {
    const auto at = memory_.find(rank);
    return at == memory_.end() ? 0 : at->second;
  }
  uint64_t bytes() const;
  // By source and destination, the row's length being that number of ranks, which are all that there are.
  std::vector<uint64_t> matrix(int ranks) const;

  // The messages that stay in a node of `group` ranks, and those that leave one, where they were.
  Pattern within(int group) const;
  Pattern between(int group) const;
  // The same messages with every place further on by so many bytes. kInvalidArgument: beyond kMostMemory.
  Result<Pattern> shifted(uint64_t bytes) const;
  // The messages of both. kInvalidArgument: they would disturb each other.
  Result<Pattern> with(const Pattern& other) const;

  friend bool operator==(const Pattern&, const Pattern&) = default;

 private:
  // Requires messages that of() takes.
  explicit Pattern(std::vector<Message> messages);
  template <class Condition>
  Pattern only(Condition&& holds) const;

  std::vector<Message> messages_;
  std::map<int, uint64_t> memory_;  // of the ranks that have a message: a file may name the highest rank alone
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PATTERN_H_
