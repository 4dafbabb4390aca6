// EntryShare: what one NIC holds of a pool of entries that it shares with others. Without a pool everything goes
// through.
#ifndef LANYARD_NICSIM_FI_ENTRY_SHARE_H_
#define LANYARD_NICSIM_FI_ENTRY_SHARE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "nicsim/fi/shared_pool.h"
#include "nicsim/threaded/threaded_nic.h"
#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

// Threads: any, a witness of the NIC's too: no call waits for whoever drives.
class EntryShare {
 public:
  // The NIC outlives it; `pool` may be null.
  EntryShare(ThreadedNic& nic, std::unique_ptr<SharedPool> pool) : nic_(nic), pool_(std::move(pool)) {}

  // Nic::post() with entries of the pool. kAgain where the others leave too few.
  Status post(std::span<const nic::DeferredOp> ops) {
    if (pool_ == nullptr)
      return nic_.post(ops);
    const auto wanted = static_cast<uint32_t>(ops.size());
    give_back_what_fired();
    {
      const std::lock_guard lock(mutex_);
      if (!pool_->take(wanted))
        return {Code::kAgain, "other processes hold the deferred-work entries"};
      taken_ += wanted;
      posting_ += wanted;
    }
    Status status = nic_.post(ops);
    {
      const std::lock_guard lock(mutex_);
      posting_ -= wanted;
    }
    if (!status.ok())
      give_back_what_fired();
    return status;
  }

  // Called whenever entries may have fired.
  void give_back_what_fired() {
    if (pool_ == nullptr)
      return;
    const std::lock_guard lock(mutex_);
    // What is being posted may be counted twice, which leaves more with this NIC for a moment, never less.
    const uint32_t held = nic_.caps().deferred_depth - nic_.free_entries() + posting_;
    if (held >= taken_)
      return;
    pool_->give(taken_ - held);
    taken_ = held;
  }

 private:
  ThreadedNic& nic_;
  const std::unique_ptr<SharedPool> pool_;
  std::mutex mutex_;      // guards what follows
  uint32_t taken_ = 0;    // from the pool
  uint32_t posting_ = 0;  // of these, not certainly with the NIC yet
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_ENTRY_SHARE_H_
