// The part of OfiNic that drives: from commands to libfabric, and back from its completions.
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "transport/base/check.h"
#include "transport/cxi/ofi_nic.h"
#include "transport/cxi/ofi_status.h"
#include "transport/nic/descriptor.h"

namespace lanyard::ofi {

using nic::CounterId;
using nic::Op;
using nic::OpKind;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// How often the NIC's own thread looks while something happens, and when nothing has happened for
// kWarmFor. It has little to do: the device and the provider's threads work without it.
constexpr microseconds kWarmNap{50};
constexpr milliseconds kColdNap{1};
constexpr milliseconds kWarmFor{100};

constexpr int kRounds = 8;  // of one drive: nobody keeps others from driving for long

constexpr uint32_t kReadEvery = 16;  // entries that are posted: as many as one look at the completions takes

// Whether of the entries of each counter lower thresholds come first. Of many at once it does not try to find out.
template <typename Each>
bool in_order(std::span<const Each> ops) {
  constexpr size_t kFew = 8;
  if (ops.size() > kFew)
    return false;
  for (size_t later = 1; later < ops.size(); ++later)
    for (size_t earlier = 0; earlier < later; ++earlier)
      if (ops[earlier].trigger == ops[later].trigger && ops[earlier].threshold > ops[later].threshold)
        return false;
  return true;
}

}  // namespace

size_t OfiNic::progress() {
  size_t steps = 0;
  while (right_.try_take()) {
    steps += drive();
    right_.give_back();
    // A command pushed by a thread that found this one driving is this one's to run.
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
    done += look_at_waiting();
    steps += done;
    if (done == 0)
      break;
  }
  const bool heard = listener_.call != nullptr && hears();
  steps += heard ? 1 : 0;
  if (steps > 0)
    activity_.fetch_add(1, std::memory_order_seq_cst);
  if (heard)
    listener_.call(listener_.object);  // whoever it wakes finds the counter as it is
  return steps;
}

// Whether the counter that is listened to has moved since it was looked at last. A reading costs the card a command.
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

// ---- From commands to the provider

size_t OfiNic::run_commands() {
  size_t count = 0;
  const size_t first_fresh = held_.size();
  while (const Command* command = commands_.front()) {
    switch (command->kind) {
      case Command::Kind::kRing: ring(command->deferred.trigger, command->deferred.threshold); break;
      case Command::Kind::kPost: hold(take(command->deferred), first_fresh); break;
      case Command::Kind::kPostPrepared: hold(take(command->posting), first_fresh); break;
      case Command::Kind::kIssue:
        if (command->deferred.op.moves_data())
          hold(take(command->deferred.op, {}, 0), first_fresh);
        else
          run_counter_op(command->deferred.op);
        break;
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

void OfiNic::run_counter_op(const Op& op) {
  if (is_open(op.counter)) {
    if (op.kind == OpKind::kCounterAdd)
      counters_[op.counter.value].add(op.value);
    else
      counters_[op.counter.value].set(op.value);
  }
  free_issues_.fetch_add(1, std::memory_order_relaxed);
}

inline OfiCounter* OfiNic::completion_of(const Work& work) {
  return work.op.completion.valid() ? &counters_[work.op.completion.value] : nullptr;
}

// Keeps what the operation names from being closed (delta 1), or lets go of it (-1).
inline void OfiNic::use(const Work& work, int delta) {
  const auto count = static_cast<uint32_t>(delta);
  if (work.deferred())
    counters_[work.trigger.value].uses += count;
  use(work.op, delta);
}

void OfiNic::use(const Op& op, int delta) {
  const auto count = static_cast<uint32_t>(delta);
  if (op.completion.valid())
    counters_[op.completion.value].uses += count;
  regions_[op.local.region.value].uses += count;
  if (nic::fetches(op))
    regions_[op.fetch.region.value].uses += count;
}

[[gnu::always_inline]] inline Work& OfiNic::take(const Op& op, CounterId trigger, uint64_t threshold) {
  LANYARD_CHECK(free_work_ != nullptr, "credits let nothing in that there is no place for");
  Work& work = *free_work_;
  free_work_ = work.next_free;
  work.op = op;
  work.trigger = trigger;
  work.threshold = threshold;
  work.state = Work::State::kHeld;
  work.at_once = false;
  work.describe(*fabric_, op, local_address(op.local), nic::fetches(op) ? local_address(op.fetch) : nullptr);
  use(work, 1);
  return work;
}

inline Work& OfiNic::take(const nic::DeferredOp& deferred) {
  return take(deferred.op, deferred.trigger, deferred.threshold);
}

inline Work& OfiNic::take(const nic::Posting& posting) {
  const Op* op = prepared_.find(posting.prepared);
  LANYARD_CHECK(op != nullptr, "an operation was released while another thread posted it");
  Work& work = take(*op, posting.trigger, posting.threshold);
  work.op.start = posting.start;
  return work;
}

bool OfiNic::is_due(const Work& work) const {
  return !work.deferred() || counters_[work.trigger.value].reached() >= work.threshold;
}

// Gives one held operation to the provider. kAgain: it stays with the driver.
inline Code OfiNic::offer(Work& work) {
  if (!work.deferred())
    return work.start(*fabric_);
  if (no_entries_)
    return Code::kAgain;
  const OfiCounter& trigger = counters_[work.trigger.value];
  const bool waits_there = trigger.waits_in_provider(work.threshold);
  // Else the provider's counter does not reach so far.
  if (!waits_there && !is_due(work))
    return Code::kAgain;
  const OfiCounter* completion = completion_of(work);
  const Code code = work.post(*fabric_, trigger.fid(), waits_there ? work.threshold : 0,
                              completion == nullptr ? nullptr : completion->fid());
  no_entries_ = code == Code::kAgain;  // nor for the next one that is tried now
  return code;
}

// Other processes may hold the card's entries for as long as they like, even until this very operation has been done:
// what is due needs none.
Code OfiNic::run_at_once(Work& work) {
  if (!fabric_->provider().reports_deferred_work || !is_due(work))
    return Code::kAgain;
  const Code code = work.start(*fabric_);
  work.at_once = code == Code::kOk;
  return code;
}

// Whether the provider has it now; else it is still held, or doomed.
[[gnu::always_inline]] inline bool OfiNic::try_to_give(Work& work) {
  Code code = offer(work);
  if (code == Code::kAgain && work.deferred())
    code = run_at_once(work);
  if (code == Code::kOk) {
    work.state = Work::State::kWaiting;
    if (work.deferred() && !fabric_->provider().reports_deferred_work)
      waiting_.push_back(&work);
    return true;
  }
  if (code != Code::kAgain) {
    work.state = Work::State::kDoomed;
    work.doom = code;
  }
  return false;
}

// What a thread that drives has posted, without the way through the commands.
template <typename Each>
void OfiNic::accept(std::span<const Each> ops) {
  const size_t first_fresh = held_.size();
  if (first_fresh == 0 && in_order(ops)) {
    no_entries_ = false;
    for (const Each& op : ops) {
      Work& work = take(op);
      if (!held_.empty() || !try_to_give(work))
        hold(work, first_fresh);
    }
  } else {
    for (const Each& op : ops)
      hold(take(op), first_fresh);
    (void)hand_over();
  }
  // Who only posts must not wait for the others to make room.
  if ((unread_ += static_cast<uint32_t>(ops.size())) >= kReadEvery)
    (void)read_completions();
}

template void OfiNic::accept(std::span<const nic::DeferredOp>);
template void OfiNic::accept(std::span<const nic::Posting>);

// Lower thresholds first: some providers fire in the order in which they were given the work. It nearly always comes in
// this order. `first_fresh`: where what came together begins.
void OfiNic::hold(Work& work, size_t first_fresh) {
  held_.push_back(&work);
  for (size_t at = held_.size(); at > first_fresh + 1 && held_[at - 2]->threshold > held_[at - 1]->threshold; --at)
    std::swap(held_[at - 2], held_[at - 1]);
}

// Tries everything that is held, by age.
size_t OfiNic::hand_over() {
  size_t steps = 0;
  size_t kept = 0;
  no_entries_ = false;
  for (Work* work : held_) {
    if (work->state == Work::State::kHeld && try_to_give(*work)) {
      ++steps;
      continue;
    }
    if (work->state == Work::State::kDoomed && is_due(*work)) {
      fail(*work, work->doom, work->found_unreachable());
      ++steps;
      continue;
    }
    held_[kept++] = work;
  }
  held_.resize(kept);
  return steps;
}

// ---- From the provider to counters and records

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
      // Newer libraries write a longer entry than the headers that we were built with may know.
      union {
        fi_cq_err_entry entry;
        std::byte room[256];
      } error{};
      if (fi_cq_readerr(fabric_->completions(), &error.entry, 0) <= 0)
        return steps;
      const int err = error.entry.err;
      const bool gone = is_unreachable(err) || (fabric_->provider().io_error_means_gone && is_io_error(err));
      if (error.entry.op_context != nullptr)
        fail(Work::use_of(error.entry.op_context), completion_code(err), gone);
      ++steps;
    } else {
      return steps;
    }
  }
}

size_t OfiNic::look_at_waiting() {
  const size_t before = waiting_.size();
  for (size_t i = 0; i < waiting_.size();) {
    Work* work = waiting_[i];
    if (!work->is_done()) {
      ++i;
      continue;
    }
    waiting_[i] = waiting_.back();
    waiting_.pop_back();
    release(*work);
  }
  return before - waiting_.size();
}

// The completion queue says that it has succeeded. Deferred work has been counted by the provider.
void OfiNic::finish(Work::Use& use) {
  if (use.given_up) {
    use.given_up = false;
    return;
  }
  Work& work = *use.work;
  if (OfiCounter* completion = completion_of(work); completion != nullptr && (!work.deferred() || work.at_once))
    completion->add(1);
  release(work);
}

void OfiNic::fail(Work::Use& use, Code code, bool unreachable) {
  if (!use.given_up)
    return fail(*use.work, code, unreachable);
  use.given_up = false;
  if (unreachable)
    lose(use.peer);
  remember_failure({.context = use.op_context, .code = code, .peer = use.peer});
}

void OfiNic::fail(Work& work, Code code, bool unreachable) {
  if (unreachable)
    lose(work.op.remote.peer);  // before that: whoever sees the failure sees its cause
  remember_failure({.context = work.op.context,
                    .code = code,
                    .peer = work.op.remote.peer});  // first: what the count fires must find it
  const bool given = work.state == Work::State::kWaiting && work.deferred() && !work.at_once;
  const bool has_own_counter = given && !fabric_->provider().reports_deferred_work;
  if (has_own_counter)
    std::erase(waiting_, &work);
  if (OfiCounter* completion = completion_of(work); completion != nullptr) {
    if (has_own_counter) {
      completion->turn_next_into_failure();
      work.finish_failed();
    } else if (!given) {
      completion->fail();
    }
  }
  release(work);
}

void OfiNic::lose(uint32_t peer) {
  if (!lost_[peer].exchange(true, std::memory_order_release))
    lost_count_.fetch_add(1, std::memory_order_release);
}

void OfiNic::remember_failure(const nic::FailureRecord& record) {
  failure_log_.add(record);
  failures_.store(failure_log_.total(), std::memory_order_release);
}

void OfiNic::release(Work& work) {
  use(work, -1);
  work.state = Work::State::kFree;
  work.next_free = free_work_;
  free_work_ = &work;
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
    if (warm)
      std::this_thread::sleep_for(kWarmNap);
    else
      std::this_thread::sleep_for(kColdNap);
  }
}

}  // namespace lanyard::ofi
