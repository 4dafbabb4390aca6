// Claims: shares out a long write that both sides copy at once. The receiver takes portions from
// its front, the sender from its back, each as fast as it can, until none is left.
//
// Claims lie in the receiver's memory, shared with the sender. One word holds the number of free
// portions and whether the sender is copying one. Each side counts its own portions, so it knows
// its next one.
#ifndef LANYARD_NICSIM_WIRE_CLAIMS_H_
#define LANYARD_NICSIM_WIRE_CLAIMS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace lanyard::nicsim {

// Shared between two processes. Orders only itself: frames order the data (inbox.h).
class Claims {
 public:
  static constexpr uint64_t kMinPortion = 64 * 1024;
  static constexpr uint64_t kMaxPortion = 256 * 1024;

  // Portion length for a write of `bytes`; the last portion may be shorter. Long portions need few
  // system calls; short ones let both sides end at nearly the same time. Whole pages, because the
  // kernel pins pages.
  static uint64_t portion(uint64_t bytes) {
    constexpr uint64_t kPage = 4096;
    return std::clamp((bytes / 2 + kPage - 1) / kPage * kPage, kMinPortion, kMaxPortion);
  }
  static uint64_t portions(uint64_t bytes) { return (bytes + portion(bytes) - 1) / portion(bytes); }

  // The receiver calls this before it tells the sender.
  void open(uint64_t portions) { word_.store(portions, std::memory_order_relaxed); }
  // The receiver takes one portion. False if none is left.
  bool take() { return take(0); }
  // The receiver takes all remaining portions and returns their number.
  uint64_t take_all() { return word_.fetch_and(kPushing, std::memory_order_acq_rel) & ~kPushing; }

  // The sender takes one portion, copies it, then calls pushed().
  bool push() { return take(kPushing); }
  void pushed() { word_.fetch_and(~kPushing, std::memory_order_release); }
  // Whether the sender is copying now. Stays false once no portion is left.
  bool pushing() const { return (word_.load(std::memory_order_acquire) & kPushing) != 0; }

 private:
  static constexpr uint64_t kPushing = uint64_t{1} << 63;

  bool take(uint64_t mark) {
    uint64_t seen = word_.load(std::memory_order_relaxed);
    while ((seen & ~kPushing) > 0) {
      if (word_.compare_exchange_weak(seen, (seen - 1) | mark, std::memory_order_acq_rel))
        return true;
    }
    return false;
  }

  alignas(64) std::atomic<uint64_t> word_{0};
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_CLAIMS_H_
