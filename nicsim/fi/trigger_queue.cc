#include "nicsim/fi/trigger_queue.h"

#include <chrono>
#include <utility>

#include "transport/base/service_thread.h"

namespace lanyard::nicsim::fi {

namespace {

// How often a stalled queue looks whether entries have become free.
constexpr std::chrono::microseconds kPeriod{200};

}  // namespace

TriggerQueue::TriggerQueue(ThreadedNic& nic, EntryShare& share, Settings::Pool pool,
                           std::function<void(const nic::Op&)> lost)
    : nic_(nic), share_(share), pool_(pool), lost_(std::move(lost)) {}

TriggerQueue::~TriggerQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

Status TriggerQueue::post(std::span<const nic::DeferredOp> ops, Settings::Pool pool) {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) {
    Status status = share_.post(ops);
    if (status.code() != Code::kAgain)
      return status;
    if (pool == Settings::Pool::kNoSpace)
      return {Code::kExhausted, "the deferred-work entries are exhausted"};
  }
  LANYARD_RETURN_IF_ERROR(start());
  waiting_.emplace_back(ops.begin(), ops.end());
  waiting_count_.store(waiting_.size(), std::memory_order_release);
  changed_.notify_all();
  return {};
}

// Of each batch all entries wait for one counter.
template <typename Condition>
std::vector<nic::Op> TriggerQueue::take_back(Condition condition) {
  const std::lock_guard lock(mutex_);
  std::vector<nic::Op> taken;
  std::erase_if(waiting_, [&](const Batch& batch) {
    if (!condition(batch.front()))
      return false;
    for (const nic::DeferredOp& deferred : batch)
      taken.push_back(deferred.op);
    return true;
  });
  waiting_count_.store(waiting_.size(), std::memory_order_release);
  return taken;
}

std::vector<nic::Op> TriggerQueue::clear() {
  return take_back([](const nic::DeferredOp&) { return true; });
}

std::vector<nic::Op> TriggerQueue::cancel(nic::CounterId trigger) {
  return take_back([trigger](const nic::DeferredOp& deferred) { return deferred.trigger == trigger; });
}

Status TriggerQueue::start() {
  if (thread_.joinable())
    return {};
  Result<std::thread> thread = start_service_thread("lanyard-cxi-tq", [this] { run(); });
  if (!thread.ok())
    return thread.status();
  thread_ = std::move(thread.value());
  return {};
}

void TriggerQueue::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (waiting_.empty()) {
      changed_.wait(lock);
      continue;
    }
    drain();
    if (!waiting_.empty())
      changed_.wait_for(lock, kPeriod);
  }
}

// Posts from the front as long as there is room.
void TriggerQueue::drain() {
  bool posted = false;
  while (!waiting_.empty()) {
    const Status status = share_.post(waiting_.front());
    if (status.code() == Code::kAgain)
      break;
    posted |= status.ok();
    if (!status.ok()) {
      for (const nic::DeferredOp& deferred : waiting_.front())
        lost_(deferred.op);
    }
    waiting_.pop_front();
  }
  waiting_count_.store(waiting_.size(), std::memory_order_release);
  if (posted)
    nic_.progress();
}

}  // namespace lanyard::nicsim::fi
