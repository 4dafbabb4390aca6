#include "nicsim/threaded/lagging_memory.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "transport/base/check.h"
#include "transport/base/service_thread.h"

namespace lanyard::nicsim {

namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

class LaggingMemory final : public DeviceMemory {
 public:
  LaggingMemory(DeviceMemory& memory, microseconds lag) : memory_(memory), lag_(lag) {}
  // Delivers what is late.
  ~LaggingMemory() override;
  Status start();

  const char* kind() const override { return memory_.kind(); }
  Result<int> device_of(const void* address, uint64_t bytes) const override {
    return memory_.device_of(address, bytes);
  }
  Result<Copy> start_copy(void* to, const void* from, uint64_t bytes) override;
  Result<bool> has_ended(Copy copy) override;
  Result<std::byte*> take_staging(uint64_t bytes) override { return memory_.take_staging(bytes); }
  void give_staging(std::byte* memory) override { memory_.give_staging(memory); }
  Result<Loan> lend(const void* address, uint64_t bytes) override { return memory_.lend(address, bytes); }
  Result<std::byte*> borrow(const Loan& loan, int device) override { return memory_.borrow(loan, device); }
  void give_back(std::byte* borrowed) override { memory_.give_back(borrowed); }
  uint64_t lent_bytes(const Loan& loan) const override { return memory_.lent_bytes(loan); }

 private:
  struct DelayedCopy {
    uint64_t number = 0;
    Copy copy = {};
    std::byte* shadow = nullptr;  // the source's bytes; null for a copy without delay
    void* to = nullptr;
    uint64_t bytes = 0;
    steady_clock::time_point due = {};  // set once has_ended() has returned true
  };

  void run();
  void deliver(const DelayedCopy& late);

  DeviceMemory& memory_;
  const microseconds lag_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<DelayedCopy> early_;  // has_ended() has not returned true yet
  std::deque<DelayedCopy> late_;
  uint64_t numbers_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

LaggingMemory::~LaggingMemory() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

Status LaggingMemory::start() {
  Result<std::thread> thread = start_service_thread("lanyard-lag", [this] { run(); });
  if (!thread.ok())
    return thread.status();
  thread_ = std::move(thread.value());
  return {};
}

Result<DeviceMemory::Copy> LaggingMemory::start_copy(void* to, const void* from, uint64_t bytes) {
  DelayedCopy early{.to = to, .bytes = bytes};
  const Result<int> device = memory_.device_of(to, bytes);
  if (device.ok() && device.value() != kHost) {
    const Result<std::byte*> shadow = memory_.take_staging(bytes);
    if (!shadow.ok())
      return shadow.status();
    early.shadow = shadow.value();
  }
  const Result<Copy> copy = memory_.start_copy(early.shadow != nullptr ? early.shadow : to, from, bytes);
  if (!copy.ok()) {
    if (early.shadow != nullptr)
      memory_.give_staging(early.shadow);
    return copy;
  }
  early.copy = copy.value();
  const std::lock_guard lock(mutex_);
  early.number = ++numbers_;
  early_.push_back(early);
  return Copy{early.number};
}

Result<bool> LaggingMemory::has_ended(Copy copy) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(early_.begin(), early_.end(), [&](const DelayedCopy& each) { return each.number == copy.number; });
  LANYARD_CHECK(found != early_.end(), "has_ended() needs a copy that has not ended yet");
  const Result<bool> ended = memory_.has_ended(found->copy);
  if (ended.ok() && !ended.value())
    return false;
  DelayedCopy early = *found;
  early_.erase(found);
  if (early.shadow == nullptr)
    return ended;
  if (!ended.ok()) {
    memory_.give_staging(early.shadow);
    return ended;
  }
  early.due = steady_clock::now() + lag_;
  late_.push_back(early);
  changed_.notify_all();
  return true;
}

void LaggingMemory::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (late_.empty()) {
      if (stopping_)
        return;
      changed_.wait(lock);
      continue;
    }
    const DelayedCopy late = late_.front();
    if (!stopping_ && steady_clock::now() < late.due) {
      changed_.wait_until(lock, late.due);
      continue;
    }
    late_.pop_front();
    lock.unlock();
    deliver(late);
    lock.lock();
  }
}

// Delivers the bytes. A failure here goes unreported: has_ended() returned true long before.
void LaggingMemory::deliver(const DelayedCopy& late) {
  constexpr microseconds kPeriod{50};
  Result<Copy> copy = memory_.start_copy(late.to, late.shadow, late.bytes);
  for (; copy.status().code() == Code::kAgain; copy = memory_.start_copy(late.to, late.shadow, late.bytes))
    std::this_thread::sleep_for(kPeriod);
  if (copy.ok()) {
    for (Result<bool> ended = false; ended.ok() && !ended.value(); ended = memory_.has_ended(copy.value()))
      std::this_thread::sleep_for(kPeriod);
  }
  memory_.give_staging(late.shadow);
}

}  // namespace

Result<std::unique_ptr<DeviceMemory>> make_lagging_memory(DeviceMemory& memory, microseconds lag) {
  auto lagging = std::make_unique<LaggingMemory>(memory, lag);
  LANYARD_RETURN_IF_ERROR(lagging->start());
  return std::unique_ptr<DeviceMemory>(std::move(lagging));
}

}  // namespace lanyard::nicsim
