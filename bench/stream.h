// Stream: an in-order stream, of a GPU or of the host, with the benchmarks' kernels. No MPI.
#ifndef LANYARD_BENCH_STREAM_H_
#define LANYARD_BENCH_STREAM_H_

#include <cstddef>
#include <memory>
#include <string>

#include "bench/jacobi_kernels.h"
#include "bench/kernels.h"

namespace lanyard::bench {

// Work that was captured and can be enqueued again and again.
class Graph {
 public:
  Graph() = default;
  virtual ~Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
};

// What a GPU's stream has beyond the host's: memory of its own, and graphs.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual std::string device_name() const = 0;
  // Its place on the host's bus.
  virtual std::string device_place() const = 0;
  // Of CUDA or HIP: the latest that the driver knows, and the run-time library's. "13.0"
  virtual std::string driver_version() const = 0;
  virtual std::string runtime_version() const = 0;

  // Page-aligned memory of the GPU, and host memory that the GPU copies from and to at full speed.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void free(std::byte* memory) = 0;
  virtual std::byte* allocate_pinned(size_t bytes) = 0;
  virtual void free_pinned(std::byte* memory) = 0;

  // Between host memory of any kind and the GPU's. Block the host until the stream has done it.
  virtual void write(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual void read(std::byte* to, const std::byte* from, size_t bytes) = 0;
  // Enqueues a copy between pinned memory and the GPU's, by the copy engine.
  virtual void transfer(std::byte* to, const std::byte* from, size_t bytes) = 0;

  // Enqueue a kernel, as Stream::launch.
  virtual void launch_send(const SendKernel& kernel) = 0;
  virtual void launch_wait(const WaitKernel& kernel) = 0;

  // What is enqueued between the two is captured, not run.
  virtual void begin_capture() = 0;
  virtual std::unique_ptr<Graph> end_capture() = 0;
  // Enqueues a graph that was captured from this stream.
  virtual void replay(Graph& graph) = 0;
};

// One thread at a time. Errors of the stream end the job.
class Stream {
 public:
  enum class Kind { kHost, kCuda, kHip };

  Stream() = default;
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  virtual Kind kind() const = 0;
  // As MPIX_Queue_init takes it.
  virtual void* address() = 0;
  // Blocks the host until everything enqueued so far has run.
  virtual void synchronize() = 0;

  // Enqueue a kernel. Its arguments must live until it has run. All memory is the GPU's where there
  // is one.
  virtual void launch(const CopyKernel& kernel) = 0;
  virtual void launch(const HaloKernel& kernel) = 0;
  virtual void launch(const LifeKernel& kernel) = 0;
  virtual void launch(const JacobiKernel& kernel) = 0;
  virtual void launch(const JacobiLoop& kernel) = 0;
  virtual void launch(const TripsKernel& kernel) = 0;
  virtual void launch(const ComputeKernel& kernel) = 0;
  virtual void launch(const ContributionKernel& kernel) = 0;

  // Null for a host stream.
  virtual Gpu* gpu() { return nullptr; }
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAM_H_
