// What a halo wants of a stream, and memory that the stream's kernels can use. No MPI: vendors'
// compilers read this file too.
//
// halo.h has HostStream for streams of Lanyard's on a host, gpu.h has GpuStream for streams of CUDA
// and HIP.
#ifndef LANYARD_BENCH_HALO_STREAM_H_
#define LANYARD_BENCH_HALO_STREAM_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "boxes.h"

namespace lanyard::halo {

// Memory, owned.
using Memory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

// The memory of a GPU, and copies in the order of one stream of it.
class Device {
 public:
  virtual ~Device() = default;

  // Page-aligned memory of the GPU, and host memory that the GPU copies from and to at full speed.
  virtual Memory allocate(size_t bytes) = 0;
  virtual Memory allocate_pinned(size_t bytes) = 0;

  // Between host memory of any kind and the GPU's. Block the host until the stream has done it.
  virtual void write(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual void read(std::byte* to, const std::byte* from, size_t bytes) = 0;
  // Enqueues a copy between pinned memory and the GPU's, by the copy engine.
  virtual void transfer(std::byte* to, const std::byte* from, size_t bytes) = 0;
};

// An in-order stream. One thread at a time. How errors of the stream are told is up to whoever
// implements it.
class Stream {
 public:
  Stream() = default;
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Blocks the host until everything enqueued so far has run.
  virtual void synchronize() = 0;
  // Enqueues copy_boxes. The argument must live until it has run.
  virtual void launch(const BoxCopies& copies) = 0;
  // Null for a host stream.
  virtual Device* gpu() { return nullptr; }
};

// Page-aligned bytes, owned: of the host, of a GPU, or of the host for a GPU's copy engine.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Of the GPU if there is one, which must outlive it; else of the host.
  AlignedBuffer(size_t bytes, Device* gpu) : bytes_(bytes), gpu_(gpu) {
    constexpr size_t kPage = 4096;
    const size_t all = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
    data_ = gpu != nullptr ? gpu->allocate(all)
                           : Memory(static_cast<std::byte*>(std::aligned_alloc(kPage, all)), std::free);
    if (data_ == nullptr)
      throw std::bad_alloc();
  }
  // Of the host, pinned for the GPU.
  static AlignedBuffer pinned(size_t bytes, Device& gpu) {
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
  Device* gpu_ = nullptr;  // whose memory it is
};

}  // namespace lanyard::halo

#endif  // LANYARD_BENCH_HALO_STREAM_H_
