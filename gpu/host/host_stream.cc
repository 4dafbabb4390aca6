#include "gpu/host/host_stream.h"

#include <algorithm>
#include <mutex>

#include "gpu/host/spin.h"
#include "gpu/packing.h"
#include "transport/base/futex.h"

namespace lanyard::gpu {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kPortionItems = 64;  // then somebody else may want to go on
constexpr int kHelpsPerPoll = 8;
constexpr std::chrono::nanoseconds kCallerSpin = 50us;
constexpr int kPollsPerYield = 16;

bool is_word(const uint64_t* word) {
  return word != nullptr && reinterpret_cast<uintptr_t>(word) % alignof(uint64_t) == 0;
}

const Packing& packing_of(const StreamOp& op) { return *static_cast<const Packing*>(op.object); }

inline bool is_valid(const StreamOp& op) {
  // The two that starts and waits are made of come first.
  if (op.kind == StreamOp::Kind::kCall)
    return op.call != nullptr;
  if (op.kind == StreamOp::Kind::kWait64)
    return is_word(op.word);
  switch (op.kind) {
    case StreamOp::Kind::kCall:
    case StreamOp::Kind::kWrite64:
    case StreamOp::Kind::kAdd64:
    case StreamOp::Kind::kWait64: return is_word(op.word);
    case StreamOp::Kind::kWriteNext64:
    case StreamOp::Kind::kWaitNext64: return is_word(op.word) && op.count != nullptr;
    case StreamOp::Kind::kPack:
    case StreamOp::Kind::kUnpack: return op.object != nullptr && packing_of(op).device == DeviceMemory::kHost;
    case StreamOp::Kind::kStartLane:
    case StreamOp::Kind::kWaitLane: return false;
  }
  return false;
}

Status not_packed() {
  return Status(Code::kUnsupported,
                "a host stream does not pack or unpack memory of a GPU: a queue on a stream of that GPU does");
}

// Why is_valid() says no.
Status complaint(const StreamOp& op) {
  if (op.kind == StreamOp::Kind::kPack || op.kind == StreamOp::Kind::kUnpack)
    return op.object == nullptr ? Status(Code::kInvalidArgument, "nothing to pack") : not_packed();
  if (op.kind == StreamOp::Kind::kStartLane || op.kind == StreamOp::Kind::kWaitLane)
    return Status(
        Code::kUnsupported,
        "the request's memory is a GPU's, and GPUs carry its messages themselves: start it on a stream of that "
        "GPU, or give it the hint lanyard_route, card, before its match");
  if (op.kind > StreamOp::Kind::kUnpack)
    return Status(Code::kUnsupported, "an unknown kind of stream operation");
  if (op.kind == StreamOp::Kind::kCall)
    return Status(Code::kInvalidArgument, "a stream call of a null function");
  if (is_word(op.word))
    return Status(Code::kInvalidArgument, "an operation that counts on, without a count");
  return Status(Code::kInvalidArgument,
                op.word == nullptr ? "a stream operation on a null word" : "a stream operation on a misaligned word");
}

thread_local int inside_kernels = 0;

// While a kernel runs.
class Inside {
 public:
  Inside(std::atomic<const void*>& running, const void* kernel) : running_(running) {
    ++inside_kernels;
    running_.store(kernel, std::memory_order_relaxed);
  }
  ~Inside() {
    running_.store(nullptr, std::memory_order_relaxed);
    --inside_kernels;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::atomic<const void*>& running_;
};

}  // namespace

HostStream::HostStream(const Options& options)
    : quiet_before_deep_sleep_(options.quiet_before_deep_sleep), ring_(options.max_items) {}

HostStream::~HostStream() {
  if (thread_.joinable()) {
    stopping_.store(true);
    // Whatever it rests in: either it sees stopping_ before it sleeps, or it finds rest_ changed,
    // or it is woken.
    rest_.store(kAwake);
    futex_wake(rest_, 1);
    thread_.join();
  }
  while (run(Runner::kCaller).outcome == Outcome::kMore) {  // kBusy where it was halted
  }
}

// ---- Enqueuing ----------------------------------------------------------------------------------

Status HostStream::enqueue(std::span<const StreamOp> ops) {
  if (ops.empty())
    return {};
  {
    const std::lock_guard lock(writer_);
    if (!is_ready(ops.size())) [[unlikely]]
      LANYARD_RETURN_IF_ERROR(make_ready_for(ops));
    for (const StreamOp& op : ops) {
      if (!is_valid(op)) [[unlikely]] {
        ring_.take_back();
        return complaint(op);
      }
      WorkItem& item = ring_.next_slot();
      item.op = op;
      item.kernel = nullptr;
    }
    ring_.publish();
  }
  wake();
  return {};
}

// What is no operation changes nothing and is told first.
Status HostStream::make_ready_for(std::span<const StreamOp> ops) {
  const auto bad = std::find_if_not(ops.begin(), ops.end(), is_valid);
  return bad == ops.end() ? make_ready(ops.size()) : complaint(*bad);
}

Status HostStream::can_pack(const Packing& packing) const {
  return packing.device == DeviceMemory::kHost ? Status() : not_packed();
}

Status HostStream::launch(void (*kernel)(void* argument), void* argument) {
  if (kernel == nullptr)
    return Status(Code::kInvalidArgument, "a null kernel");
  {
    const std::lock_guard lock(writer_);
    if (!is_ready(1)) [[unlikely]]
      LANYARD_RETURN_IF_ERROR(make_ready(1));
    WorkItem& item = ring_.next_slot();
    item.kernel = kernel;
    item.op.object = argument;
    ring_.publish();
  }
  wake();
  return {};
}

Status HostStream::make_ready(size_t items) {
  if (!thread_started_)
    LANYARD_RETURN_IF_ERROR(start_thread());
  thread_started_ = true;
  return ring_.reserve(items);
}

// ---- Executing ----------------------------------------------------------------------------------

bool HostStream::poll() {
  // A plain increment: if two threads poll at once and one increment is lost, it still changes.
  polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const uint64_t target = ring_.enqueued();
  bool helped = true;
  for (int helps = 0; ring_.executed() < target;) {
    const Outcome outcome = run(Runner::kCaller).outcome;
    if (outcome == Outcome::kBusy)
      break;
    if (outcome != Outcome::kBlocked)
      continue;
    if (!helped || helps == kHelpsPerPoll)  // the word was looked at since
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
      return Status(Code::kInvalidState, "the stream was halted");
    // As long as data is on its way, too: a message may take longer than the spin, and to sleep in it costs more.
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

void HostStream::halt() { (void)try_halt(std::chrono::nanoseconds::max()); }

bool HostStream::try_halt(std::chrono::nanoseconds limit) {
  const Clock::time_point begin = Clock::now();
  while (!executor_.try_lock()) {
    if (Clock::now() - begin > limit)
      return false;
    std::this_thread::yield();
  }
  halted_.store(true);
  return true;
}

HostStream::Portion HostStream::run(Runner runner) noexcept {
  Portion portion{Outcome::kBusy, false};
  if (!executor_.try_lock())
    return portion;
  portion.outcome = Outcome::kMore;
  for (uint32_t left = kPortionItems; left > 0; --left) {
    const WorkItem* item = ring_.front();
    if (item == nullptr) {
      portion.outcome = Outcome::kEmpty;
      break;
    }
    // H3. After front(): whoever sees an item also sees who attended before it was enqueued.
    if (runner == Runner::kOwnThread && attendants_.load(std::memory_order_relaxed) != 0) {
      portion.outcome = Outcome::kBusy;
      break;
    }
    if (!execute(*item)) {
      portion.outcome = Outcome::kBlocked;
      break;
    }
    ring_.pop();
    portion.ran = true;
  }
  executor_.unlock();
  return portion;
}

bool HostStream::execute(const WorkItem& item) {
  const StreamOp& op = item.op;
  if (item.kernel != nullptr) {
    const Inside inside(running_, reinterpret_cast<const void*>(item.kernel));
    item.kernel(op.object);
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
  blocked_seen_.store(seen, std::memory_order_relaxed);
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
  if (const std::optional<Blockage> blockage = blocked_on())
    return {.waits_for = blockage->wait.word, .kernel = nullptr, .item = blockage->executed};
  return {};
}

std::optional<HostStream::Blockage> HostStream::blocked_on() {
  // While nobody enqueues, nobody overwrites the slot. The word is left alone: it need not outlive
  // the wait, which may be running out at this moment.
  const std::lock_guard lock(writer_);
  const uint64_t executed = ring_.executed();
  if (blocked_at_.load(std::memory_order_acquire) != executed + 1)
    return std::nullopt;
  return Blockage{ring_.peek(executed).op, blocked_seen_.load(std::memory_order_relaxed), executed};
}

}  // namespace lanyard::gpu
