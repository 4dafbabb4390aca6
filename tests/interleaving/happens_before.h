// HappensBefore: which of a schedule's steps come before which by the program's own memory orders, and not only by the
// schedule's chance. So data that two threads touch with too weak an order between them is a fault, though every
// schedule runs under sequential consistency (vector clocks: Mattern 1988; as in FastTrack, PLDI 2009).
#ifndef LANYARD_TESTS_INTERLEAVING_HAPPENS_BEFORE_H_
#define LANYARD_TESTS_INTERLEAVING_HAPPENS_BEFORE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "tests/interleaving/strategy.h"

namespace lanyard::interleaving {

class HappensBefore {
 public:
  HappensBefore() {
    for (uint32_t i = 0; i < clocks_.size(); ++i)
      clocks_[i][i] = 1;
  }

  // What thread `to` does from now on comes after what `from` has done.
  void order(uint32_t from, uint32_t to) {
    join(clocks_[to], clocks_[from]);
    ++clocks_[from][from];
  }
  void load(uint32_t thread, const void* atomic, std::memory_order order) {
    if (acquires(order))
      join(clocks_[thread], released_[atomic]);
  }
  void store(uint32_t thread, const void* atomic, std::memory_order order) {
    Clock& released = released_[atomic];
    released = releases(order) ? clocks_[thread] : Clock{};
    ++clocks_[thread][thread];
  }
  // Continues the release sequence that it finds.
  void modify(uint32_t thread, const void* atomic, std::memory_order order) {
    load(thread, atomic, order);
    if (releases(order))
      join(released_[atomic], clocks_[thread]);
    ++clocks_[thread][thread];
  }
  // The thread touches data that only one thread at a time may. Returns whether who touched it last came before.
  bool touch(uint32_t thread, const void* data) {
    Touch& last = touched_[data];
    const bool ordered = last.when <= clocks_[thread][last.thread];
    last = {.thread = thread, .when = clocks_[thread][thread]};
    return ordered;
  }

 private:
  using Clock = std::array<uint32_t, Strategy::kMostThreads>;
  struct Touch {
    uint32_t thread = 0;
    uint32_t when = 0;
  };

  static bool acquires(std::memory_order order) {
    return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
  }
  static bool releases(std::memory_order order) {
    return order == std::memory_order_release || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
  }
  static void join(Clock& into, const Clock& other) {
    std::transform(into.begin(), into.end(), other.begin(), into.begin(),
                   [](uint32_t a, uint32_t b) { return std::max(a, b); });
  }

  std::array<Clock, Strategy::kMostThreads> clocks_{};
  std::unordered_map<const void*, Clock> released_;  // by atomic: what its last release sequence brings
  std::unordered_map<const void*, Touch> touched_;
};

}  // namespace lanyard::interleaving

#endif  // LANYARD_TESTS_INTERLEAVING_HAPPENS_BEFORE_H_
