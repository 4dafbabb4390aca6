// HostStream: a stream whose operations and kernels are run by host threads. The default where
// there is no GPU.
//
// It models a CUDA or HIP stream, in order and with the rules S1 to S3 of gpu/stream.h. Two kinds
// of thread run it:
//  - whoever calls poll() or synchronize() (the caller helps): with one rank a core, everything
//    then happens inline on the thread that waits for it, without a switch of threads;
//  - a thread of its own, started by the first enqueue, for streams that nobody waits for. It
//    stands back while a caller polls or attends, and sleeps when there is nothing to do.
// At any time one thread at most is the executor, for a bounded portion of the items, and not
// while it waits.
//
// Invariants (tests/gpu/host_stream_test.cc cites the numbers):
//  H1  Once warm, enqueue() and launch() allocate nothing and make no system call, unless the
//      stream's own thread is in deep sleep (asleep()) and nobody attends: then one, to wake it.
//  H2  No work is left lying: when the stream is not empty and nobody attends, its thread is not
//      in deep sleep.
//  H3  While somebody attends, from before an item is enqueued until it has run, it runs on a
//      thread that calls poll() or synchronize(), never on the stream's own.
//  H4  A stream without work uses no processor time: its thread goes into deep sleep when it is
//      empty and nothing was enqueued for Options::quiet_before_deep_sleep.
#ifndef LANYARD_GPU_HOST_HOST_STREAM_H_
#define LANYARD_GPU_HOST_HOST_STREAM_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <mutex>
#include <thread>

#include "gpu/host/helper_slot.h"
#include "gpu/host/work_ring.h"
#include "gpu/stream.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// Pinned in memory. Every member function may be called from any thread at any time, from kernels
// and calls of this stream too except where it says otherwise.
class HostStream final : public Stream {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    size_t max_items = size_t{1} << 22;  // that have not run, at a time; > 0
    // The stream's own thread looks for work by itself until nothing was enqueued for so long.
    std::chrono::nanoseconds quiet_before_deep_sleep = std::chrono::milliseconds(100);
  };

  // Empty, without a thread yet.
  HostStream() : HostStream(Options{}) {}
  explicit HostStream(const Options& options);
  // Requires: no other thread is in the stream; the stream is empty. If it is not, what can run is
  // run here, and what comes after a wait that is not met is abandoned: it never runs. Blocks for
  // the item in progress and 1 ms at most.
  ~HostStream() override;
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  // Sets who is asked for help while a wait is not met, by all the threads above, several at the
  // same time. Null: nobody. The helper is borrowed until the next set_helper() or the end of the
  // stream; on return the previous one is not in use any more. Blocks while the previous one is in
  // help() or sleep_since(), so not to be called from there. One call at a time.
  void set_helper(Helper* helper) { helper_.set(helper); }

  const char* kind() const override { return "host"; }
  bool can_call() const override { return true; }
  Status can_pack(const Packing& packing) const override;

  // As Stream::enqueue; the batch stays together. Never blocks; the first one starts the thread.
  // Once warm: H1. The stream is unchanged after an error:
  // kInvalidArgument: a null or misaligned word, a null call; kUnsupported: an unknown kind;
  // kAgain: no room before some of max_items have run; kExhausted: more than max_items at once, no
  // memory, no thread.
  Status enqueue(std::span<const StreamOp> ops) override;
  // Enqueues kernel(argument), which must not throw and should not block: it holds up whoever
  // polls. As enqueue().
  Status launch(void (*kernel)(void* argument), void* argument);

  // Runs, on the calling thread, what was enqueued before the call and can run; where a wait is not
  // met, asks the helper for help a few times before it gives up. Returns whether the stream is
  // empty. Blocks no longer than the items and the helper do; returns false at once when another
  // thread is executing. No system call, no allocation, no clock.
  bool poll() override;

  // Blocks until everything that was enqueued before the call has run; polls at first, then sleeps
  // by the helper's sleep_since(). kTimedOut: the deadline passed (an item that has begun is not
  // interrupted); may be repeated. kInvalidState: halted with items left. Not from a kernel or call of this stream,
  // which would wait for itself.
  Status synchronize(std::optional<Clock::time_point> deadline = std::nullopt);

  // Nothing runs any more, for good: for the end of the process, when what the stream's items name
  // goes away. Blocks for the item in progress. synchronize() then reports kInvalidState where it
  // would wait for ever. Once; not from a kernel or call of this stream.
  void halt() override;
  bool try_halt(std::chrono::nanoseconds limit) override;

  // Says that the calling thread will poll() until it leaves, so that the stream's thread stands
  // back (H3) and no enqueue need wake it (H1). Nests and counts; each attend() needs its leave().
  // Neither blocks; leave() makes a system call where it leaves work behind and the thread is in
  // deep sleep.
  void attend() override { attendants_.fetch_add(1); }
  void leave() override;

  // Items ever enqueued; items that have run. What item number n - 1 did is visible to whoever
  // reads executed() >= n.
  uint64_t enqueued() const { return ring_.enqueued(); }
  uint64_t executed() const override { return ring_.executed(); }

  Result<uint64_t*> take_count(uint64_t value) override { return new uint64_t(value); }
  void give_count(uint64_t* count) override { delete count; }
  Result<std::byte*> take_memory(std::span<const uint64_t> content) override;
  void give_memory(std::byte* memory) override { delete[] reinterpret_cast<uint64_t*>(memory); }

  Head head() override;
  bool is_empty() override { return ring_.empty(); }
  // Whether the calling thread is inside a kernel or call of some host stream.
  static bool inside_kernel();
  // Whether the stream's own thread is in deep sleep, which only an enqueue, leave() or the
  // destructor ends.
  bool asleep() const { return rest_.load(std::memory_order_relaxed) == kDeep; }

 private:
  static constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::milliseconds(1);

  enum class Outcome {
    kEmpty,    // nothing left
    kBlocked,  // a wait that is not met is at the head
    kMore,     // the portion is used up
    kBusy,     // somebody else is executing, or about to
  };
  struct Portion {
    Outcome outcome;
    bool ran;  // at least one item
  };
  enum class Runner { kCaller, kOwnThread };
  enum Rest : uint32_t { kAwake, kNap, kDeep };

  // Puts so many items in, which `fill` writes.
  template <typename Fill>
  Status put(size_t items, Fill fill);
  Status start_thread();

  Portion run(Runner runner) noexcept;  // a portion of the items, as the executor
  bool execute(const WorkItem& item);   // false: a wait that is not met
  // Ends deep sleep, unless somebody attends.
  void wake() {
    if (rest_.load() == kDeep && attendants_.load() == 0) [[unlikely]]
      end_deep_sleep();
  }
  void end_deep_sleep();
  // The stream's own thread, and what only it uses.
  void serve();
  bool attended();
  void rest(std::chrono::nanoseconds nap);
  bool sleep_deep();

  const std::chrono::nanoseconds quiet_before_deep_sleep_;
  HelperSlot helper_;
  WorkRing ring_;

  std::mutex writer_;   // held by whoever enqueues
  std::thread thread_;  // guarded by writer_

  alignas(64) std::atomic_flag executor_;      // set: somebody has the role, or the stream was halted
  std::atomic<uint64_t> blocked_at_{0};        // for head(): 1 + the number of the last wait that was not met
  std::atomic<const void*> running_{nullptr};  // the function of the kernel or call at the head

  alignas(64) std::atomic<uint32_t> rest_{kAwake};  // a Rest; the futex of the thread
  std::atomic<uint32_t> attendants_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> halted_{false};
  alignas(64) std::atomic<uint64_t> polls_{0};  // changes when somebody polls; may miss some
  uint64_t polls_seen_ = 0;
  uint64_t enqueued_seen_ = 0;
  Clock::time_point quiet_since_;  // nothing was enqueued since
};

// Attends a stream for as long as it lives.
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
