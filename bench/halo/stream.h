// What a halo wants of a stream: copies of boxes of cells between arrays and messages, a list of
// them as one kernel; and memory that the kernel can use. No MPI: vendors' compilers read this file
// too.
//
// halo.h has HostStream for streams of Lanyard's on a host, gpu.h has GpuStream for streams of CUDA
// and HIP.
#ifndef LANYARD_BENCH_HALO_STREAM_H_
#define LANYARD_BENCH_HALO_STREAM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define LANYARD_HALO_BOTH __host__ __device__
#else
#define LANYARD_HALO_BOTH
#endif

namespace lanyard::halo {

// The types that a cell may have.
enum class CellType : uint8_t { kInt8, kUint8, kInt32, kUint32, kInt64, kUint64, kFloat, kDouble };

// The CellType of T. A type of another name, as long long, counts as the integer of its size.
template <class T>
constexpr CellType cell_type() {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, long double> && sizeof(T) != 2,
                "cells are float, double, or integers of 1, 4 or 8 bytes");
  if (std::is_floating_point_v<T>)
    return sizeof(T) == 4 ? CellType::kFloat : CellType::kDouble;
  if (sizeof(T) == 1)
    return std::is_signed_v<T> ? CellType::kInt8 : CellType::kUint8;
  if (sizeof(T) == 4)
    return std::is_signed_v<T> ? CellType::kInt32 : CellType::kUint32;
  return std::is_signed_v<T> ? CellType::kInt64 : CellType::kUint64;
}

// Calls body(T()) with the type of a cell.
template <class Body>
LANYARD_HALO_BOTH decltype(auto) with_type(CellType type, const Body& body) {
  switch (type) {
    case CellType::kInt8: return body(int8_t());
    case CellType::kUint8: return body(uint8_t());
    case CellType::kInt32: return body(int32_t());
    case CellType::kUint32: return body(uint32_t());
    case CellType::kInt64: return body(int64_t());
    case CellType::kUint64: return body(uint64_t());
    case CellType::kFloat: return body(float());
    default: return body(double());
  }
}
constexpr size_t cell_bytes(CellType type) {
  constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 4, 8};
  return kBytes[static_cast<size_t>(type)];
}

// What becomes of a cell to which a value comes.
enum class Combine : uint8_t { kReplace, kSum, kMin, kMax };

// Where the cells of a box lie: the first one, and the distance, in cells, from plane to plane,
// from row to row and from cell to cell.
struct Place {
  std::byte* first = nullptr;
  long step[3] = {};

  template <class T>
  LANYARD_HALO_BOTH T* at(long plane, long row, long column) const {
    return reinterpret_cast<T*>(first) + plane * step[0] + row * step[1] + column * step[2];
  }
};

// A box of an array, and the `parts` places in messages that its values go to or come from, in this
// order.
struct BoxCopy {
  Place array;
  long counts[3] = {1, 1, 1};  // planes, rows, columns
  const Place* messages = nullptr;
  int parts = 0;
  CellType type = CellType::kDouble;
  long end = 0;  // number of cells of the list up to this box's last one

  LANYARD_HALO_BOTH long cells() const { return counts[0] * counts[1] * counts[2]; }
};

// The argument of the kernel. Arrays, messages and the list are in memory that the kernel can read.
// No two boxes of a list that unpacks overlap, so they may be copied in any order, or at once.
struct BoxCopies {
  const BoxCopy* boxes = nullptr;
  int count = 0;
  long cells = 0;       // of all boxes
  bool is_pack = true;  // from the array into the messages; else back
  Combine combine = Combine::kReplace;
};

namespace detail {

template <class T>
LANYARD_HALO_BOTH T combined(Combine combine, T old, T value) {
  switch (combine) {
    case Combine::kSum: return static_cast<T>(old + value);
    case Combine::kMin: return value < old ? value : old;
    case Combine::kMax: return old < value ? value : old;
    default: return value;
  }
}

// Of one box some cells of a row, from `column` on.
template <class T>
LANYARD_HALO_BOTH void copy_cells(const BoxCopies& list, const BoxCopy& box, long plane, long row, long column,
                                  long count) {
  T* const cells = box.array.at<T>(plane, row, column);
  const Combine combine = list.combine;
  for (int i = 0; i < box.parts; ++i) {
    const Place& part = box.messages[i];
    T* const message = part.at<T>(plane, row, column);
    T* const to = list.is_pack ? message : cells;
    const T* const from = list.is_pack ? cells : message;
    const long to_step = (list.is_pack ? part : box.array).step[2];
    const long from_step = (list.is_pack ? box.array : part).step[2];
    if (combine == Combine::kReplace && count > 1 && to_step == 1 && from_step == 1) {
      memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
      continue;
    }
    for (long k = 0; k < count; ++k)
      to[k * to_step] = combined(combine, to[k * to_step], from[k * from_step]);
  }
}

}  // namespace detail

// All cells of a box, row by row.
LANYARD_HALO_BOTH inline void copy_box(const BoxCopies& list, const BoxCopy& box) {
  with_type(box.type, [&](auto cell) {
    for (long plane = 0; plane < box.counts[0]; ++plane)
      for (long row = 0; row < box.counts[1]; ++row)
        detail::copy_cells<decltype(cell)>(list, box, plane, row, 0, box.counts[2]);
  });
}

// The kernel on a host. `copies` is a BoxCopies.
inline void copy_boxes_on_host(void* copies) {
  const BoxCopies& list = *static_cast<const BoxCopies*>(copies);
  for (int i = 0; i < list.count; ++i)
    copy_box(list, list.boxes[i]);
}

// The part of thread `thread` of `threads`, which copies every so manyth cell of all.
LANYARD_HALO_BOTH inline void copy_boxes_part(const BoxCopies& list, long thread, long threads) {
  const BoxCopy* box = list.boxes;
  for (long i = thread; i < list.cells; i += threads) {
    while (i >= box->end)
      ++box;
    const long inside = i - (box->end - box->cells()), row = inside / box->counts[2];
    with_type(box->type, [&](auto cell) {
      detail::copy_cells<decltype(cell)>(list, *box, row / box->counts[1], row % box->counts[1],
                                         inside % box->counts[2], 1);
    });
  }
}

// Memory, owned.
using Memory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

// The memory of a GPU, and copies in the order of one stream of it.
class Device {
 public:
  virtual ~Device() = default;

  // Page-aligned memory of the GPU, and host memory that the GPU copies from and to at full speed.
  virtual Memory allocate(size_t bytes) = 0;
  virtual Memory allocate_pinned(size_t bytes) = 0;

  // Enqueues a copy between pinned memory and the GPU's, by the copy engine.
  virtual void transfer(std::byte* to, const std::byte* from, size_t bytes) = 0;
  // Blocks the host until everything enqueued so far has run.
  virtual void synchronize() = 0;
  // Copies between host memory of any kind and the GPU's, and blocks the host until that is done.
  // In the stream: one that does not block knows nothing of copies outside it.
  void transfer_now(std::byte* to, const std::byte* from, size_t bytes) {
    transfer(to, from, bytes);
    synchronize();
  }
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
    gpu_->transfer_now(data_.get(), contents.data(), bytes_);
  }
  // What f says of a span of the host with the buffer's contents.
  template <class F>
  auto read(F&& f) const {
    if (gpu_ == nullptr)
      return f(std::span<const std::byte>(data_.get(), bytes_));
    std::vector<std::byte> contents(bytes_);
    gpu_->transfer_now(contents.data(), data_.get(), bytes_);
    return f(std::span<const std::byte>(contents));
  }

 private:
  Memory data_;
  size_t bytes_ = 0;
  Device* gpu_ = nullptr;  // whose memory it is
};

}  // namespace lanyard::halo

#endif  // LANYARD_BENCH_HALO_STREAM_H_
