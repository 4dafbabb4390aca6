// Expectation: what a rank's memory holds before a plan and has to hold after it, in each round other bytes.
//
// What a message or a combining leaves, and nobody reads in the beginning, begins as the complement of what is
// expected, so a byte that was never written cannot pass by chance; all other bytes are a hash of rank, place and
// round. All of the memory is compared, what no message may write too.
#ifndef LANYARD_BENCH_EXPECTATION_H_
#define LANYARD_BENCH_EXPECTATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/contents.h"
#include "bench/plan.h"

namespace lanyard::bench {

class Expectation {
 public:
  // Of a plan that is carried out so many times, at least once, before anyone looks.
  Expectation(const Plan& plan, int rank, int ranks, int times = 1);

  uint64_t bytes() const { return bytes_; }
  // All of the memory, whose size that is.
  void begin(uint64_t round, std::span<std::byte> memory) const;
  // Nothing, or the first wrong byte and the last message to it.
  std::optional<std::string> mistake(uint64_t round, std::span<const std::byte> memory) const;

 private:
  struct Place {
    uint64_t offset = 0;
    Piece after;
    bool is_poisoned = false;
  };
  std::string writer(uint64_t offset) const;

  const Plan plan_;
  const int rank_;
  const uint64_t bytes_;
  std::vector<Place> places_;  // the memory, one after another
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_EXPECTATION_H_
