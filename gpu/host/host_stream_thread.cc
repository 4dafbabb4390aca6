// The stream's own thread: when it works, when it stands back, when it sleeps.
#include "gpu/host/host_stream.h"
#include "gpu/host/spin.h"
#include "transport/base/check.h"
#include "transport/base/futex.h"
#include "transport/base/service_thread.h"

namespace lanyard::gpu {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kThreadSpin = 20us;
constexpr std::chrono::nanoseconds kIdleNap = 200us;
constexpr std::chrono::nanoseconds kAttendedNap = 1ms;

}  // namespace

Status HostStream::start_thread() {
  Result<std::thread> thread = start_service_thread("lanyard-stream", [this] { serve(); });
  if (!thread.ok())
    return thread.status();
  thread_ = std::move(thread.value());
  return {};
}

// Whether somebody else sees to the stream: attends it, or has polled since the last look.
bool HostStream::attended() {
  const uint64_t polls = polls_.load(std::memory_order_relaxed);
  const bool polled = polls != polls_seen_;
  polls_seen_ = polls;
  return polled || attendants_.load() != 0;
}

void HostStream::serve() {
  Spin spin(kThreadSpin, 1);
  quiet_since_ = Clock::now();
  while (!stopping_.load()) {
    if (attended()) {
      rest(kAttendedNap);
      continue;
    }
    const uint64_t seen = helper_.activity();
    const Portion portion = run(Runner::kOwnThread);
    if (portion.ran)
      spin.renew();
    switch (portion.outcome) {
      case Outcome::kMore: break;
      case Outcome::kBusy: rest(kAttendedNap); break;
      case Outcome::kBlocked:
        if (helper_.help())
          spin.renew();
        else if (!spin.once())
          helper_.sleep_since(seen, kLongestSleep);
        break;
      case Outcome::kEmpty:
        if (!spin.once())
          rest(kIdleNap);
        break;
    }
  }
}

// H2. Three things decide whether deep sleep is right: what is enqueued, who attends, and whether
// the thread is in, or about to be in, deep sleep. Each is written with sequential consistency,
// after which its writer looks at the other two: enqueue() publishes, then looks at rest_ and
// attendants_; leave() takes an attendant away, then looks at rest_ and at the ring; sleep_deep()
// sets rest_, then looks at attendants_ and at the ring. Whoever writes last sees the other two as
// they remain; if there is work that nobody attends to, it does not sleep, or wakes the thread.

void HostStream::end_deep_sleep() {
  if (rest_.exchange(kAwake) == kDeep)  // of several, one makes the system call
    futex_wake(rest_, 1);
}

void HostStream::leave() {
  const uint32_t attendants = attendants_.fetch_sub(1);
  LANYARD_CHECK(attendants > 0, "leave() without attend()");
  if (!ring_.empty())
    wake();
}

bool HostStream::sleep_deep() {
  rest_.store(kDeep);
  const bool may_sleep = !stopping_.load() && (attendants_.load() != 0 || ring_.empty());
  if (may_sleep) {
    futex_wait(rest_, kDeep);
    // Polls from before, and during, the sleep say nothing about now.
    polls_seen_ = polls_.load(std::memory_order_relaxed);
  }
  rest_.store(kAwake);
  return may_sleep;
}

void HostStream::rest(std::chrono::nanoseconds nap) {
  const uint64_t enqueued = ring_.enqueued();
  const Clock::time_point now = Clock::now();
  if (enqueued != enqueued_seen_)
    quiet_since_ = now;
  enqueued_seen_ = enqueued;
  if (now - quiet_since_ >= quiet_before_deep_sleep_ && sleep_deep())
    return;
  rest_.store(kNap);
  if (!stopping_.load())
    futex_wait(rest_, kNap, nap);
  rest_.store(kAwake);
}

}  // namespace lanyard::gpu
