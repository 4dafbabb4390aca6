// The object behind Lanyard_Queue.
#ifndef LANYARD_API_QUEUE_H_
#define LANYARD_API_QUEUE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/context.h"
#include <lanyard/lanyard.h>
#include <lanyard/lanyard_device.h>
#include "gpu/host/host_stream.h"
#include "gpu/stream.h"
#include "transport/core/queue.h"

// The object behind Lanyard_Host_stream.
struct lanyard_host_stream {
  static constexpr uint64_t kAlive =
      0x4c616e7961726401;  // tells a stream from other memory, not from one that was freed

  uint64_t alive = kAlive;
  std::atomic<bool> has_queue{false};
  lanyard::gpu::HostStream stream;

  static bool valid(Lanyard_Host_stream stream) { return stream != nullptr && stream->alive == kAlive; }
};

struct lanyard_queue {
  lanyard_queue() = default;
  lanyard_queue(const lanyard_queue&) = delete;
  lanyard_queue& operator=(const lanyard_queue&) = delete;
  // One of these is the user's stream.
  Lanyard_Host_stream host_stream = LANYARD_HOST_STREAM_NULL;
  void* device_handle = nullptr;  // a cudaStream_t or hipStream_t; null is the default stream
  std::unique_ptr<lanyard::gpu::Stream> device_stream;
  // What kernels have been given.
  struct Set {
    Lanyard_Device_requests* memory;
    std::vector<lanyard::core::Request*> requests;
  };
  std::vector<Set> sets;
  // Which item of the stream is a kernel at its head, and since when it has been seen there: a stream keeps no time
  // itself, which would cost every kernel a look at the clock.
  struct Kernel {
    uint64_t item;
    std::chrono::steady_clock::time_point since;
  };
  std::optional<Kernel> kernel;
  // Before the stream that it is on.
  std::unique_ptr<lanyard::core::Queue> core;

  ~lanyard_queue() {
    for (const Set& set : sets)
      stream().give_memory(reinterpret_cast<std::byte*>(set.memory));
  }
  lanyard::gpu::Stream& stream() {
    return device_stream != nullptr ? *device_stream : static_cast<lanyard::gpu::Stream&>(host_stream->stream);
  }
  // Parts with a host stream.
  void abandon() {
    if (host_stream == LANYARD_HOST_STREAM_NULL)
      return;
    host_stream->stream.set_helper(nullptr);
    host_stream->has_queue.store(false);
  }
};

namespace lanyard::api {

// Looks at the head of every queue's stream (lanyard_queue::kernel). Called every so often.
void watch_kernels(Context& context) LANYARD_REQUIRES(context_locked);

// The queue of that name, or null. In line: every call asks.
inline lanyard_queue* find_queue(Context& context, Lanyard_Queue queue) LANYARD_REQUIRES(context_locked) {
  for (const auto& each : context.queues())
    if (each.get() == queue)
      return queue;
  return nullptr;
}
// Reports that there is none; returns the code.
int raise_no_queue(const char* call);

// Whether a call on an array of requests can be made, with the core's requests in the context's scratch then.
struct Refusal {
  int error_class = MPI_SUCCESS;
  std::string text;
  MPI_Comm communicator = MPI_COMM_WORLD;  // of the request in error, or of the first
};
std::optional<Refusal> collect_requests(Context& context, int count, MPI_Request requests[])
    LANYARD_REQUIRES(context_locked);

// Waits until the queue is empty and settled, helping. What kept it from that, or nothing; `caller` is the MPI
// function.
std::optional<Refusal> wait_until_empty(Context& context, lanyard_queue& queue, const char* caller);

}  // namespace lanyard::api

#endif  // LANYARD_API_QUEUE_H_
