// Strategy: which of the threads that can go on does, and where bad luck strikes; all of it from one seed.
//
// A seed also draws the kind of strategy, because no single one finds every mistake soon:
//   a random walk that changes threads at one step in 1, 4, 16 or 64, or
//   random priorities that change at up to four steps (Burckhardt et al., ASPLOS 2010).
#ifndef LANYARD_TESTS_INTERLEAVING_STRATEGY_H_
#define LANYARD_TESTS_INTERLEAVING_STRATEGY_H_

#include <array>
#include <cstdint>
#include <span>

#include "nicsim/deterministic/random.h"

namespace lanyard::interleaving {

class Strategy {
 public:
  static constexpr uint32_t kMostThreads = 16;

  explicit Strategy(uint64_t seed);
  // One of `able`, in rising order and not empty. `running` may be among them; `gives_way`: it would rather not go on.
  uint32_t next(std::span<const uint32_t> able, uint32_t running, bool gives_way);
  uint32_t below(uint32_t n) { return random_.below(n); }
  // Whether a weak compare-exchange fails now, or a sleep ends, without a reason.
  bool is_spurious() { return spurious_ && random_.below(32) == 0; }
  // Whether the clock is found to have gone on by far more than it takes to read it twice.
  bool leaps() { return leaping_ && random_.below(2) == 0; }

 private:
  uint32_t walk(std::span<const uint32_t> able, uint32_t running, bool gives_way);
  uint32_t highest(std::span<const uint32_t> able, uint32_t running, bool gives_way);

  nicsim::Random random_;
  const bool spurious_;
  const bool leaping_;
  const bool has_priorities_;
  const uint32_t calm_;  // a walk changes at one step in so many
  std::array<uint64_t, kMostThreads> priorities_{};
  std::array<uint32_t, 4> changes_{};  // at which steps the running thread falls behind all others
  uint64_t lowest_ = kMiddle;          // so far
  uint32_t taken_ = 0;
  uint32_t in_a_row_ = 0;

  static constexpr uint64_t kMiddle = uint64_t{1} << 32;  // priorities are drawn above it, and fall below it
};

}  // namespace lanyard::interleaving

#endif  // LANYARD_TESTS_INTERLEAVING_STRATEGY_H_
