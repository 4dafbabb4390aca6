// Stream: an in-order stream, of a GPU or of the host, with the benchmarks' kernels. No MPI.
#ifndef LANYARD_BENCH_STREAM_H_
#define LANYARD_BENCH_STREAM_H_

#include <memory>
#include <string>

#include "bench/halo/stream.h"
#include "bench/kernels.h"

namespace lanyard::bench {

// Work that was captured and can be enqueued again and again.
using Graph = std::shared_ptr<void>;

using halo::AlignedBuffer;
using halo::Memory;

// What a GPU's stream has beyond the host's: memory of its own, and graphs.
class Gpu : public halo::Device {
 public:
  virtual std::string device_name() const = 0;
  // Its place on the host's bus.
  virtual std::string device_place() const = 0;

  // What is enqueued between the two is captured, not run.
  virtual void begin_capture() = 0;
  virtual Graph end_capture() = 0;
  // Enqueues a graph that was captured from this stream.
  virtual void replay(const Graph& graph) = 0;
};

// One thread at a time. Errors of the stream end the job.
class Stream : public halo::Stream {
 public:
  enum class Kind { kHost, kCuda, kHip };

  virtual Kind kind() const = 0;
  // As MPIX_Queue_init takes it.
  virtual void* address() = 0;

  // Enqueue a kernel. Its arguments must live until it has run. All memory is the GPU's where there
  // is one.
  using halo::Stream::launch;
  virtual void launch(const CopyKernel& kernel) = 0;
  virtual void launch(const JacobiKernel& kernel) = 0;
  virtual void launch(const LifeKernel& kernel) = 0;
  virtual void launch(const TripsKernel& kernel) = 0;

  // Null for a host stream.
  Gpu* gpu() override { return nullptr; }
};

// A new stream on the GPU with the number local_rank modulo their number, which is current for the
// calling thread from then on. Null, and `why` says why: the build has no code for GPUs, or the
// machine has none.
std::unique_ptr<Stream> open_gpu_stream(int local_rank, std::string& why);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAM_H_
