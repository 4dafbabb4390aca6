// Stream: an in-order stream, of a GPU or of the host, with the benchmarks' kernels. No MPI.
#ifndef LANYARD_BENCH_STREAM_H_
#define LANYARD_BENCH_STREAM_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "bench/kernels.h"

namespace lanyard::bench {

// Work that was captured and can be enqueued again and again.
using Graph = std::shared_ptr<void>;

// Memory, owned.
using Memory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

// What a GPU's stream has beyond the host's: memory of its own, and graphs.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual std::string device_name() const = 0;
  // Its place on the host's bus.
  virtual std::string device_place() const = 0;

  // Page-aligned memory of the GPU, and host memory that the GPU copies from and to at full speed.
  virtual Memory allocate(size_t bytes) = 0;
  virtual Memory allocate_pinned(size_t bytes) = 0;

  // Between host memory of any kind and the GPU's. Block the host until the stream has done it.
  virtual void write(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual void read(std::byte* to, const std::byte* from, size_t bytes) = 0;
  // Enqueues a copy between pinned memory and the GPU's, by the copy engine.
  virtual void transfer(std::byte* to, const std::byte* from, size_t bytes) = 0;

  // What is enqueued between the two is captured, not run.
  virtual void begin_capture() = 0;
  virtual Graph end_capture() = 0;
  // Enqueues a graph that was captured from this stream.
  virtual void replay(const Graph& graph) = 0;
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
  virtual void launch(const TripsKernel& kernel) = 0;

  // Null for a host stream.
  virtual Gpu* gpu() { return nullptr; }
};

// A new stream on the GPU with the number local_rank modulo their number, which is current for the
// calling thread from then on. Null, and `why` says why: the build has no code for GPUs, or the
// machine has none.
std::unique_ptr<Stream> open_gpu_stream(int local_rank, std::string& why);

// Page-aligned bytes, owned, so that every mode copies from and to equally placed memory. Of the host, of a GPU, or of
// the host for a GPU's copy engine.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Of the GPU if there is one, which must outlive it; else of the host.
  AlignedBuffer(size_t bytes, Gpu* gpu) : bytes_(bytes), gpu_(gpu) {
    constexpr size_t kPage = 4096;
    const size_t all = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
    data_ = gpu != nullptr ? gpu->allocate(all)
                           : Memory(static_cast<std::byte*>(std::aligned_alloc(kPage, all)), std::free);
    if (data_ == nullptr)
      throw std::bad_alloc();
  }
  // Of the host, pinned for the GPU.
  static AlignedBuffer pinned(size_t bytes, Gpu& gpu) {
    AlignedBuffer buffer;
    buffer.bytes_ = bytes;
    buffer.data_ = gpu.allocate_pinned(std::max<size_t>(bytes, 1));
    return buffer;
  }

  std::byte* data() { return data_.get(); }

  // f fills a span of the host, which becomes the buffer's contents.
  template <class F>
  void write(F&& f) {
    if (gpu_ == nullptr)
      return f(std::span<std::byte>(data_.get(), bytes_));
    std::vector<std::byte> contents(bytes_);
    f(std::span<std::byte>(contents));
    gpu_->write(data_.get(), contents.data(), bytes_);
  }
  // What f says of a span of the host with the buffer's contents.
  template <class F>
  auto read(F&& f) const {
    if (gpu_ == nullptr)
      return f(std::span<const std::byte>(data_.get(), bytes_));
    std::vector<std::byte> contents(bytes_);
    gpu_->read(contents.data(), data_.get(), bytes_);
    return f(std::span<const std::byte>(contents));
  }

 private:
  Memory data_;
  size_t bytes_ = 0;
  Gpu* gpu_ = nullptr;  // whose memory it is
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAM_H_
