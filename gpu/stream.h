// The abstract stream: an ordered queue of work on a device (or a host thread) that the NIC protocol hooks into.
//
// It models CUDA and HIP streams with their stream memory operations (cuStreamWriteValue64, cuStreamWaitValue64 GEQ).
// Operations of one stream run one after another in the order in which they were enqueued.
//  S1  wait64 passes once *word >= value, read with acquire at system scope; everything written before the word's
//      update is visible to later operations of the stream.
//  S2  write64, add64 and call come after everything earlier in the stream, with release at system scope.
//  S3  enqueue() takes a batch as a whole or not at all, never blocks on the stream's progress, and once warm neither
//      allocates nor enters the kernel, unless the stream has slept for long and must be woken.
#ifndef LANYARD_GPU_STREAM_H_
#define LANYARD_GPU_STREAM_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/status.h"

namespace lanyard::gpu {

struct StreamOp {
  enum class Kind : uint8_t {
    kWrite64,  // *word = value
    kAdd64,    // atomic *word += value
    kCall,     // call(object, argument, value) on a host thread; must not block
    kWait64,   // block the stream until *word >= value
  };
  Kind kind = Kind::kWait64;
  uint64_t* word = nullptr;  // 8-aligned; outlives the operation's execution
  uint64_t value = 0;
  void (*call)(void* object, uint32_t argument, uint64_t value) = nullptr;
  void* object = nullptr;
  uint32_t argument = 0;
};

// What a stream that runs on a host thread does while a wait is not met: helps whoever will meet it.
class Helper {
 public:
  virtual ~Helper() = default;
  // One bounded portion of help; returns whether anything was done.
  virtual bool help() = 0;
  // Grows whenever anybody helped with success.
  virtual uint64_t activity() = 0;
  // Sleeps until something may have changed, at most `timeout`; returns at once where activity() is not `seen` any more:
  // who reads it before looking for what it wants, and sleeps since that reading, misses nothing.
  virtual void sleep_since(uint64_t seen, std::chrono::nanoseconds timeout) = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  virtual const char* kind() const = 0;  // "host", "cuda", "hip"
  // Whether kCall is supported (else only word operations).
  virtual bool can_call() const = 0;
  // kInvalidArgument for a null or misaligned word; kUnsupported for a kind it cannot do; kAgain when the stream's own
  // queue is full and enqueuing would block.
  virtual Status enqueue(std::span<const StreamOp> ops) = 0;
  // Helps the stream along from the calling thread where the stream runs on host threads; returns whether it is empty
  // (everything enqueued so far has run). Never blocks.
  virtual bool poll() = 0;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_STREAM_H_
