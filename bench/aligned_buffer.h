// Page-aligned bytes, owned: so that every mode copies from and to equally placed memory. Of the
// host, of a GPU, or of the host for a GPU's copy engine.
#ifndef LANYARD_BENCH_ALIGNED_BUFFER_H_
#define LANYARD_BENCH_ALIGNED_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "bench/mpi_check.h"
#include "bench/stream.h"

namespace lanyard::bench {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Of the GPU if there is one, which must outlive it; else of the host.
  AlignedBuffer(size_t bytes, Gpu* gpu) : bytes_(bytes), gpu_(gpu) {
    const size_t pages = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage;
    if (gpu != nullptr)
      data_ = Data(gpu->allocate(pages * kPage), Free{gpu, false});
    else
      data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, pages * kPage)));
    if (data_ == nullptr)
      out_of_memory();
  }
  // Of the host, pinned for the GPU.
  static AlignedBuffer pinned(size_t bytes, Gpu& gpu) {
    AlignedBuffer buffer;
    buffer.bytes_ = bytes;
    buffer.data_ = Data(gpu.allocate_pinned(std::max<size_t>(bytes, 1)), Free{&gpu, true});
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
  static constexpr size_t kPage = 4096;
  struct Free {
    Free() : Free(nullptr, false) {}
    Free(Gpu* g, bool pinned) : gpu(g), is_pinned(pinned) {}
    void operator()(std::byte* memory) const {
      if (gpu == nullptr)
        std::free(memory);
      else if (is_pinned)
        gpu->free_pinned(memory);
      else
        gpu->free(memory);
    }
    Gpu* gpu;
    bool is_pinned;
  };
  using Data = std::unique_ptr<std::byte, Free>;

  Data data_;
  size_t bytes_ = 0;
  Gpu* gpu_ = nullptr;  // whose memory it is
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_ALIGNED_BUFFER_H_
