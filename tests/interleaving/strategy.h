// Strategy: which of the threads that can go on does, and where bad luck strikes; all of it from one seed.
//
// A seed also draws the kind of strategy, because no single one finds every mistake soon:
//   a random walk that changes threads at one step in 1, 4, 16 or 64, or
//   random priorities that change at up to four steps (Burckhardt et al., ASPLOS 2010).
#ifndef LANYARD_TESTS_INTERLEAVING_STRATEGY_H_
#define LANYARD_TESTS_INTERLEAVING_STRATEGY_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "nicsim/deterministic/random.h"

namespace lanyard::interleaving {

class Strategy {
 public:
  static constexpr uint32_t kMostThreads = 16;

  explicit Strategy(uint64_t seed)
      : random_(seed),
        spurious_(random_.below(2) == 0),
        leaping_(random_.below(4) != 0),
        has_priorities_(random_.below(3) == 0),
        calm_(1u << (2 * random_.below(4))) {
    for (uint64_t& priority : priorities_)
      priority = kMiddle + random_.below(UINT32_MAX);
    // How long the schedule will be is not known: from 32 steps to 1,024.
    const uint32_t length = 32u << random_.below(6);
    const uint32_t count = 1 + random_.below(static_cast<uint32_t>(changes_.size()));
    for (uint32_t i = 0; i < changes_.size(); ++i)
      changes_[i] = i < count ? 1 + random_.below(length) : 0;
  }
  // One of `able`, in rising order and not empty. `running` may be among them; `gives_way`: it would rather not go on.
  uint32_t next(std::span<const uint32_t> able, uint32_t running, bool gives_way) {
    ++taken_;
    return has_priorities_ ? highest(able, running, gives_way) : walk(able, running, gives_way);
  }
  uint32_t below(uint32_t n) { return random_.below(n); }
  // Whether a weak compare-exchange fails now, or a sleep ends, without a reason.
  bool is_spurious() { return spurious_ && random_.below(32) == 0; }
  // Whether the clock is found to have gone on by far more than it takes to read it twice.
  bool leaps() { return leaping_ && random_.below(2) == 0; }

 private:
  // Programs may spin where somebody else is sure to go on; under strict priorities nobody would.
  static constexpr uint32_t kPatience = 300;
  static constexpr uint64_t kMiddle = uint64_t{1} << 32;  // priorities are drawn above it, and fall below it

  uint32_t walk(std::span<const uint32_t> able, uint32_t running, bool gives_way) {
    const bool can_stay = std::find(able.begin(), able.end(), running) != able.end();
    if (can_stay && !gives_way && calm_ > 1 && random_.below(calm_) != 0)
      return running;
    return able[random_.below(static_cast<uint32_t>(able.size()))];
  }
  uint32_t highest(std::span<const uint32_t> able, uint32_t running, bool gives_way) {
    const bool changes = std::find(changes_.begin(), changes_.end(), taken_) != changes_.end();
    if (running < kMostThreads && (gives_way || changes || in_a_row_ > kPatience))
      priorities_[running] = --lowest_;
    const uint32_t next = *std::max_element(able.begin(), able.end(),
                                            [&](uint32_t a, uint32_t b) { return priorities_[a] < priorities_[b]; });
    in_a_row_ = next == running ? in_a_row_ + 1 : 0;
    return next;
  }

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
};

}  // namespace lanyard::interleaving

#endif  // LANYARD_TESTS_INTERLEAVING_STRATEGY_H_
