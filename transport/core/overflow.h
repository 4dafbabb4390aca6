// Overflow: deferred operations that did not fit into the NIC when their start was enqueued.
//
// They are handed over in order as entries become free. One whose trigger has fired meanwhile is run at once, outside
// the NIC's entries, so that progress never depends on an entry becoming free: with too few entries two processes could
// otherwise each hold theirs for an operation that sits in the other's overflow, for ever. Of one trigger they run as
// the NIC's entries do (N2), so only the first of each trigger is looked at, however many wait.
//
// Threads: any. A thread of its own does the work, started with the first overflow and asleep while there is none;
// whoever waits may help by drain(). Without it (`own_thread` false) drain() is the only worker.
#ifndef LANYARD_TRANSPORT_CORE_OVERFLOW_H_
#define LANYARD_TRANSPORT_CORE_OVERFLOW_H_

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <span>
#include <thread>

#include "transport/nic/nic.h"

namespace lanyard::core {

class Overflow {
 public:
  // `nic` outlives it.
  Overflow(nic::Nic& nic, bool own_thread) : nic_(nic), own_thread_(own_thread) {}
  ~Overflow();
  Overflow(const Overflow&) = delete;
  Overflow& operator=(const Overflow&) = delete;

  // Ends the thread and forgets what waits. May be repeated; nothing may be added afterwards.
  void stop();
  // Takes valid operations. May allocate.
  void add(std::span<const nic::DeferredOp> ops);
  // Takes back what waits of this request, by the context of its operations: what it names may be closed then.
  void cancel(uint64_t context);
  // Hands over what can be handed over; returns how many operations that was. Never blocks; triggers are looked at only
  // when entries have not become free for some calls.
  size_t drain() { return drain(kPatience); }
  // Whether an operation of that start of a request waits here though its trigger has fired.
  bool is_overdue(uint64_t context, uint64_t start);

  bool empty() const { return pending_.load(std::memory_order_acquire) == 0; }
  uint64_t overflowed() const { return overflowed_.load(std::memory_order_relaxed); }
  uint64_t by_software() const { return by_software_.load(std::memory_order_relaxed); }

 private:
  // Calls in a row that hand nothing over, after which triggers are looked at.
  static constexpr uint32_t kPatience = 16;

  size_t drain(uint32_t patience);
  size_t run_fired();
  void run();
  uint64_t reached(uint32_t trigger);

  nic::Nic& nic_;
  const bool own_thread_;
  using Waiting = std::list<nic::DeferredOp>;

  std::mutex mutex_;  // guards waiting_, by_trigger_, fruitless_, cursor_, thread_, stopping_
  std::condition_variable added_;
  Waiting waiting_;  // the oldest first
  // The same by their triggers, none of which is empty: lower thresholds first, of equal ones the oldest.
  std::map<uint32_t, std::multimap<uint64_t, Waiting::iterator>> by_trigger_;
  uint32_t fruitless_ = 0;          // calls of drain() in a row that handed nothing over
  uint32_t cursor_ = 0;             // the trigger at which the next look for fired ones begins
  std::atomic<size_t> pending_{0};  // waiting_.size()
  std::atomic<uint64_t> overflowed_{0};
  std::atomic<uint64_t> by_software_{0};
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_OVERFLOW_H_
