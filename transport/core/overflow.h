// Overflow: deferred operations that found no free entry of the NIC when their start was enqueued.
//
// It posts them in order as entries become free. If the trigger of one has fired, it issues that
// one at once, without an entry. Otherwise two processes with too few entries could block each
// other forever: the entries of each would wait for an operation in the other's overflow.
// Operations of one trigger run in the NIC's order (N2), so only the first of each is checked.
//
// Threads: any. Its own thread starts with the first overflow and sleeps while there is none.
// Threads that wait may help by drain(). If `own_thread` is false, only drain() does the work.
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
  // `nic` must outlive it.
  Overflow(nic::Nic& nic, bool own_thread) : nic_(nic), own_thread_(own_thread) {}
  ~Overflow();
  Overflow(const Overflow&) = delete;
  Overflow& operator=(const Overflow&) = delete;

  // Ends the thread and drops the waiting operations. May be repeated. Call no add() afterwards.
  void stop();
  // Takes valid operations, which stay valid until they have run or are cancelled. May allocate.
  void add(std::span<const nic::DeferredOp> ops);
  // Drops the waiting operations of this context. Then the objects that they name may be closed.
  void cancel(uint64_t context);
  // Posts or issues as many operations as it can and returns their number. Never blocks. Reads
  // triggers only if no entry has become free for some calls.
  size_t drain() { return drain(kPatience); }
  // True if an operation of this context and start waits here although its trigger has fired.
  bool is_overdue(uint64_t context, uint64_t start);

  bool empty() const { return pending_.load(std::memory_order_acquire) == 0; }
  uint64_t overflowed() const { return overflowed_.load(std::memory_order_relaxed); }
  uint64_t by_software() const { return by_software_.load(std::memory_order_relaxed); }

 private:
  // After so many calls of drain() in a row that posted nothing, it reads triggers.
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
  // The same by trigger, without empty maps: lower thresholds first, then older operations.
  std::map<uint32_t, std::multimap<uint64_t, Waiting::iterator>> by_trigger_;
  uint32_t fruitless_ = 0;          // calls of drain() in a row that posted nothing
  uint32_t cursor_ = 0;             // the trigger at which run_fired() starts next
  std::atomic<size_t> pending_{0};  // waiting_.size()
  std::atomic<uint64_t> overflowed_{0};
  std::atomic<uint64_t> by_software_{0};
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_OVERFLOW_H_
