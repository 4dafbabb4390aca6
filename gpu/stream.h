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
//  S3  A captured operation (capturing() while it is enqueued) runs whenever what captured it is replayed. kWait64 and
//  kWaitCount64
//      wait for a value that is known now and cannot be captured; kWaitNext64 counts on by itself, so that it can. A
//      kWrite64 writes the same value each time; kWriteNext64 counts on.
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
#include <cstdint>
#include <span>

#include "gpu/device_words.h"
#include "gpu/host_executor.h"
#include "gpu/stream_op.h"
#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

class Stream : public HostExecutor, public DeviceWords {
 public:
  virtual const char* kind() const = 0;  // "host", "cuda", "hip"
  // The device that runs it, as DeviceMemory numbers them; DeviceMemory::kHost: none does.
  virtual int device() const { return DeviceMemory::kHost; }
  // Whether kCall is supported (else only word operations).
  virtual bool can_call() const = 0;
  // Whether kPack and kUnpack of it are supported; kUnsupported says why not.
  virtual Status can_pack(const Packing&) const {
    return {Code::kUnsupported, "the stream does not pack datatypes with gaps"};
  }
  // Whether kStartLane and kWaitLane of it are supported, and starts by its kernels; kUnsupported says why not.
  virtual Status can_start(const Lane&) const { return {Code::kUnsupported, "the stream starts no lanes"}; }
  // kInvalidArgument for a null or misaligned word; kUnsupported for a kind it cannot do, or cannot capture; kAgain
  // when the stream's own queue is full and enqueuing would block; kFailed: the device is lost.
  virtual Status enqueue(std::span<const StreamOp> ops) = 0;
  // Why the stream will not go on (a lost device, a failed kernel), for as long as it is so; ok() else.
  virtual Status health() const { return {}; }
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
  // Whether nothing that was captured then can run any more: no graph came of it, or that and all that came of it has
  // been destroyed and is through. False where the stream cannot tell.
  virtual bool is_gone(uint64_t /*capture*/) const { return false; }
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_STREAM_H_
