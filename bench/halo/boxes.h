// Copies of boxes of cells between arrays and messages: a list of them is one kernel. No MPI:
// vendors' compilers read this file too.
#ifndef LANYARD_BENCH_HALO_BOXES_H_
#define LANYARD_BENCH_HALO_BOXES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

struct CopyBox {
  const BoxCopies& list;
  const BoxCopy& box;
  template <class T>
  LANYARD_HALO_BOTH void operator()(T) const {
    for (long plane = 0; plane < box.counts[0]; ++plane)
      for (long row = 0; row < box.counts[1]; ++row)
        copy_cells<T>(list, box, plane, row, 0, box.counts[2]);
  }
};

struct CopyCell {
  const BoxCopies& list;
  const BoxCopy& box;
  long cell;
  template <class T>
  LANYARD_HALO_BOTH void operator()(T) const {
    const long row = cell / box.counts[2];
    copy_cells<T>(list, box, row / box.counts[1], row % box.counts[1], cell % box.counts[2], 1);
  }
};

}  // namespace detail

// The kernel on a host. `copies` is a BoxCopies.
inline void copy_boxes_on_host(void* copies) {
  const BoxCopies& list = *static_cast<const BoxCopies*>(copies);
  for (int i = 0; i < list.count; ++i)
    with_type(list.boxes[i].type, detail::CopyBox{list, list.boxes[i]});
}

// The part of thread `thread` of `threads`, which copies every so manyth cell of all.
LANYARD_HALO_BOTH inline void copy_boxes_part(const BoxCopies& list, long thread, long threads) {
  const BoxCopy* box = list.boxes;
  for (long cell = thread; cell < list.cells; cell += threads) {
    while (cell >= box->end)
      ++box;
    with_type(box->type, detail::CopyCell{list, *box, cell - (box->end - box->cells())});
  }
}

}  // namespace lanyard::halo

#endif  // LANYARD_BENCH_HALO_BOXES_H_
