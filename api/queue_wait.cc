// wait_until_empty(): for Lanyard_Queue_wait, Lanyard_Queue_free and MPI_Finalize.
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
// Rounds between two yields: some 10 us if this thread has the processor core to itself, else less
// than 1 us.
constexpr uint64_t kRoundsAlone = 128;
constexpr uint64_t kRoundsAmongOthers = 8;
// A longer yield has run another thread.
constexpr std::chrono::microseconds kShortYield{3};
// Time between two queries of a device's driver.
constexpr std::chrono::microseconds kBetweenQuestions{4};

void pause_for(std::chrono::nanoseconds time) {
  const Clock::time_point end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

// One wait, used by one thread.
class QueueWait {
 public:
  QueueWait(Context& context, lanyard_queue& queue, const char* caller)
      : context_(context),
        queue_(queue),
        stream_(queue.stream()),
        // A host stream runs on this thread, which also drives the card. With a deadline the stream
        // runs on its own thread, so that this one can report a kernel that never returns. With a
        // device stream the card's own thread drives; it shares the driver, so poll that rarely.
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

  // Returns nothing once all is complete, or the first error.
  std::optional<Refusal> run() {
    for (uint64_t round = 0;; ++round) {
      const uint64_t seen = context_.nic().activity();
      const bool empty = poll_stream();
      if (const Status health = stream_.health(); !health.ok())
        return Refusal{LANYARD_ERR_FAILED, "the stream cannot continue: " + health.message()};
      if (empty || round % 64 == 0) {
        bool complete = false;
        if (std::optional<Refusal> failure = poll_card(complete))
          return failure;
        if (complete && empty)
          return std::nullopt;
      }
      if (round % rounds_per_yield_ != rounds_per_yield_ - 1 || yield_and_keep_spinning())
        continue;
      if (std::optional<Refusal> failure = check_peers_and_deadline())
        return failure;
      sleep_since(seen);
    }
  }

 private:
  // True if the stream is empty.
  bool poll_stream() {
    const bool empty = is_host_ && !runs_here_ ? stream_.is_empty() : stream_.poll();
    if (!is_host_ && !empty)
      pause_for(kBetweenQuestions);
    return empty;
  }

  // Sets `complete` if all starts of the queue have completed. Returns a failure, or nothing.
  std::optional<Refusal> poll_card(bool& complete) {
    context_.helper().help();
    const ContextLock lock(context_);
    // Before take_failure(): all failures are known once the queue is complete.
    complete = queue_.core->settled();
    // With sender-flag the queue waits for answers of senders: read them at once.
    if (!complete && context_.endpoint().raises_flags() && context_.plane().pending())
      context_.plane().progress();
    return take_failure();
  }

  // A failure of this queue that was not reported yet.
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
                   std::to_string(unrecorded) + " operations failed; their requests are no longer known"};
  }

  // Yields. True if it is too early to sleep or to do anything else that is slow.
  bool yield_and_keep_spinning() {
    const Clock::time_point now = Clock::now();
    if (stream_.executed() != executed_) {
      executed_ = stream_.executed();
      spin_until_ = now + kSpin;
    }
    sched_yield();
    rounds_per_yield_ = Clock::now() - now > kShortYield ? kRoundsAmongOthers : kRoundsAlone;
    return now < spin_until_;
  }

  std::optional<Refusal> check_peers_and_deadline() {
    const ContextLock lock(context_);
    context_.plane().progress();
    context_.endpoint().fail_requests_of_lost_peers();
    if (call_.overdue() && call_.report_ready())
      return Refusal{context_.errors().class_of(LANYARD_ERROR_STALLED), "the deadline passed: " + call_.report()};
    return std::nullopt;
  }

  void sleep_since(uint64_t seen) {
    // While the card moves data this thread keeps driving it. Otherwise the card's own thread would
    // wake, and the two would slow each other down.
    if (const uint64_t activity = context_.nic().activity(); activity != moved_) {
      moved_ = activity;
      spin_until_ = Clock::now() + kSpin;
      return;
    }
    // Does not leave the stream: after the sleep this thread runs it again.
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
  uint64_t moved_;  // the card's activity when last read
  uint64_t rounds_per_yield_ = kRoundsAlone;
};

}  // namespace

std::optional<Refusal> wait_until_empty(Context& context, lanyard_queue& queue, const char* caller) {
  if (queue.stream().capturing() != 0)
    return Refusal{LANYARD_ERR_QUEUE, "the queue's stream is being captured into a graph: end the capture first"};
  if (gpu::HostStream::inside_kernel())
    return Refusal{LANYARD_ERR_BUSY, "called by a kernel of a host stream, which must not wait for a stream"};
  return QueueWait(context, queue, caller).run();
}

}  // namespace lanyard::api
