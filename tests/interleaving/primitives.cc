#include "tests/interleaving/primitives.h"

#include <linux/futex.h>

#include <cerrno>
#include <chrono>

#include "transport/base/check.h"

namespace lanyard::interleaving {

namespace {

constexpr uintptr_t kPage = 4096;

// Whether both are the same word, perhaps in two mappings: a write through one shows in the other.
bool is_same(volatile uint32_t* here, volatile uint32_t* there) {
  if (here == there)
    return true;
  if (reinterpret_cast<uintptr_t>(here) % kPage != reinterpret_cast<uintptr_t>(there) % kPage || *here != *there)
    return false;
  const uint32_t value = *here;
  *here = ~value;
  const bool same = *there == ~value;
  *here = value;
  return same;
}

}  // namespace

void Mutex::lock(Where where) {
  Scheduler* scheduler = Scheduler::running();
  if (scheduler != nullptr)
    scheduler->step(Act::kLock, where);
  while (locked_) {
    LANYARD_CHECK(scheduler != nullptr, "a mutex is locked twice outside a schedule");
    scheduler->sleep(this, std::nullopt, where);
  }
  locked_ = true;
  if (scheduler != nullptr)
    scheduler->loaded(this, std::memory_order_acquire);
}

void Mutex::unlock(Where where) {
  locked_ = false;
  Scheduler* scheduler = Scheduler::running();
  if (scheduler == nullptr)
    return;
  scheduler->stored(this, std::memory_order_release);
  scheduler->wake([this](const void* key) { return key == this; }, 1);
  scheduler->step(Act::kLock, where);
}

long futex(uint32_t* word, int operation, uint32_t value, const timespec* limit, const void*, int, Where where) {
  Scheduler* scheduler = Scheduler::running();
  LANYARD_CHECK(scheduler != nullptr, "futex() called outside a schedule");
  const int what = operation & FUTEX_CMD_MASK;
  if (what == FUTEX_WAKE) {
    scheduler->step(Act::kWake, where);
    const int woken =
        scheduler->wake([&](const void* key) { return is_same(word, static_cast<uint32_t*>(const_cast<void*>(key))); },
                        static_cast<int>(value));
    scheduler->step(Act::kWake, where);
    return woken;
  }
  LANYARD_CHECK(what == FUTEX_WAIT, "futex(): only FUTEX_WAIT and FUTEX_WAKE are replaced");
  scheduler->step(Act::kSleep, where);
  int error = 0;
  if (*static_cast<volatile uint32_t*>(word) != value)
    error = EAGAIN;
  else if (scheduler->is_spurious())
    error = EINTR;
  else if (const std::optional<Nanoseconds> time =
               limit == nullptr
                   ? std::nullopt
                   : std::optional<Nanoseconds>(std::chrono::seconds(limit->tv_sec) + Nanoseconds(limit->tv_nsec));
           !scheduler->sleep(word, time, where))
    error = ETIMEDOUT;
  errno = error;
  return error == 0 ? 0 : -1;
}

}  // namespace lanyard::interleaving
