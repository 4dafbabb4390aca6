// TriggerQueue: the command queue in front of the NIC's deferred-work entries. On Slingshot it
// stalls when no entry is free, unless the provider counts entries and returns -FI_ENOSPC.
#ifndef LANYARD_NICSIM_FI_TRIGGER_QUEUE_H_
#define LANYARD_NICSIM_FI_TRIGGER_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "nicsim/fi/shared_pool.h"
#include "nicsim/threaded/threaded_nic.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

// Threads: any.
class TriggerQueue {
 public:
  // The NIC must outlive the queue. If `pool` is null, the NIC's entries are its own. The
  // queue's thread calls `lost` for waiting work that can no longer be posted, because an object
  // that it names has been closed.
  TriggerQueue(ThreadedNic& nic, std::unique_ptr<SharedPool> pool, bool refuses_without_entry,
               std::function<void(const nic::Op&)> lost);
  // Drops waiting work.
  ~TriggerQueue();

  // Posts work to the NIC. If no entry is free, returns kExhausted, or queues this and all later
  // work. Other errors as Nic::post(). Does not block.
  Status post(const nic::DeferredOp& op);
  // True while work waits here. Then no other command reaches the NIC either.
  bool stalled() const { return waiting_count_.load(std::memory_order_acquire) > 0; }
  // Removes waiting work and returns it: that of one counter, or all of it if none is named.
  std::vector<nic::Op> take_back(nic::CounterId trigger = {});

  // Call it whenever entries may have fired. The NIC's witness may call it too.
  void give_back_what_fired();

 private:
  Status try_post(const nic::DeferredOp& op);
  void run();
  void drain();

  ThreadedNic& nic_;
  const bool refuses_without_entry_;
  const std::function<void(const nic::Op&)> lost_;

  const std::unique_ptr<SharedPool> pool_;
  std::mutex pool_mutex_;  // guards the pool and the next two members
  uint32_t taken_ = 0;     // entries taken from the pool
  uint32_t posting_ = 0;   // of these, not yet certainly posted

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<nic::DeferredOp> waiting_;
  bool stopping_ = false;
  std::thread thread_;
  std::atomic<size_t> waiting_count_{0};
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_TRIGGER_QUEUE_H_
