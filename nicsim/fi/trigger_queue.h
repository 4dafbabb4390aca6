// TriggerQueue: the command queue in front of the NIC's pool of deferred-work entries, and what
// happens where the pool is exhausted. On Slingshot the queue stalls unless the provider counts for
// itself and says -FI_ENOSPC.
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
  // The NIC outlives the queue. `pool` may be null: then the NIC's entries are its own. `lost` is called, by a thread
  // of the queue's own, with what had to wait and could not be posted any more: something that it names has gone.
  TriggerQueue(ThreadedNic& nic, std::unique_ptr<SharedPool> pool, bool refuses_without_entry,
               std::function<void(const nic::Op&)> lost);
  // What waits is dropped.
  ~TriggerQueue();

  // Hands work to the NIC. Where the pool has no room: kExhausted, or it waits here, and everything posted later behind
  // it. Else as Nic::post. Does not block.
  Status post(const nic::DeferredOp& op);
  // Whether something waits here, so that no other command gets through to the NIC either.
  bool stalled() const { return waiting_count_.load(std::memory_order_acquire) > 0; }
  // Takes back what waits here: all of it, or what is for this counter.
  std::vector<nic::Op> clear();
  std::vector<nic::Op> cancel(nic::CounterId trigger);

  // Called whenever entries may have fired, by a witness of the NIC too.
  void give_back_what_fired();

 private:
  template <typename Condition>
  std::vector<nic::Op> take_back(Condition condition);
  Status try_post(const nic::DeferredOp& op);
  Status start();
  void run();
  void drain();

  ThreadedNic& nic_;
  const bool refuses_without_entry_;
  const std::function<void(const nic::Op&)> lost_;

  const std::unique_ptr<SharedPool> pool_;
  std::mutex pool_mutex_;  // guards the pool and the two that follow
  uint32_t taken_ = 0;     // from the pool
  uint32_t posting_ = 0;   // of these, not certainly with the NIC yet

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<nic::DeferredOp> waiting_;
  bool stopping_ = false;
  std::thread thread_;
  std::atomic<size_t> waiting_count_{0};
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_TRIGGER_QUEUE_H_
