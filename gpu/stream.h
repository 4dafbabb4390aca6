// The abstract stream: an ordered queue of work on a device (or a host thread) that the NIC protocol hooks into.
//
// It models CUDA and HIP streams with their stream memory operations (cuStreamWriteValue64, cuStreamWaitValue64 GEQ).
// Operations of one stream run one after another in the order in which they were enqueued.
//  S1  wait64 passes once *word >= value, read with acquire at system scope; everything written before the word's
//      update is visible to later operations of the stream.
//  S2  write64, write_next64, add64 and call come after everything earlier in the stream, with release at system scope.
//      But adds that follow one another in a batch may be made in any order, as one, and so may writes to different
//      words. An add is atomic to those of other streams of the kind; to a device without native host atomics it is not
//      to the host's: let one side add to a word at a time.
//  S3  A captured operation (capturing() while it is enqueued) runs at each replay of its capture. kWait64 waits for a
//      fixed value and cannot be captured; kWaitNext64 counts on by itself and can. A kWrite64 writes the same value
//      each time; kWriteNext64 counts on.
//  S4  enqueue() takes a batch as a whole or not at all, never blocks on the stream's progress, and once warm neither
//      allocates nor enters the kernel, unless the stream has slept for long and must be woken.
//  S5  pack and unpack copy between the memory that a layout names and packed memory, in the order of the stream, and
//      touch no byte that the layout does not name. A stream does so in memory of its own device, or of the host, only.
//  S6  unpack of a packing with a combination combines its parts, to the same bits on every stream.
//  S7  kStartLane and kWaitLane are the starts and waits of gpu/lane.h, in the order of the stream; they count on by
//      themselves, so that they can be captured. Only a stream of the lane's device has them.
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
    kPack,         // the first `value` bytes of the packing, from the memory that its layout names to the packed
    kUnpack,       // the other way
    kStartLane,    // the next start of a side of a lane
    kWaitLane,     // block until the last start of a side of a lane has been copied
  };
  Kind kind = Kind::kWait64;
  uint64_t* word = nullptr;  // 8-aligned; outlives the operation's execution
  uint64_t value = 0;
  void (*call)(void* object, uint32_t argument, uint64_t value) = nullptr;
  // kPack, kUnpack: the Packing, kStartLane, kWaitLane: the Lane, which outlives the operation's execution and is not
  // changed.
  void* object = nullptr;
  uint32_t argument = 0;
  uint64_t* count = nullptr;  // kWriteNext64, kWaitNext64: from take_count() of this stream
};

// What is wrong with an operation whatever the stream: kInvalidArgument, or kUnsupported for an unknown kind.
inline Status check_operation(const StreamOp& op) {
  using Kind = StreamOp::Kind;
  const auto check_word = [](const uint64_t* word) {
    if (word == nullptr)
      return Status(Code::kInvalidArgument, "a stream operation on a null word");
    if (reinterpret_cast<uintptr_t>(word) % sizeof(uint64_t) != 0)
      return Status(Code::kInvalidArgument, "a stream operation on a word that is not 8-aligned");
    return Status();
  };
  switch (op.kind) {
    case Kind::kWriteNext64:
    case Kind::kWaitNext64: LANYARD_RETURN_IF_ERROR(check_word(op.count)); [[fallthrough]];
    case Kind::kWrite64:
    case Kind::kAdd64:
    case Kind::kWait64: return check_word(op.word);
    case Kind::kCall:
      return op.call == nullptr ? Status(Code::kInvalidArgument, "a stream call of a null function") : Status();
    case Kind::kPack:
    case Kind::kUnpack: return op.object == nullptr ? Status(Code::kInvalidArgument, "nothing to pack") : Status();
    case Kind::kStartLane:
    case Kind::kWaitLane: return op.object == nullptr ? Status(Code::kInvalidArgument, "no lane") : Status();
  }
  return Status(Code::kUnsupported, "an unknown kind of stream operation");
}

// What a stream that runs on a host thread does while a wait is not met: helps whoever will meet it.
class Helper {
 public:
  virtual ~Helper() = default;
  // One bounded portion of help; returns whether anything was done.
  virtual bool help() = 0;
  // Grows whenever anybody helped with success.
  virtual uint64_t activity() = 0;
  // Sleeps until something may have changed, at most `timeout`; returns at once where activity() is not `seen` any
  // more: who reads it before looking for what it wants, and sleeps since that reading, misses nothing.
  virtual void sleep_since(uint64_t seen, std::chrono::nanoseconds timeout) = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  virtual const char* kind() const = 0;  // "host", "cuda", "hip"
  // Whether kCall is supported (else only word operations).
  virtual bool can_call() const = 0;
  // Whether kPack and kUnpack of it are supported; kUnsupported says why not.
  virtual Status can_pack(const Packing&) const {
    return {Code::kUnsupported, "the stream does not pack datatypes with gaps"};
  }
  // kInvalidArgument for a null or misaligned word; kUnsupported for a kind it cannot do, or cannot capture; kAgain
  // when the stream's own queue is full and enqueuing would block; kFailed: the device is lost.
  virtual Status enqueue(std::span<const StreamOp> ops) = 0;
  // Helps the stream along from the calling thread where the stream runs on host threads; returns whether it is empty
  // (everything enqueued so far has run). Never blocks.
  virtual bool poll() = 0;
  // Why the stream will not go on (a lost device, a failed kernel), for as long as it is so; ok() else.
  virtual Status health() const { return {}; }
  // Between attend() and leave() the calling thread calls poll() in a loop, so that no other need run the stream.
  virtual void attend() {}
  virtual void leave() {}
  // Grows while the stream goes on, as far as the stream can tell.
  virtual uint64_t executed() const { return 0; }
  // What stands at the stream's head, as far as the stream can tell; for reports.
  struct Head {
    const uint64_t* waits_for = nullptr;  // the word of a wait that was not met when it was last looked at
    const void* kernel = nullptr;         // the kernel that is running: its function
    uint64_t item = 0;                    // which item of the stream it is: the same item, the same number
  };
  virtual Head head() { return {}; }
  // Whether everything enqueued so far has run. Unlike poll() it runs nothing.
  virtual bool is_empty() { return poll(); }
  // No operation that was enqueued touches its word any more; waits that are not met are let pass, or never run. For a
  // process that gives up on its peers.
  virtual void halt() {}
  // The same, but gives up, and returns false, where what is running does not end within `limit`.
  virtual bool try_halt(std::chrono::nanoseconds) {
    halt();
    return true;
  }

  // The capture (into a graph) under way on the stream, never 0 and never used again; 0: none.
  virtual uint64_t capturing() const { return 0; }
  // A number that operations count on, where the stream reaches it fastest. Does not wait for the stream. kUnsupported,
  // kExhausted.
  virtual Result<uint64_t*> take_count(uint64_t) { return Status(Code::kUnsupported, "the stream keeps no counts"); }
  virtual void give_count(uint64_t*) {}

  // For kernels of the stream that use words themselves. Where they reach a word of the host's; kUnsupported.
  virtual Result<uint64_t*> reach(uint64_t* word) { return word; }
  // Memory of theirs with that content; may wait for the device, as giving it back may. kUnsupported, kExhausted.
  virtual Result<std::byte*> take_memory(std::span<const uint64_t>) {
    return Status(Code::kUnsupported, "the stream has no memory for kernels");
  }
  virtual void give_memory(std::byte*) {}
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_STREAM_H_
