// TriggerQueue: the command queue in front of the NIC's pool of deferred-work entries, and what
// happens where the pool is exhausted. On Slingshot the queue stalls unless the provider counts for
// itself and says -FI_ENOSPC.
#ifndef LANYARD_NICSIM_FI_TRIGGER_QUEUE_H_
#define LANYARD_NICSIM_FI_TRIGGER_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "nicsim/fi/entry_share.h"
#include "nicsim/fi/settings.h"
#include "nicsim/threaded/threaded_nic.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

// A counter operation; `context` as RequestTable numbers them.
inline nic::Op counter_op(nic::OpKind kind, nic::CounterId counter, uint64_t value, uint64_t context) {
  nic::Op op;
  op.kind = kind;
  op.context = context;
  op.counter = counter;
  op.value = value;
  return op;
}

// Threads: any.
class TriggerQueue {
 public:
  // The NIC and its share outlive the queue. `lost` is called, by a thread of the queue's own, with what had to
  // wait and could not be posted any more: something that it names has gone.
  TriggerQueue(ThreadedNic& nic, EntryShare& share, Settings::Pool pool, std::function<void(const nic::Op&)> lost);
  // What waits is dropped.
  ~TriggerQueue();

  // Hands work to the NIC, all or none. Where the pool has no room: kExhausted (Pool::kNoSpace), or
  // it waits here, and everything posted later behind it (Pool::kStall). Else as Nic::post. Does
  // not block.
  Status post(std::span<const nic::DeferredOp> ops) { return post(ops, pool_); }
  // The same for what nobody counts: it always waits.
  Status post_or_wait(std::span<const nic::DeferredOp> ops) { return post(ops, Settings::Pool::kStall); }
  // Whether something waits here, so that no other command gets through to the NIC either.
  bool stalled() const { return waiting_count_.load(std::memory_order_acquire) > 0; }
  // Takes back what waits here: all of it, or what is for this counter.
  std::vector<nic::Op> clear();
  std::vector<nic::Op> cancel(nic::CounterId trigger);

 private:
  using Batch = std::vector<nic::DeferredOp>;

  template <typename Condition>
  std::vector<nic::Op> take_back(Condition condition);
  Status post(std::span<const nic::DeferredOp> ops, Settings::Pool pool);
  Status start();
  void run();
  void drain();

  ThreadedNic& nic_;
  EntryShare& share_;
  const Settings::Pool pool_;
  const std::function<void(const nic::Op&)> lost_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Batch> waiting_;
  bool stopping_ = false;
  std::thread thread_;
  std::atomic<size_t> waiting_count_{0};
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_TRIGGER_QUEUE_H_
