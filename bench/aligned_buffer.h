// Page-aligned bytes, owned: so that every mode copies from and to equally placed memory.
#ifndef LANYARD_BENCH_ALIGNED_BUFFER_H_
#define LANYARD_BENCH_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace lanyard::bench {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes) : bytes_(bytes) {
    constexpr size_t kPage = 4096;
    data_.reset(
        static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage)));
    if (data_ == nullptr) throw std::bad_alloc();
  }

  std::byte* data() { return data_.get(); }
  std::span<std::byte> span() { return {data_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_ = 0;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_ALIGNED_BUFFER_H_
