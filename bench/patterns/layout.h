// Layout: where a plan's data lies in one rank's memory, what it must be, and what the rank sends
// and receives from and to there. No MPI.
//
// Each message that a rank receives has a place of its own, so no message overwrites what another
// step reads, however far ahead a peer is. What a rank sends of its own has one place for each
// range of addresses.
#ifndef LANYARD_BENCH_PATTERNS_LAYOUT_H_
#define LANYARD_BENCH_PATTERNS_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/patterns/pattern.h"

namespace lanyard::bench::patterns {

// One side of a message.
struct Transfer {
  int peer = 0;
  size_t at = 0;  // in the rank's memory
  uint64_t bytes = 0;
};

struct RankStep {
  std::vector<Transfer> receives, sends;  // in the pattern's order
  struct Combination {
    size_t to = 0, from = 0;
    uint64_t bytes = 0;
  };
  // After the messages: what is at `to` becomes the exclusive or of itself and what is at `from`.
  std::vector<Combination> combinations;
};

class Layout {
 public:
  static constexpr size_t kAlignment = 64;

  // Requires a rank of `ranks`, which are at least the plan's.
  Layout(const Plan& plan, int rank, int ranks);

  const std::vector<RankStep>& steps() const { return steps_; }
  size_t bytes() const { return bytes_; }  // of the memory

  // Before the plan is carried out: the rank's own data, and the complement of what must come.
  void fill(std::span<std::byte> memory, uint64_t iteration) const;
  // After it has been carried out once: the first byte that is wrong, in words; nothing if all are
  // right.
  std::optional<std::string> verify(std::span<const std::byte> memory, uint64_t iteration) const;

 private:
  // Data at one place of the memory. A byte of it is the exclusive or, over some ranks, of the hash
  // of rank, address and iteration.
  struct Place {
    size_t at = 0;
    uint64_t offset = 0;  // its address
    uint64_t bytes = 0;
    // The ranks before and after the plan is carried out. Before: none where a message comes, which
    // is one of that step from that source.
    std::vector<int> before, after;
    int step = 0, source = 0;
  };
  class Simulation;

  std::byte expected(const std::vector<int>& ranks, uint64_t address, uint64_t iteration) const;

  std::vector<RankStep> steps_;
  std::vector<Place> places_;
  size_t bytes_ = kAlignment;
};

}  // namespace lanyard::bench::patterns

#endif  // LANYARD_BENCH_PATTERNS_LAYOUT_H_
