#include "gpu/host/host_stream.h"

#include <algorithm>
#include <mutex>

#include "gpu/host/spin.h"
#include "gpu/packing.h"
#include "transport/base/check.h"
#include "transport/base/futex.h"
#include "transport/base/service_thread.h"

namespace lanyard::gpu {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kPortionItems = 64;  // then another thread may become the executor
constexpr int kHelpsPerPoll = 8;
constexpr std::chrono::nanoseconds kCallerSpin = 50us;
constexpr int kPollsPerYield = 16;
constexpr std::chrono::nanoseconds kThreadSpin = 20us;
constexpr std::chrono::nanoseconds kIdleNap = 200us;
constexpr std::chrono::nanoseconds kAttendedNap = 1ms;

const Packing& packing_of(const StreamOp& op) { return *static_cast<const Packing*>(op.object); }

Status not_packed() {
  return Status(Code::kUnsupported,
                "a host stream cannot pack or unpack memory of a GPU: use a queue on a stream of that GPU");
}

Status check(const StreamOp& op) {
  LANYARD_RETURN_IF_ERROR(check_operation(op));
  switch (op.kind) {
    case StreamOp::Kind::kPack:
    case StreamOp::Kind::kUnpack: return packing_of(op).device == DeviceMemory::kHost ? Status() : not_packed();
    case StreamOp::Kind::kStartLane:
    case StreamOp::Kind::kWaitLane:
      return Status(Code::kUnsupported,
                    "GPUs carry this request's messages themselves, and a host stream cannot start it: use a stream of "
                    "its GPU, or set its hint lanyard_route to card before the match");
    default: return {};
  }
}

thread_local int inside_kernels = 0;  // how many the calling thread is in

}  // namespace

HostStream::HostStream(const Options& options)
    : quiet_before_deep_sleep_(options.quiet_before_deep_sleep), ring_(options.max_items) {}

HostStream::~HostStream() {
  if (thread_.joinable()) {
    stopping_.store(true);
    // However the thread rests, it sees stopping_ before it sleeps, finds rest_ changed,
    // or is woken.
    rest_.store(kAwake);
    futex_wake(rest_, 1);
    thread_.join();
  }
  while (run(Runner::kCaller) == Outcome::kMore) {  // kBusy if halted
  }
}

// ---- Enqueuing ----------------------------------------------------------------------------------

template <typename Fill>
Status HostStream::put(size_t items, Fill fill) {
  {
    const std::lock_guard lock(writer_);
    if (!thread_.joinable()) [[unlikely]]
      LANYARD_RETURN_IF_ERROR(start_thread());
    LANYARD_RETURN_IF_ERROR(ring_.reserve(items));
    fill();
    ring_.publish();
  }
  wake();
  return {};
}

Status HostStream::enqueue(std::span<const StreamOp> ops) {
  if (ops.empty())
    return {};
  for (const StreamOp& op : ops)
    LANYARD_RETURN_IF_ERROR(check(op));
  return put(ops.size(), [&] {
    for (const StreamOp& op : ops) {
      WorkItem& item = ring_.next_slot();
      item.op = op;
      item.kernel = nullptr;
    }
  });
}

Status HostStream::can_pack(const Packing& packing) const {
  return packing.device == DeviceMemory::kHost ? Status() : not_packed();
}

Status HostStream::launch(void (*kernel)(void* argument), void* argument) {
  if (kernel == nullptr)
    return Status(Code::kInvalidArgument, "launch() was called with a null kernel");
  return put(1, [&] {
    WorkItem& item = ring_.next_slot();
    item.kernel = kernel;
    item.op.object = argument;
  });
}

// ---- Executing ----------------------------------------------------------------------------------

bool HostStream::poll() {
  // A plain increment: two polls at once may lose one, but the value still changes.
  polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const uint64_t target = ring_.enqueued();
  bool helped = true;
  for (int helps = 0; ring_.executed() < target;) {
    const Outcome outcome = run(Runner::kCaller);
    if (outcome == Outcome::kBusy)
      break;
    if (outcome != Outcome::kBlocked)
      continue;
    if (!helped || helps == kHelpsPerPoll)  // the word was checked since the last help
      break;
    helped = helper_.help();
    ++helps;
  }
  return ring_.empty();
}

Status HostStream::synchronize(std::optional<Clock::time_point> deadline) {
  const Attendance attendance(*this);
  const uint64_t target = ring_.enqueued();
  Spin spin(kCallerSpin, kPollsPerYield);
  for (uint64_t executed_before = ring_.executed();;) {
    const uint64_t seen = helper_.activity();
    poll();
    const uint64_t executed = ring_.executed();
    if (executed >= target)
      return {};
    if (halted_.load())
      return Status(Code::kInvalidState, "the stream was halted and does not run the rest of its work");
    // Also spin on while the helper makes progress: a message may take longer than the spin, and to
    // sleep during it costs more.
    if (executed != executed_before || helper_.activity() != seen)
      spin.renew();
    executed_before = executed;
    std::chrono::nanoseconds left = kLongestSleep;
    if (deadline.has_value()) {
      left = std::min<std::chrono::nanoseconds>(left, *deadline - Clock::now());
      if (left <= 0ns)
        return Status(Code::kTimedOut, "the stream is not empty at the deadline");
    }
    if (!spin.once())
      helper_.sleep_since(seen, left);
  }
}

bool HostStream::halt(std::chrono::nanoseconds limit) {
  const Clock::time_point begin = Clock::now();
  while (executor_.test_and_set(std::memory_order_acquire)) {
    if (Clock::now() - begin > limit)
      return false;
    std::this_thread::yield();
  }
  halted_.store(true);
  return true;
}

HostStream::Outcome HostStream::run(Runner runner) noexcept {
  if (executor_.test_and_set(std::memory_order_acquire))
    return Outcome::kBusy;
  Outcome outcome = Outcome::kMore;
  for (uint32_t left = kPortionItems; left > 0; --left) {
    const WorkItem* item = ring_.front();
    if (item == nullptr) {
      outcome = Outcome::kEmpty;
      break;
    }
    // H3. Check this after front(): a thread that sees an item also sees each attend() before
    // its enqueue.
    if (runner == Runner::kOwnThread && attendants_.load(std::memory_order_relaxed) != 0) {
      outcome = Outcome::kBusy;
      break;
    }
    if (!execute(*item)) {
      outcome = Outcome::kBlocked;
      break;
    }
    ring_.pop();
  }
  executor_.clear(std::memory_order_release);
  return outcome;
}

bool HostStream::execute(const WorkItem& item) {
  const StreamOp& op = item.op;
  if (item.kernel != nullptr) {
    ++inside_kernels;
    running_.store(reinterpret_cast<const void*>(item.kernel), std::memory_order_relaxed);
    item.kernel(op.object);
    running_.store(nullptr, std::memory_order_relaxed);
    --inside_kernels;
    return true;
  }
  switch (op.kind) {
    case StreamOp::Kind::kWrite64: std::atomic_ref(*op.word).store(op.value, std::memory_order_release); return true;
    case StreamOp::Kind::kWriteNext64:
      std::atomic_ref(*op.word).store(*op.count += op.value, std::memory_order_release);
      return true;
    case StreamOp::Kind::kAdd64: std::atomic_ref(*op.word).fetch_add(op.value, std::memory_order_release); return true;
    case StreamOp::Kind::kCall: op.call(op.object, op.argument, op.value); return true;
    case StreamOp::Kind::kPack: packing_of(op).pack(op.value); return true;
    case StreamOp::Kind::kUnpack: packing_of(op).unpack(op.value); return true;
    case StreamOp::Kind::kWait64:
    case StreamOp::Kind::kWaitNext64:
    case StreamOp::Kind::kStartLane:
    case StreamOp::Kind::kWaitLane: break;
  }
  const bool next = op.kind == StreamOp::Kind::kWaitNext64;
  const uint64_t wanted = next ? *op.count + op.value : op.value;
  const uint64_t seen = std::atomic_ref(*op.word).load(std::memory_order_acquire);
  if (seen >= wanted) {
    if (next)
      *op.count = wanted;
    return true;
  }
  blocked_at_.store(ring_.executed() + 1, std::memory_order_release);
  return false;
}

Result<std::byte*> HostStream::take_memory(std::span<const uint64_t> content) {
  auto* memory = new uint64_t[content.size()];
  std::copy(content.begin(), content.end(), memory);
  return reinterpret_cast<std::byte*>(memory);
}

bool HostStream::inside_kernel() { return inside_kernels > 0; }

Stream::Head HostStream::head() {
  if (const void* kernel = running_.load(std::memory_order_relaxed))
    return {.waits_for = nullptr, .kernel = kernel, .item = ring_.executed()};
  // Holding writer_ keeps the slot from being overwritten. Do not read the word: it need not
  // outlive the wait, which may end now.
  const std::lock_guard lock(writer_);
  const uint64_t executed = ring_.executed();
  if (blocked_at_.load(std::memory_order_acquire) != executed + 1)
    return {};
  return {.waits_for = ring_.peek(executed).op.word, .kernel = nullptr, .item = executed};
}

// ---- The stream's own thread --------------------------------------------------------------------

Status HostStream::start_thread() {
  LANYARD_ASSIGN_OR_RETURN(thread_, start_service_thread("lanyard-stream", [this] { serve(); }));
  return {};
}

// Whether callers run the stream: one is between attend() and leave(), or has polled since the
// last call.
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
    const uint64_t executed_before = ring_.executed();
    const Outcome outcome = run(Runner::kOwnThread);
    if (outcome != Outcome::kBusy && ring_.executed() != executed_before)
      spin.renew();
    switch (outcome) {
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

// H2. All of this is sequentially consistent. enqueue() publishes, then reads rest_ and
// attendants_. leave() lowers attendants_, then reads the ring and rest_. sleep_deep() sets rest_,
// then reads attendants_ and the ring. The last of them sees the others' writes. If there is
// work that no caller runs, it wakes the thread or does not let it sleep.

void HostStream::end_deep_sleep() {
  if (rest_.exchange(kAwake) == kDeep)  // only one of several callers makes the system call
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
    // Polls before or during the sleep do not count.
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
