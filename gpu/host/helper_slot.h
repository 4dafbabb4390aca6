// HelperSlot: holds the Helper that a stream's threads use, and can take it back from them.
#ifndef LANYARD_GPU_HOST_HELPER_SLOT_H_
#define LANYARD_GPU_HOST_HELPER_SLOT_H_

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "gpu/stream.h"

namespace lanyard::gpu {

// Any number of threads may use it at the same time. A slot without a helper finds nothing to do,
// and sleeps by napping kNap at a time.
class HelperSlot {
 public:
  static constexpr std::chrono::microseconds kNap{100};

  // Puts `helper` (null: none) in. On return no thread is inside the previous one any more, so it
  // may be destroyed. Blocks for as long as a help() or sleep_since() that has begun. Calls of set()
  // exclude each other by the caller's care.
  void set(Helper* helper) {
    // Empty first: whoever enters from now on finds nothing and leaves, so the count does reach 0.
    helper_.store(nullptr);
    while (users_.load() != 0)
      sched_yield();
    helper_.store(helper);
  }

  bool help() {
    const Use use(*this);
    return use.helper != nullptr && use.helper->help();
  }

  uint64_t activity() {
    const Use use(*this);
    return use.helper == nullptr ? 0 : use.helper->activity();
  }

  // Helps afterwards: of several sleepers one is woken, for the good of all, and must see to what
  // it was woken for before it stands back.
  void sleep_since(uint64_t seen, std::chrono::nanoseconds timeout) {
    if (const Use use(*this); use.helper != nullptr) {
      use.helper->sleep_since(seen, timeout);
      use.helper->help();
      return;
    }
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(timeout, kNap));
  }

 private:
  // Sequentially consistent on both sides: a user adds itself, then looks for the helper; set()
  // removes the helper, then looks for users. One of the two sees the other.
  struct Use {
    explicit Use(HelperSlot& slot) : slot(slot) {
      slot.users_.fetch_add(1);
      helper = slot.helper_.load();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { slot.users_.fetch_sub(1); }
    HelperSlot& slot;
    Helper* helper = nullptr;
  };

  std::atomic<Helper*> helper_{nullptr};
  std::atomic<uint32_t> users_{0};
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_HOST_HELPER_SLOT_H_
