#include "tests/interleaving/strategy.h"

#include <algorithm>

namespace lanyard::interleaving {

namespace {

// Programs may spin without giving way where somebody else is sure to go on; under strict priorities nobody would.
constexpr uint32_t kPatience = 300;

}  // namespace

Strategy::Strategy(uint64_t seed)
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

uint32_t Strategy::next(std::span<const uint32_t> able, uint32_t running, bool gives_way) {
  ++taken_;
  return has_priorities_ ? highest(able, running, gives_way) : walk(able, running, gives_way);
}

uint32_t Strategy::walk(std::span<const uint32_t> able, uint32_t running, bool gives_way) {
  const bool can_stay = std::find(able.begin(), able.end(), running) != able.end();
  if (can_stay && !gives_way && calm_ > 1 && random_.below(calm_) != 0)
    return running;
  return able[random_.below(static_cast<uint32_t>(able.size()))];
}

uint32_t Strategy::highest(std::span<const uint32_t> able, uint32_t running, bool gives_way) {
  const bool changes = std::find(changes_.begin(), changes_.end(), taken_) != changes_.end();
  if (running < kMostThreads && (gives_way || changes || in_a_row_ > kPatience))
    priorities_[running] = --lowest_;
  const uint32_t next = *std::max_element(able.begin(), able.end(),
                                          [&](uint32_t a, uint32_t b) { return priorities_[a] < priorities_[b]; });
  in_a_row_ = next == running ? in_a_row_ + 1 : 0;
  return next;
}

}  // namespace lanyard::interleaving
