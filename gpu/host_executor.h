// Who runs a stream on host threads, and who helps while it waits. A device's stream runs by itself.
#ifndef LANYARD_GPU_HOST_EXECUTOR_H_
#define LANYARD_GPU_HOST_EXECUTOR_H_

#include <chrono>
#include <cstdint>

namespace lanyard::gpu {

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

// The host's side of running a stream.
class HostExecutor {
 public:
  virtual ~HostExecutor() = default;

  // Helps the stream along from the calling thread where the stream runs on host threads; returns whether it is empty
  // (everything enqueued so far has run). Never blocks.
  virtual bool poll() = 0;
  // Between attend() and leave() the calling thread calls poll() in a loop, so that no other need run the stream.
  virtual void attend() {}
  virtual void leave() {}
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_HOST_EXECUTOR_H_
