#include "transport/core/overflow.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "transport/base/check.h"
#include "transport/base/service_thread.h"

namespace lanyard::core {

namespace {
constexpr std::chrono::milliseconds kLookAgain{1};
constexpr size_t kPortion = 256;
// Fewer calls for the own thread, because it pauses for kLookAgain between them.
constexpr uint32_t kOwnPatience = 2;
}  // namespace

Overflow::~Overflow() { stop(); }

void Overflow::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  added_.notify_all();
  if (thread_.joinable())
    thread_.join();
  std::lock_guard lock(mutex_);
  waiting_.clear();
  by_trigger_.clear();
  pending_.store(0);
}

void Overflow::add(std::span<const nic::DeferredOp> ops) {
  {
    std::lock_guard lock(mutex_);
    for (const nic::DeferredOp& op : ops)
      by_trigger_[op.trigger.value].emplace(op.threshold, waiting_.insert(waiting_.end(), op));
    pending_.store(waiting_.size(), std::memory_order_release);
    if (own_thread_ && !thread_.joinable()) {
      // Without a thread, threads that wait for a stream still drain. The next add() tries again.
      if (Result<std::thread> thread = start_service_thread("lanyard-dwq", [this] { run(); }); thread.ok())
        thread_ = std::move(thread.value());
    }
  }
  overflowed_.fetch_add(ops.size(), std::memory_order_relaxed);
  added_.notify_one();
}

void Overflow::cancel(uint64_t context) {
  const std::lock_guard lock(mutex_);
  for (auto trigger = by_trigger_.begin(); trigger != by_trigger_.end();) {
    std::erase_if(trigger->second, [&](const auto& each) { return each.second->op.context == context; });
    trigger = trigger->second.empty() ? by_trigger_.erase(trigger) : std::next(trigger);
  }
  std::erase_if(waiting_, [context](const nic::DeferredOp& op) { return op.op.context == context; });
  pending_.store(waiting_.size(), std::memory_order_release);
}

size_t Overflow::drain(uint32_t patience) {
  if (empty())
    return 0;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock())
    return 0;  // another thread does it
  size_t handed_over = 0;
  while (!waiting_.empty() && nic_.post({&waiting_.front(), 1}).ok()) {
    const auto trigger = by_trigger_.find(waiting_.front().trigger.value);
    trigger->second.erase(trigger->second.lower_bound(waiting_.front().threshold));
    if (trigger->second.empty())
      by_trigger_.erase(trigger);
    waiting_.pop_front();
    ++handed_over;
  }
  // Reading triggers is slow. It is only needed if no entries become free.
  fruitless_ = handed_over > 0 ? 0 : fruitless_ + 1;
  if (fruitless_ >= patience) {
    fruitless_ = 0;
    handed_over += run_fired();
  }
  pending_.store(waiting_.size(), std::memory_order_release);
  return handed_over;
}

// Checks at most kPortion triggers and runs at most kPortion operations, to keep each call short.
size_t Overflow::run_fired() {
  size_t ran = 0;
  for (size_t left = std::min(kPortion, by_trigger_.size()); left > 0 && ran < kPortion; --left) {
    auto trigger = by_trigger_.lower_bound(cursor_);
    if (trigger == by_trigger_.end())
      trigger = by_trigger_.begin();
    cursor_ = trigger->first + 1;
    auto& waiting = trigger->second;
    const uint64_t value = reached(trigger->first);
    while (ran < kPortion && !waiting.empty() && waiting.begin()->first <= value &&
           nic_.issue(waiting.begin()->second->op).ok()) {
      waiting_.erase(waiting.begin()->second);
      waiting.erase(waiting.begin());
      by_software_.fetch_add(1, std::memory_order_relaxed);
      ++ran;
    }
    if (waiting.empty())
      by_trigger_.erase(trigger);
  }
  return ran;
}

uint64_t Overflow::reached(uint32_t trigger) {
  const Result<nic::CounterValue> value = nic_.read({trigger});
  LANYARD_CHECK(value.ok(), "the trigger of an overflowed operation stays open until it has run");
  return value.value().reached();
}

bool Overflow::is_overdue(uint64_t context, uint64_t start) {
  const std::lock_guard lock(mutex_);
  // Reads the trigger last, because that is slow.
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& each) {
    return each.op.context == context && each.op.start == start && each.threshold <= reached(each.trigger.value);
  });
}

void Overflow::run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      added_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_)
        return;
      // Threads that wait for a stream drain more often. This one works when there are none.
      added_.wait_for(lock, kLookAgain, [this] { return stopping_; });
      if (stopping_)
        return;
    }
    while (drain(kOwnPatience) > 0) {
    }
  }
}

}  // namespace lanyard::core
