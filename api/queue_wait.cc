// Waiting until a queue is empty and settled: Lanyard_Queue_wait, Lanyard_Queue_free and MPI_Finalize.
#include <sched.h>

#include <chrono>
#include <optional>
#include <string>

#include "api/blocking_call.h"
#include "api/queue.h"
#include "gpu/host/host_stream.h"

namespace lanyard::api {

namespace {

using Clock = std::chrono::steady_clock;

// A waiting thread polls for this long before it sleeps between polls.
constexpr std::chrono::microseconds kSpin{50};
constexpr std::chrono::milliseconds kSleep{1};
// How many rounds between two yields: where the core is this thread's alone, some 10 us; where others want it, hardly
// one.
constexpr uint64_t kRoundsAlone = 128;
constexpr uint64_t kRoundsAmongOthers = 8;
// A yield that takes longer has let somebody else run.
constexpr std::chrono::microseconds kShortYield{3};
// In which a device's driver is not asked.
constexpr std::chrono::microseconds kBetweenQuestions{4};

void pause_for(std::chrono::nanoseconds time) {
  const Clock::time_point end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

// One wait, by the thread that makes it.
class QueueWait {
 public:
  QueueWait(Context& context, lanyard_queue& queue, const char* caller)
      : context_(context),
        queue_(queue),
        stream_(queue.stream()),
        // A host stream runs on this thread, which then does the card's work too; but where there is a deadline it runs
        // on its own, so that a kernel that never returns does not keep this thread from saying so. A device's runs by
        // itself: the card's own thread is left to itself, and the driver, which it needs, is asked now and then only.
        is_host_(queue.device_stream == nullptr),
        runs_here_(is_host_ && context.settings().deadline.count() == 0),
        call_(context, {.name = caller, .queue = &queue}),
        spin_until_(call_.begin() + kSpin),
        executed_(stream_.executed()),
        moved_(context.nic().activity()) {
    if (is_host_)
      context_.nic().attend();
    if (runs_here_)
      stream_.attend();
  }
  ~QueueWait() {
    if (runs_here_)
      stream_.leave();
    if (is_host_)
      context_.nic().leave();
  }
  QueueWait(const QueueWait&) = delete;
  QueueWait& operator=(const QueueWait&) = delete;

  // Until the queue is empty and settled, or something has failed.
  std::optional<Refusal> run() {
    for (uint64_t round = 0;; ++round) {
      const uint64_t seen = context_.nic().activity();
      const bool empty = look_at_stream();
      if (const Status health = stream_.health(); !health.ok())
        return Refusal{LANYARD_ERR_FAILED, "the stream will not go on: " + health.message()};
      if (empty || round % 64 == 0) {
        bool settled = false;
        if (std::optional<Refusal> failure = look_at_card(settled))
          return failure;
        if (settled && empty)
          return std::nullopt;
      }
      if (round % rounds_per_yield_ != rounds_per_yield_ - 1 || is_hopeful())
        continue;
      if (std::optional<Refusal> failure = look_around())
        return failure;
      sleep_since(seen);
    }
  }

 private:
  // Whether the stream is empty.
  bool look_at_stream() {
    const bool empty = is_host_ && !runs_here_ ? stream_.is_empty() : stream_.poll();
    if (!is_host_ && !empty)
      pause_for(kBetweenQuestions);
    return empty;
  }

  std::optional<Refusal> look_at_card(bool& settled) {
    context_.helper().help();
    const ContextLock lock(context_);
    // Before the failures: a failure is told before the queue is settled.
    settled = queue_.core->settled();
    // The senders may have to be asked, and their answers be read: at once, for each is waited for.
    if (!settled && context_.endpoint().raises_flags() && context_.plane().pending())
      context_.plane().progress();
    return take_failure();
  }

  // A failure of this queue's that has not been told yet.
  std::optional<Refusal> take_failure() LANYARD_REQUIRES(context_locked) {
    core::Endpoint& endpoint = context_.endpoint();
    if (const core::Request* failed = endpoint.take_failed(*queue_.core)) {
      const std::string text =
          "an operation of the request (" + failed->describe() + ") failed: " + endpoint.explain_failure(*failed);
      endpoint.release(*endpoint.find(failed->number));
      return Refusal{LANYARD_ERR_FAILED, text};
    }
    const uint64_t unrecorded = endpoint.take_unrecorded_failures();
    if (unrecorded == 0)
      return std::nullopt;
    return Refusal{LANYARD_ERR_FAILED,
                   std::to_string(unrecorded) + " operations failed of which it is not known any more whose they were"};
  }

  // Yields; then whether it is too early for anything that costs more.
  bool is_hopeful() {
    const Clock::time_point now = Clock::now();
    if (stream_.executed() != executed_) {
      executed_ = stream_.executed();
      spin_until_ = now + kSpin;
    }
    sched_yield();
    rounds_per_yield_ = Clock::now() - now > kShortYield ? kRoundsAmongOthers : kRoundsAlone;
    return now < spin_until_;
  }

  // Whoever may have ended or given up.
  std::optional<Refusal> look_around() {
    const ContextLock lock(context_);
    context_.plane().progress();
    context_.endpoint().fail_requests_of_lost_peers();
    if (call_.overdue() && call_.report_ready())
      return Refusal{context_.errors().class_of(LANYARD_ERROR_STALLED), "the deadline passed: " + call_.report()};
    return std::nullopt;
  }

  void sleep_since(uint64_t seen) {
    // While the card moves data this thread stays with it: to leave would wake the card's own thread, and the two would
    // get into each other's way.
    if (const uint64_t activity = context_.nic().activity(); activity != moved_) {
      moved_ = activity;
      spin_until_ = Clock::now() + kSpin;
      return;
    }
    // Still attending the stream: whatever ends the sleep is for this thread to go on with.
    if (is_host_)
      context_.nic().leave();
    context_.nic().wait_since(seen, kSleep);
    if (is_host_)
      context_.nic().attend();
  }

  Context& context_;
  lanyard_queue& queue_;
  gpu::Stream& stream_;
  const bool is_host_;
  const bool runs_here_;
  BlockingCall call_;
  Clock::time_point spin_until_;
  uint64_t executed_;
  uint64_t moved_;  // the card's activity, when it was looked at last
  uint64_t rounds_per_yield_ = kRoundsAlone;
};

}  // namespace

std::optional<Refusal> wait_until_empty(Context& context, lanyard_queue& queue, const char* caller) {
  if (queue.stream().capturing() != 0)
    return Refusal{LANYARD_ERR_QUEUE, "the queue's stream is being captured"};
  if (gpu::HostStream::inside_kernel())
    return Refusal{LANYARD_ERR_BUSY, "called by a kernel of a host stream, which nothing may wait in"};
  return QueueWait(context, queue, caller).run();
}

}  // namespace lanyard::api
