#include "nicsim/fi/trigger_queue.h"

#include <chrono>
#include <utility>

#include "transport/base/service_thread.h"

namespace lanyard::nicsim::fi {

namespace {

// How often a stalled queue looks for free entries.
constexpr std::chrono::microseconds kPeriod{200};

}  // namespace

TriggerQueue::TriggerQueue(ThreadedNic& nic, std::unique_ptr<SharedPool> pool, bool refuses_without_entry,
                           std::function<void(const nic::Op&)> lost)
    : nic_(nic), refuses_without_entry_(refuses_without_entry), lost_(std::move(lost)), pool_(std::move(pool)) {}

TriggerQueue::~TriggerQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

Status TriggerQueue::post(const nic::DeferredOp& op) {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) {
    Status status = try_post(op);
    if (status.code() != Code::kAgain)
      return status;
    if (refuses_without_entry_)
      return {Code::kExhausted, "no deferred-work entry is free"};
  }
  if (!thread_.joinable()) {
    LANYARD_ASSIGN_OR_RETURN(thread_, start_service_thread("lanyard-cxi-tq", [this] { run(); }));
  }
  waiting_.push_back(op);
  waiting_count_.store(waiting_.size(), std::memory_order_release);
  changed_.notify_all();
  return {};
}

// Posts with an entry of the pool. kAgain if the pool is empty.
Status TriggerQueue::try_post(const nic::DeferredOp& op) {
  if (pool_ == nullptr)
    return nic_.post({&op, 1});
  give_back_what_fired();
  {
    const std::lock_guard lock(pool_mutex_);
    if (!pool_->take(1))
      return {Code::kAgain, "other processes of the job hold all deferred-work entries"};
    ++taken_;
    ++posting_;
  }
  Status status = nic_.post({&op, 1});
  {
    const std::lock_guard lock(pool_mutex_);
    --posting_;
  }
  if (!status.ok())
    give_back_what_fired();
  return status;
}

void TriggerQueue::give_back_what_fired() {
  if (pool_ == nullptr)
    return;
  const std::lock_guard lock(pool_mutex_);
  // An operation being posted may count twice. So this NIC may hold too many for
  // a moment, never too few.
  const uint32_t held = nic_.caps().deferred_depth - nic_.free_entries() + posting_;
  if (held >= taken_)
    return;
  pool_->give(taken_ - held);
  taken_ = held;
}

std::vector<nic::Op> TriggerQueue::take_back(nic::CounterId trigger) {
  const std::lock_guard lock(mutex_);
  std::vector<nic::Op> taken;
  std::erase_if(waiting_, [&](const nic::DeferredOp& deferred) {
    const bool goes = !trigger.valid() || deferred.trigger == trigger;
    if (goes)
      taken.push_back(deferred.op);
    return goes;
  });
  waiting_count_.store(waiting_.size(), std::memory_order_release);
  return taken;
}

void TriggerQueue::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    drain();
    if (waiting_.empty())
      changed_.wait(lock);
    else
      changed_.wait_for(lock, kPeriod);
  }
}

// Posts from the front while there is room.
void TriggerQueue::drain() {
  bool posted = false;
  while (!waiting_.empty()) {
    const Status status = try_post(waiting_.front());
    if (status.code() == Code::kAgain)
      break;
    posted |= status.ok();
    if (!status.ok())
      lost_(waiting_.front().op);
    waiting_.pop_front();
  }
  waiting_count_.store(waiting_.size(), std::memory_order_release);
  if (posted)
    nic_.progress();
}

}  // namespace lanyard::nicsim::fi
