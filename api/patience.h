// Patience: how long a blocking call goes on before it complains, and before it gives up.
#ifndef LANYARD_API_PATIENCE_H_
#define LANYARD_API_PATIENCE_H_

#include <chrono>
#include <cstdio>
#include <string>

#include "api/settings.h"

namespace lanyard::api {

// One blocking call, from construction on. `settings` outlives it.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Patience(const Settings& settings) : settings_(settings) {}

  Clock::time_point begin() const { return begin_; }
  // Prints once, when LANYARD_WARN_S have passed, "lanyard: rank 0 has waited 10000 ms" and what describe() returns.
  // Returns whether LANYARD_DEADLINE_S have passed.
  template <typename Describe>
  bool is_over(uint32_t rank, Describe describe) {
    const Clock::duration waited = Clock::now() - begin_;
    if (!warned_ && settings_.warn_after.count() > 0 && waited > settings_.warn_after) {
      warned_ = true;
      const auto ms = static_cast<long long>(settings_.warn_after.count());
      std::fprintf(stderr, "lanyard: rank %u has waited %lld ms %s\n", rank, ms, std::string(describe()).c_str());
    }
    return settings_.deadline.count() > 0 && waited > settings_.deadline;
  }

 private:
  const Settings& settings_;
  const Clock::time_point begin_ = Clock::now();
  bool warned_ = false;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_PATIENCE_H_
