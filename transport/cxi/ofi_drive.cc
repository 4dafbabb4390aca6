// The part of OfiNic that drives: passes commands to libfabric and handles completions.
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <chrono>
#include <utility>

#include "transport/cxi/library.h"
#include "transport/cxi/ofi_nic.h"
#include "transport/nic/driver.h"

namespace lanyard::ofi {

using nic::CounterId;
using nic::Op;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// How often the NIC's own thread looks, within kWarmFor of the last activity and later. It has
// little to do: the NIC works without it.
constexpr microseconds kWarmNap{50};
constexpr milliseconds kColdNap{1};
constexpr milliseconds kWarmFor{100};

constexpr int kRounds = 8;  // of one drive(): no thread drives for long

}  // namespace

size_t OfiNic::progress() {
  size_t steps = 0;
  while (right_.try_take()) {
    steps += drive();
    right_.give_back();
    // A command pushed by a thread that found this one driving must be run here.
    if (commands_.empty())
      break;
  }
  return steps;
}

size_t OfiNic::drive() {
  size_t steps = 0;
  for (int round = 0; round < kRounds; ++round) {
    size_t done = run_commands();
    done += hand_over();
    done += read_completions();
    steps += done;
    if (done == 0)
      break;
  }
  const bool heard = listener_.call != nullptr && hears();
  steps += heard ? 1 : 0;
  if (steps > 0)
    activity_.fetch_add(1, std::memory_order_seq_cst);
  if (heard)
    listener_.call(listener_.object);  // after activity_: a woken thread must see it
  return steps;
}

// True if the listener's counter has moved since the last look. A read costs the NIC a command.
bool OfiNic::hears() {
  if (own_thread_) {
    const steady_clock::time_point now = steady_clock::now();
    if (now < next_look_)
      return false;
    next_look_ = now + kWarmNap;
  }
  const uint64_t reached = counters_[listened_.value].reached();
  return reached != std::exchange(heard_, reached);
}

// ---- Commands to the provider

size_t OfiNic::run_commands() {
  size_t count = 0;
  const size_t first_fresh = held_.size();
  while (const Command* command = commands_.front()) {
    switch (command->kind) {
      case Command::Kind::kRing: ring(command->deferred.trigger, command->deferred.threshold); break;
      case Command::Kind::kPost: hold(take(command->deferred), first_fresh); break;
      case Command::Kind::kPostPrepared: hold(take(command->posting), first_fresh); break;
      case Command::Kind::kIssue: hold(take(command->deferred.op, {}, 0), first_fresh); break;
    }
    commands_.pop();
    ++count;
  }
  return count;
}

void OfiNic::ring(CounterId id, uint64_t value) {
  if (is_open(id))
    counters_[id.value].add(value);
}

// Tries all held operations, the oldest first.
size_t OfiNic::hand_over() {
  size_t steps = 0;
  size_t kept = 0;
  no_entries_ = false;
  for (Work* work : held_) {
    if (work->state == Work::State::kHeld && give(*work)) {
      ++steps;
      continue;
    }
    if (work->state == Work::State::kRefused && is_due(*work)) {
      fail(*work, work->refusal, work->found_unreachable());
      ++steps;
      continue;
    }
    held_[kept++] = work;
  }
  held_.resize(kept);
  return steps;
}

// ---- Completions to counters and failure records

size_t OfiNic::read_completions() {
  constexpr size_t kBatch = 16;
  unread_ = 0;
  fi_cq_entry entries[kBatch];
  size_t steps = 0;
  while (true) {
    const ssize_t count = fi_cq_read(fabric_->completions(), entries, kBatch);
    if (count > 0) {
      for (ssize_t i = 0; i < count; ++i)
        finish(Work::use_of(entries[i].op_context));
      steps += static_cast<size_t>(count);
    } else if (count == -FI_EAVAIL) {
      // A newer libfabric may write a longer entry than our headers declare.
      union {
        fi_cq_err_entry entry;
        std::byte room[256];
      } error{};
      if (fi_cq_readerr(fabric_->completions(), &error.entry, 0) <= 0)
        return steps;
      const int err = error.entry.err;
      if (error.entry.op_context != nullptr)
        fail(Work::use_of(error.entry.op_context), completion_code(err), unreachable_error(err));
      ++steps;
    } else {
      return steps;
    }
  }
}

// The operation has succeeded. The provider has counted deferred work itself.
void OfiNic::finish(Work::Use& use) {
  if (use.abandoned) {
    use.abandoned = false;
    return;
  }
  Work& work = *use.work;
  if (OfiCounter* completion = completion_of(work.op); completion != nullptr && (!work.deferred() || work.at_once))
    completion->add(1);
  release(work);
}

void OfiNic::fail(Work::Use& use, Code code, int unreachable) {
  if (!use.abandoned)
    return fail(*use.work, code, unreachable);
  use.abandoned = false;
  if (unreachable != 0)
    lose(use.peer, unreachable);
  remember_failure({.context = use.op_context, .code = code, .peer = use.peer});
}

void OfiNic::fail(Work& work, Code code, int unreachable) {
  // First the cause, then the record, then the count: what the count fires must find both (N13).
  if (unreachable != 0)
    lose(work.op.remote.peer, unreachable);
  remember_failure({.context = work.op.context, .code = code, .peer = work.op.remote.peer});
  const bool counted = work.state == Work::State::kWaiting && work.deferred() && !work.at_once;
  if (OfiCounter* completion = completion_of(work.op); completion != nullptr && !counted)
    completion->add_error(1);
  release(work);
}

void OfiNic::lose(uint32_t peer, int error) {
  if (lost_[peer].exchange(error, std::memory_order_release) == 0)
    lost_count_.fetch_add(1, std::memory_order_release);
}

void OfiNic::remember_failure(const nic::FailureRecord& record) {
  failure_log_.add(record);
  failures_.store(failure_log_.total(), std::memory_order_release);
}

void OfiNic::release(Work& work) {
  use(work, -1);
  work.state = Work::State::kFree;
  work.at_once = false;
  Work*& free = work.home != nullptr ? work.home->ready : free_work_;
  if (work.home != nullptr)
    --work.home->in_flight;
  work.next_free = free;
  free = &work;
  (work.deferred() ? free_entries_ : free_issues_).fetch_add(1, std::memory_order_relaxed);
}

// ---- The NIC's own thread

void OfiNic::run_owner() {
  steady_clock::time_point warm_until = steady_clock::now() + kWarmFor;
  uint64_t seen = 0;
  while (!stopping_.load()) {
    if (progress() > 0)
      continue;
    const steady_clock::time_point now = steady_clock::now();
    if (const uint64_t activity = this->activity(); activity != seen) {
      seen = activity;
      warm_until = now + kWarmFor;
    }
    const bool warm = now < warm_until && attending_.load() == 0;
    std::this_thread::sleep_for(warm ? kWarmNap : microseconds(kColdNap));
  }
}

}  // namespace lanyard::ofi
