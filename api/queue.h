// The object behind Lanyard_Queue.
#ifndef LANYARD_API_QUEUE_H_
#define LANYARD_API_QUEUE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/context.h"
#include <lanyard/lanyard.h>
#include <lanyard/lanyard_device.h>
#include "gpu/host/host_stream.h"
#include "gpu/stream.h"
#include "transport/core/queue.h"

// The object behind Lanyard_Host_stream.
struct lanyard_host_stream {
  // Detects a bad handle, but not every freed one.
  static constexpr uint64_t kAlive = 0x4c616e7961726401;

  uint64_t alive = kAlive;
  std::atomic<bool> has_queue{false};
  lanyard::gpu::HostStream stream;

  static bool valid(Lanyard_Host_stream stream) { return stream != nullptr && stream->alive == kAlive; }
};

struct lanyard_queue {
  lanyard_queue() = default;
  lanyard_queue(const lanyard_queue&) = delete;
  lanyard_queue& operator=(const lanyard_queue&) = delete;
  // The user's stream: host_stream, or device_stream for device_handle.
  Lanyard_Host_stream host_stream = LANYARD_HOST_STREAM_NULL;
  void* device_handle = nullptr;  // a cudaStream_t or hipStream_t; null is the default stream
  std::unique_ptr<lanyard::gpu::Stream> device_stream;
  // A set of requests for kernels.
  struct Set {
    Lanyard_Device_requests* memory;
    std::vector<lanyard::core::Request*> requests;
  };
  std::vector<Set> sets;
  // The kernel at the head of the stream, and when watch_kernels() first saw it there. The stream
  // itself reads no clock, to keep kernels cheap.
  struct Kernel {
    uint64_t item;
    std::chrono::steady_clock::time_point since;
  };
  std::optional<Kernel> kernel;
  std::unique_ptr<lanyard::core::Queue> core;  // last: destroyed before its stream

  ~lanyard_queue() {
    for (const Set& set : sets)
      stream().give_memory(reinterpret_cast<std::byte*>(set.memory));
  }
  lanyard::gpu::Stream& stream() {
    return device_stream != nullptr ? *device_stream : static_cast<lanyard::gpu::Stream&>(host_stream->stream);
  }
  // Detaches a host stream.
  void abandon() {
    if (host_stream == LANYARD_HOST_STREAM_NULL)
      return;
    host_stream->stream.set_helper(nullptr);
    host_stream->has_queue.store(false);
  }
};

namespace lanyard::api {

// Updates lanyard_queue::kernel of every queue. Call it periodically.
void watch_kernels(Context& context) LANYARD_REQUIRES(context_locked);

// The queue with this handle, or null. Inline, as every call uses it.
inline lanyard_queue* find_queue(Context& context, Lanyard_Queue queue) LANYARD_REQUIRES(context_locked) {
  for (const auto& each : context.queues())
    if (each.get() == queue)
      return queue;
  return nullptr;
}
// Raises LANYARD_ERR_QUEUE and returns its code.
int raise_no_queue(const char* call);

// Puts the core requests of an array of requests into the context's scratch. Returns an
// error, or nothing.
std::optional<Refusal> collect_requests(Context& context, int count, MPI_Request requests[])
    LANYARD_REQUIRES(context_locked);

// Blocks until the stream is empty and all starts of the queue have completed; makes progress
// meanwhile. Returns an error, or nothing. `caller` is the MPI function that the program called.
std::optional<Refusal> wait_until_empty(Context& context, lanyard_queue& queue, const char* caller);

}  // namespace lanyard::api

#endif  // LANYARD_API_QUEUE_H_
