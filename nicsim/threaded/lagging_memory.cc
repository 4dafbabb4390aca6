#include "nicsim/threaded/lagging_memory.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "transport/base/check.h"
#include "transport/base/service_thread.h"

namespace lanyard::nicsim {

namespace {

namespace asio = boost::asio;
using std::chrono::microseconds;
using std::chrono::steady_clock;

class LaggingMemory final : public DeviceMemory {
 public:
  LaggingMemory(DeviceMemory& memory, microseconds lag) : memory_(memory), lag_(lag) {}
  // Delivers what is late.
  ~LaggingMemory() override {
    work_.reset();
    if (thread_.joinable())
      thread_.join();
  }
  Status start() {
    LANYARD_ASSIGN_OR_RETURN(thread_, start_service_thread("lanyard-lag", [this] { late_.run(); }));
    return {};
  }

  const char* kind() const override { return memory_.kind(); }
  Result<int> device_of(const void* address, uint64_t bytes) const override {
    return memory_.device_of(address, bytes);
  }

  Result<DeviceMemory::Copy> start_copy(void* to, const void* from, uint64_t bytes) override {
    DelayedCopy early{.to = to, .bytes = bytes};
    const Result<int> device = memory_.device_of(to, bytes);
    if (device.ok() && device.value() != kHost) {
      LANYARD_ASSIGN_OR_RETURN(early.shadow, memory_.take_staging(bytes));
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

  Result<bool> has_ended(Copy copy) override {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(early_, copy.number, &DelayedCopy::number);
    LANYARD_CHECK(found != early_.end(), "has_ended() needs a copy that has not ended yet");
    const Result<bool> ended = memory_.has_ended(found->copy);
    if (ended.ok() && !ended.value())
      return false;
    const DelayedCopy early = *found;
    early_.erase(found);
    if (early.shadow == nullptr)
      return ended;
    if (!ended.ok()) {
      memory_.give_staging(early.shadow);
      return ended;
    }
    asio::post(late_, [this, early, due = steady_clock::now() + lag_] {
      std::this_thread::sleep_until(due);
      deliver(early);
    });
    return true;
  }

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
  };

  // Delivers the bytes. A failure here goes unreported: has_ended() returned true long before.
  void deliver(const DelayedCopy& late) {
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

  DeviceMemory& memory_;
  const microseconds lag_;
  std::mutex mutex_;                // guards the next two members
  std::vector<DelayedCopy> early_;  // has_ended() has not returned true yet
  uint64_t numbers_ = 0;
  asio::io_context late_{1};  // delivers in the order of the ends
  asio::executor_work_guard<asio::io_context::executor_type> work_{late_.get_executor()};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<DeviceMemory>> make_lagging_memory(DeviceMemory& memory, microseconds lag) {
  auto lagging = std::make_unique<LaggingMemory>(memory, lag);
  LANYARD_RETURN_IF_ERROR(lagging->start());
  return std::unique_ptr<DeviceMemory>(std::move(lagging));
}

}  // namespace lanyard::nicsim
