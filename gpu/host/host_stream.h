// HostStream: a stream whose operations and kernels run on host threads. The default without a GPU.
//
// It behaves like a CUDA or HIP stream: in order, with the rules S1 to S3 of gpu/stream.h. Two
// kinds of threads run it:
//  - callers of poll() or synchronize(). With one rank a core, all work then runs on the thread
//    that waits for it, without a thread switch;
//  - a thread of its own, started by the first enqueue, for streams that nobody polls. It leaves
//    the work to callers that poll or have called attend(), and sleeps when there is nothing to do.
// At most one thread at a time is the executor. It runs a bounded portion of the items, and gives
// up the role when it reaches a wait that is not met.
//
// Invariants (tests/gpu/host_stream_test.cc cites the numbers):
//  H1  Once warm, enqueue() and launch() allocate nothing and make no system call. One exception:
//      if the stream's own thread is in deep sleep (asleep()) and no thread is between attend() and
//      leave(), one system call wakes it.
//  H2  No work is stranded: if the stream is not empty and no thread is between attend() and
//      leave(), the stream's own thread is not in deep sleep.
//  H3  Between a thread's attend() and its leave(), the stream's own thread runs no item that was
//      enqueued after the attend(). Such items run on threads that call poll() or synchronize().
//  H4  An idle stream uses no processor time: its thread enters deep sleep when the stream is empty
//      and nothing was enqueued for Options::quiet_before_deep_sleep.
#ifndef LANYARD_GPU_HOST_HOST_STREAM_H_
#define LANYARD_GPU_HOST_HOST_STREAM_H_

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "gpu/host/work_ring.h"
#include "gpu/stream.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// Holds the Helper that a stream's threads use, and can replace it at any time. Any number of
// threads may use it at the same time. Without a helper there is nothing to do, and sleep_since()
// naps for kNap.
class HelperSlot {
 public:
  static constexpr std::chrono::microseconds kNap{100};

  // Installs `helper` (null: none). On return no thread uses the previous one, so it may be
  // destroyed. Blocks while a help() or sleep_since() is running. The caller must not run two set()
  // at a time.
  void set(Helper* helper) {
    // Empty it first: threads that enter from now on find no helper, so the count reaches 0.
    helper_.store(nullptr);
    while (users_.load() != 0)
      sched_yield();
    helper_.store(helper);
  }

  bool help() {
    const Use use(*this);
    return use.helper != nullptr && use.helper->help();
  }

  uint64_t activity() {
    const Use use(*this);
    return use.helper == nullptr ? 0 : use.helper->activity();
  }

  // Calls help() after the sleep: only one of several sleepers is woken, so it must do the work.
  void sleep_since(uint64_t seen, std::chrono::nanoseconds timeout) {
    if (const Use use(*this); use.helper != nullptr) {
      use.helper->sleep_since(seen, timeout);
      use.helper->help();
      return;
    }
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(timeout, kNap));
  }

 private:
  // Sequentially consistent on both sides: a user registers itself, then reads the helper; set()
  // removes the helper, then reads the users. At least one of them sees the other.
  struct Use {
    explicit Use(HelperSlot& slot) : slot(slot) {
      slot.users_.fetch_add(1);
      helper = slot.helper_.load();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { slot.users_.fetch_sub(1); }
    HelperSlot& slot;
    Helper* helper = nullptr;
  };

  std::atomic<Helper*> helper_{nullptr};
  std::atomic<uint32_t> users_{0};
};

// Cannot be moved or copied. Any thread may call any member function at any time, from kernels and
// calls of this stream too, unless it says otherwise.
class HostStream final : public Stream {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    size_t max_items = size_t{1} << 22;  // not yet run, at a time; > 0
    // The stream's own thread looks for work until nothing was enqueued for this long.
    std::chrono::nanoseconds quiet_before_deep_sleep = std::chrono::milliseconds(100);
  };

  // An empty stream, without a thread yet.
  HostStream() : HostStream(Options{}) {}
  explicit HostStream(const Options& options);
  // Requires: no other thread uses the stream, and it is empty. If it is not empty, the destructor
  // runs the items up to the first wait that is not met; the rest never run. Blocks for the item in
  // progress and at most 1 ms.
  ~HostStream() override;
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  // Sets the helper that all threads above call while a wait is not met, several at the same time.
  // Null: none. The stream borrows it until the next set_helper() or its own end; on return the
  // previous helper is no longer in use. Blocks while the previous helper is in help() or
  // sleep_since(), so never call it from there. One call at a time.
  void set_helper(Helper* helper) { helper_.set(helper); }

  const char* kind() const override { return "host"; }
  bool can_call() const override { return true; }
  Status can_pack(const Packing& packing) const override;

  // As Stream::enqueue(); the batch stays together. Never blocks; the first call starts the thread.
  // Once warm: H1. After an error the stream is unchanged. kInvalidArgument: a null or misaligned
  // word, a null call. kUnsupported: an unknown kind. kAgain: no room before some of max_items have
  // run. kExhausted: more than max_items at once, no memory, or no thread.
  Status enqueue(std::span<const StreamOp> ops) override;
  // Enqueues kernel(argument). The kernel must not throw and should not block: it delays the thread
  // that polls. Errors as for enqueue().
  Status launch(void (*kernel)(void* argument), void* argument);

  // Runs items on the calling thread: all that were enqueued before the call and can run. At a wait
  // that is not met, calls the helper a few times before it gives up. Returns whether the stream is
  // empty. Blocks no longer than the items and the helper do; returns at once if another thread is
  // the executor. No system call, no allocation, no clock.
  bool poll() override;

  // Blocks until everything enqueued before the call has run. Polls first, then sleeps in the
  // helper's sleep_since(). kTimedOut: the deadline passed; the call may be repeated. An item in
  // progress is not interrupted. kInvalidState: halted with items left. Never call it from a kernel
  // or call of this stream, which would wait for itself.
  Status synchronize(std::optional<Clock::time_point> deadline = std::nullopt);

  // Stops the stream for good, at the end of the process, when memory that the items name goes
  // away. Blocks for the item in progress. synchronize() then returns kInvalidState instead of
  // blocking for ever. Call it once; never from a kernel or call of this stream.
  bool halt(std::chrono::nanoseconds limit = std::chrono::nanoseconds::max()) override;

  // The calling thread promises to poll() until leave(). So the stream's own thread leaves the
  // work to it (H3), and no enqueue need wake that thread (H1). Calls nest; each attend() needs a
  // leave(). Neither blocks. leave() makes a system call if work is left and the thread is in
  // deep sleep.
  void attend() override { attendants_.fetch_add(1); }
  void leave() override;

  // Items ever enqueued, and items that have run. A thread that reads executed() >= n sees the
  // effects of item number n - 1.
  uint64_t enqueued() const { return ring_.enqueued(); }
  uint64_t executed() const override { return ring_.executed(); }

  Result<uint64_t*> take_count(uint64_t value) override { return new uint64_t(value); }
  void give_count(uint64_t* count) override { delete count; }
  Result<std::byte*> take_memory(std::span<const uint64_t> content) override;
  void give_memory(std::byte* memory) override { delete[] reinterpret_cast<uint64_t*>(memory); }

  Head head() override;
  bool is_empty() override { return ring_.empty(); }
  // Whether the calling thread is inside a kernel of some host stream.
  static bool inside_kernel();
  // Whether the stream's own thread is in deep sleep. Only an enqueue, leave() or the
  // destructor ends it.
  bool asleep() const { return rest_.load(std::memory_order_relaxed) == kDeep; }

 private:
  static constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::milliseconds(1);

  enum class Outcome {
    kEmpty,    // nothing left
    kBlocked,  // a wait that is not met is at the head
    kMore,     // the portion is used up
    kBusy,     // another thread is the executor, or callers run the stream
  };
  enum class Runner { kCaller, kOwnThread };
  enum Rest : uint32_t { kAwake, kNap, kDeep };

  // Enqueues `items` items, which `fill` writes.
  template <typename Fill>
  Status put(size_t items, Fill fill);
  Status start_thread();

  Outcome run(Runner runner) noexcept;  // runs a portion of the items, as the executor
  bool execute(const WorkItem& item);   // false: a wait that is not met
  // Ends deep sleep, unless a thread is between attend() and leave().
  void wake() {
    if (rest_.load() == kDeep && attendants_.load() == 0) [[unlikely]]
      end_deep_sleep();
  }
  void end_deep_sleep();
  // For the stream's own thread only.
  void serve();
  bool attended();
  void rest(std::chrono::nanoseconds nap);
  bool sleep_deep();

  const std::chrono::nanoseconds quiet_before_deep_sleep_;
  HelperSlot helper_;
  WorkRing ring_;

  std::mutex writer_;   // held while enqueuing
  std::thread thread_;  // guarded by writer_

  // Set: a thread is the executor, or the stream was halted.
  alignas(64) std::atomic_flag executor_;
  std::atomic<uint64_t> blocked_at_{0};        // for head(): 1 + the number of the last unmet wait
  std::atomic<const void*> running_{nullptr};  // the function of the running kernel

  alignas(64) std::atomic<uint32_t> rest_{kAwake};  // a Rest; the thread's futex
  std::atomic<uint32_t> attendants_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> halted_{false};
  alignas(64) std::atomic<uint64_t> polls_{0};  // changes with polls; may miss some
  uint64_t polls_seen_ = 0;
  uint64_t enqueued_seen_ = 0;
  Clock::time_point quiet_since_;  // nothing was enqueued since then
};

// Calls attend() at construction and leave() at destruction.
class Attendance {
 public:
  explicit Attendance(HostStream& stream) : stream_(stream) { stream_.attend(); }
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;
  ~Attendance() { stream_.leave(); }

 private:
  HostStream& stream_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_HOST_HOST_STREAM_H_
