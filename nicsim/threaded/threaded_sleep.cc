// The part of ThreadedNic that sleeps: waiting threads and the NIC's own thread (the owner).
#include <sched.h>

#include <algorithm>

#include "nicsim/threaded/threaded_nic.h"
#include "transport/base/service_thread.h"

namespace lanyard::nicsim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// How often a sleeping thread looks at doorbell words and device copies.
constexpr microseconds kDoorbellPeriod{50};
// After a step the owner takes naps for a while before it sleeps without limit. So posting to a NIC
// in use makes no system call.
constexpr milliseconds kNap{1};
constexpr milliseconds kWarmFor{100};
constexpr int kIdleRounds = 32;

}  // namespace

bool ThreadedNic::idle() const { return commands_.empty(); }

// True if a ring may fire something or an operation is in flight.
bool ThreadedNic::has_work() const {
  return free_entries_.load(std::memory_order_relaxed) < caps_.deferred_depth ||
         under_way_.load(std::memory_order_relaxed);
}

void ThreadedNic::wait_since(uint64_t seen, Nanoseconds timeout) {
  // Doorbell words and devices wake no thread.
  const bool watches = armed_count_.load() > 0 || moving_.load();
  const Nanoseconds limit = watches ? std::min<Nanoseconds>(timeout, kDoorbellPeriod) : timeout;
  // The wire calls this once publish() can see the sleeper, so no step goes unnoticed.
  struct Since {
    const ThreadedNic* nic;
    uint64_t seen;
  } since{this, seen};
  const auto nothing_happened = [](void* object) {
    const auto* since = static_cast<Since*>(object);
    return since->nic->idle() && since->nic->activity() == since->seen;
  };
  wire_->sleep(Wire::Sleeper::kHelper, limit, nothing_happened, &since);
  // An arrival may have woken only this thread (W5), whose caller may now do other work: handle it
  // here. If another thread drives, it may have looked too early: wake a sleeper instead.
  if (progress() == 0) {
    wire_->attend();
    wire_->leave();
  }
}

void ThreadedNic::attend() {
  attending_.fetch_add(1);
  wire_->attend();
}

void ThreadedNic::leave() {
  wire_->leave();
  attending_.fetch_sub(1);
  progress();  // what arrived between attend() and leave() woke no thread
  if (moving_.load(std::memory_order_seq_cst) || armed_count_.load() > 0)
    wake_owner_if_asleep();
}

Status ThreadedNic::start_owner() {
  const std::lock_guard lock(owner_mutex_);
  if (owner_.joinable())
    return {};
  Result<std::thread> owner = start_service_thread("lanyard-nic", [this] { run_owner(); });
  if (!owner.ok())
    return owner.status();
  owner_ = std::move(owner.value());
  return {};
}

void ThreadedNic::run_owner() {
  uint64_t seen_activity = 0;
  steady_clock::time_point warm_until = steady_clock::now() + kWarmFor;
  steady_clock::time_point spin_until = steady_clock::now();
  int idle_rounds = 0;
  while (!stopping_.load()) {
    const bool attended = attending_.load() > 0;
    const size_t steps = progress();
    if (attended) {
      sched_yield();  // the polling thread may need this core
    } else if (steps > 0 || ++idle_rounds < kIdleRounds) {
      idle_rounds = steps > 0 ? 0 : idle_rounds;
      sched_yield();
      continue;
    }
    if (const uint64_t activity = activity_.load(std::memory_order_relaxed); activity != seen_activity) {
      seen_activity = activity;
      warm_until = steady_clock::now() + kWarmFor;
      spin_until = steady_clock::now() + spin_for_;
    }
    const bool moving = moving_.load();
    const bool watches = moving || armed_count_.load() > 0;
    if (!attended && (moving || (watches && has_work())) && steady_clock::now() < spin_until) {
      sched_yield();
      continue;
    }
    idle_rounds = 0;
    const auto still_idle = [](void* object) {
      auto* nic = static_cast<ThreadedNic*>(object);
      return !nic->stopping_.load() && (nic->idle() || nic->attending_.load() > 0);
    };
    const auto nothing_to_watch = [](void* object) {
      auto* nic = static_cast<ThreadedNic*>(object);
      return !nic->stopping_.load() &&
             ((nic->idle() && !nic->moving_.load() && nic->armed_count_.load() == 0) || nic->attending_.load() > 0);
    };
    if (watches) {
      wire_->sleep(Wire::Sleeper::kOwner, kDoorbellPeriod, still_idle, this);
    } else if (steady_clock::now() < warm_until) {
      wire_->sleep(Wire::Sleeper::kOwner, kNap, nothing_to_watch, this);
    } else {
      owner_asleep_.store(true, std::memory_order_seq_cst);
      wire_->sleep(Wire::Sleeper::kOwner, std::chrono::hours(1), nothing_to_watch, this);
      owner_asleep_.store(false, std::memory_order_relaxed);
    }
  }
}

}  // namespace lanyard::nicsim
