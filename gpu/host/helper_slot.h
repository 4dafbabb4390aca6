// HelperSlot: holds the Helper that a stream's threads use, and can replace it at any time.
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

// Any number of threads may use it at the same time. Without a helper there is nothing to do, and
// sleep_since() naps for kNap.
class HelperSlot {
 public:
  static constexpr std::chrono::microseconds kNap{100};

  // Installs `helper` (null: none). On return no thread uses the previous one, so it may be
  // destroyed. Blocks while a help() or sleep_since() is running. The caller must not run two set()
  // at a time.
  void set(Helper* helper) {
    // Empty it first: threads that enter from now on find no helper, so the count reaches 0.
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

  // Calls help() after the sleep: only one of several sleepers is woken, so it must do the work.
  void sleep_since(uint64_t seen, std::chrono::nanoseconds timeout) {
    if (const Use use(*this); use.helper != nullptr) {
      use.helper->sleep_since(seen, timeout);
      use.helper->help();
      return;
    }
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(timeout, kNap));
  }

 private:
  // Sequentially consistent on both sides: a user registers itself, then reads the helper; set()
  // removes the helper, then reads the users. At least one of them sees the other.
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
