// Stream: an ordered queue of work on a device or on host threads, which the NIC protocol uses.
//
// It models CUDA and HIP streams with their stream memory operations
// (cuStreamWriteValue64, cuStreamWaitValue64 GEQ). Operations of one stream run one after
// another, in the order of enqueue().
//  S1  wait64 passes once *word >= value, read with acquire at system scope. Later operations of
//      the stream see everything written before the word's update.
//  S2  write64, write_next64, add64 and call run after everything earlier in the stream, with
//      release at system scope. Within a batch, adjacent adds may run in any order, merged into
//      one, and so may adjacent writes to different words. An add is atomic with adds by streams of
//      the same kind. A device without native host atomics does not add atomically with the host:
//      only one of them may add to a word at a time.
//  S3  An operation is captured if it is enqueued while capturing() is not 0. It runs at each
//      replay of its capture. kWait64 waits for a fixed value and cannot be captured.
//      kWaitNext64 counts by itself and can. kWrite64 writes the same value each time;
//      kWriteNext64 counts by itself.
//  S4  enqueue() takes a batch as a whole or not at all, and never blocks on the stream's
//      progress. Once warm it neither allocates nor enters the kernel, except to wake a stream
//      that has slept for long.
//  S5  pack and unpack copy between the memory that a layout names and packed memory, in stream
//      order. They touch no byte outside the layout. All memory is on the stream's device; for a
//      host stream, on the host.
//  S6  unpack of a packing with a combination combines its parts, to the same bits on every stream.
//  S7  kStartLane and kWaitLane start a lane and wait for it (gpu/lane.h), in stream order.
//      They count by themselves, so they can be captured. Only streams of the lane's device
//      support them.
#ifndef LANYARD_GPU_STREAM_H_
#define LANYARD_GPU_STREAM_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/status.h"

namespace lanyard::gpu {

struct Packing;  // gpu/packing.h

struct StreamOp {
  enum class Kind : uint8_t {
    kWrite64,      // *word = value
    kWriteNext64,  // *count += value, then *word = *count
    kAdd64,        // atomic *word += value
    kCall,         // call(object, argument, value) on a host thread; must not block
    kWait64,       // block the stream until *word >= value
    kWaitNext64,   // *count += value, then block until *word >= *count
    kPack,         // pack the first `value` bytes of a Packing
    kUnpack,       // unpack the first `value` bytes of a Packing
    kStartLane,    // start one side of a lane
    kWaitLane,     // block until the message of that side's last start is copied
  };
  Kind kind = Kind::kWait64;
  uint64_t* word = nullptr;  // 8-aligned; must outlive the operation
  uint64_t value = 0;
  void (*call)(void* object, uint32_t argument, uint64_t value) = nullptr;
  // kPack, kUnpack: the Packing. kStartLane, kWaitLane: the Lane. It must not change before the
  // operation has run, and must outlive it.
  void* object = nullptr;
  uint32_t argument = 0;
  uint64_t* count = nullptr;  // kWriteNext64, kWaitNext64: from take_count() of this stream
};

// Rejects operations that no stream accepts. kInvalidArgument, or kUnsupported for an unknown kind.
inline Status check_operation(const StreamOp& op) {
  using Kind = StreamOp::Kind;
  const auto check_word = [](const uint64_t* word) {
    if (word == nullptr)
      return Status(Code::kInvalidArgument, "a stream operation has a null word");
    if (reinterpret_cast<uintptr_t>(word) % sizeof(uint64_t) != 0)
      return Status(Code::kInvalidArgument, "a stream operation has a word that is not 8-aligned");
    return Status();
  };
  switch (op.kind) {
    case Kind::kWriteNext64:
    case Kind::kWaitNext64: LANYARD_RETURN_IF_ERROR(check_word(op.count)); [[fallthrough]];
    case Kind::kWrite64:
    case Kind::kAdd64:
    case Kind::kWait64: return check_word(op.word);
    case Kind::kCall:
      return op.call == nullptr ? Status(Code::kInvalidArgument, "a stream call has a null function") : Status();
    case Kind::kPack:
    case Kind::kUnpack:
      return op.object == nullptr ? Status(Code::kInvalidArgument, "a pack or unpack operation has no packing")
                                  : Status();
    case Kind::kStartLane:
    case Kind::kWaitLane:
      return op.object == nullptr ? Status(Code::kInvalidArgument, "a lane operation has no lane") : Status();
  }
  return Status(Code::kUnsupported, "an unknown kind of stream operation");
}

// Makes progress for a stream on host threads while a wait is not met.
class Helper {
 public:
  virtual ~Helper() = default;
  // Does a bounded amount of work; returns whether it did any.
  virtual bool help() = 0;
  // Grows with each successful help() of any thread.
  virtual uint64_t activity() = 0;
  // Sleeps until something may have changed, at most `timeout`. Returns at once if activity()
  // is not `seen` any more. To miss nothing, read activity() before the last look for work,
  // and pass that value.
  virtual void sleep_since(uint64_t seen, std::chrono::nanoseconds timeout) = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  virtual const char* kind() const = 0;  // "host", "cuda", "hip"
  // Whether kCall is supported.
  virtual bool can_call() const = 0;
  // Whether the stream supports kPack and kUnpack of the packing. kUnsupported says why not.
  virtual Status can_pack(const Packing&) const {
    return {Code::kUnsupported, "the stream does not pack datatypes with gaps"};
  }
  // kInvalidArgument: a null or misaligned word. kUnsupported: a kind that the stream cannot run or
  // capture. kAgain: the stream's own queue is full. kFailed: the device is lost.
  virtual Status enqueue(std::span<const StreamOp> ops) = 0;
  // A stream on host threads runs operations on the calling thread. Returns whether the stream is
  // empty: all that was enqueued so far has run. Never blocks.
  virtual bool poll() = 0;
  // Why the stream makes no progress (a lost device, a failed kernel), or ok().
  virtual Status health() const { return {}; }
  // Between attend() and leave() the calling thread calls poll() in a loop, so no other thread
  // need run the stream.
  virtual void attend() {}
  virtual void leave() {}
  // Grows while the stream makes progress, as far as the stream can tell.
  virtual uint64_t executed() const { return 0; }
  // The operation at the stream's head, as far as the stream can tell; for reports.
  struct Head {
    const uint64_t* waits_for = nullptr;  // the word of a wait that was not met when last checked
    const void* kernel = nullptr;         // the function of the running kernel
    uint64_t item = 0;                    // a number that differs from one item to the next
  };
  virtual Head head() { return {}; }
  // Whether everything enqueued so far has run. Unlike poll(), it runs nothing.
  virtual bool is_empty() { return poll(); }
  // Stops the stream, for a process that gives up on its peers. On return no enqueued operation
  // touches its word any more: waits that are not met pass, or never run. False: the running
  // operation did not end within `limit`.
  virtual bool halt(std::chrono::nanoseconds /*limit*/ = std::chrono::nanoseconds::max()) { return true; }

  // The number of the capture (into a graph) in progress; 0: none. Numbers are not reused.
  virtual uint64_t capturing() const { return 0; }
  // A counter for kWriteNext64 and kWaitNext64 that starts at the given value, where the stream
  // reaches it fastest. Does not wait for the stream. Return it with give_count().
  // kUnsupported, kExhausted.
  virtual Result<uint64_t*> take_count(uint64_t) { return Status(Code::kUnsupported, "the stream keeps no counts"); }
  virtual void give_count(uint64_t*) {}

  // For kernels that use words themselves: the address at which they reach a host
  // word. kUnsupported.
  virtual Result<uint64_t*> reach(uint64_t* word) { return word; }
  // Memory for such kernels, with the given content. May wait for the device, as give_memory()
  // may. kUnsupported, kExhausted.
  virtual Result<std::byte*> take_memory(std::span<const uint64_t>) {
    return Status(Code::kUnsupported, "the stream has no memory for kernels");
  }
  virtual void give_memory(std::byte*) {}
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_STREAM_H_
