// SeenRuns: how many different runs there were among many, by their trace hashes, in memory of one size.
#ifndef LANYARD_TOOLS_LANYARD_SEEN_RUNS_H_
#define LANYARD_TOOLS_LANYARD_SEEN_RUNS_H_

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

namespace lanyard::tools {

// Threads: any.
class SeenRuns {
 public:
  // Remembers at most `capacity` runs, in 8 bytes each.
  explicit SeenRuns(uint64_t capacity) : places_(std::bit_ceil(capacity)) {}

  void insert(uint64_t hash) {
    hash += hash == 0 ? 1 : 0;  // 0 is an empty place
    for (uint64_t i = 0; i < kTries; ++i) {
      std::atomic<uint64_t>& place = places_[(hash + i) & (places_.size() - 1)];
      uint64_t found = place.load(std::memory_order_relaxed);
      if (found == 0 && place.compare_exchange_strong(found, hash, std::memory_order_relaxed)) {
        count_.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      if (found == hash)
        return;
    }
    full_.store(true, std::memory_order_relaxed);
  }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  // Whether there was a run for which no place was left: there are more than count().
  bool full() const { return full_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kTries = 16;

  std::vector<std::atomic<uint64_t>> places_;
  std::atomic<uint64_t> count_{0};
  std::atomic<bool> full_{false};
};

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_SEEN_RUNS_H_
