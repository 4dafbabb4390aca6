// Layout: which bytes of memory a datatype with gaps names, in which order, and copies between them and packed memory.
//
// It models the type map of an MPI datatype, several elements of it, as loops over runs of bytes. A vector of a million
// blocks is one loop and takes as much memory as a vector of two; only blocks without any regularity are kept one by
// one.
#ifndef LANYARD_GPU_LAYOUT_H_
#define LANYARD_GPU_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/layout_loop.h"

namespace lanyard::gpu {

// A layout while it is put together. `offset` and the following are LayoutLoop's.
struct Shape {
  int64_t offset = 0;
  uint64_t count = 1;
  int64_t stride = 0;
  uint64_t length = 0;  // of a run of bytes; 0 where there are parts, or nothing at all
  std::vector<Shape> parts;

  bool empty() const { return length == 0 && parts.empty(); }
  bool is_run() const { return parts.empty() && count == 1; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

// The shape `count` times, the beginnings `stride` bytes apart. What lies one behind the other becomes one.
Shape repeat(Shape shape, uint64_t count, int64_t stride);
// Puts the shape behind the parts, `offset` bytes further on than it says itself. Runs that touch become one, and what
// is the same at equal distances one loop.
void append(std::vector<Shape>& parts, Shape shape, int64_t offset);
// The parts one after another.
Shape sequence(std::vector<Shape> parts);

// Immutable, so any thread at any time.
class Layout {
 public:
  // Who makes shapes of what users give refuses more loops than that, and loops that are nested deeper: copies recurse.
  static constexpr size_t kMostLoops = size_t{1} << 22;
  static constexpr int kDeepest = 200;

  // Requires that the shape is not empty.
  explicit Layout(const Shape& shape);

  uint64_t bytes() const { return loops_.front().bytes * loops_.front().count; }
  // The memory lies within [lowest, highest) from the address that the layout is used with; negative where it begins
  // before it.
  int64_t lowest() const { return lowest_; }
  int64_t highest() const { return highest_; }
  // The whole first, each loop before its parts.
  std::span<const LayoutLoop> loops() const { return loops_; }

  // Copy the first `bytes` bytes of the layout, at most bytes(). `memory` may be null where offsets are addresses.
  // Bytes that the layout does not name are neither read nor written.
  void pack(const void* memory, std::byte* packed, uint64_t bytes) const;
  void unpack(const std::byte* packed, void* memory, uint64_t bytes) const;

 private:
  void add(const Shape& shape, size_t place, uint64_t packed);

  std::vector<LayoutLoop> loops_;
  int64_t lowest_ = 0;
  int64_t highest_ = 0;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_LAYOUT_H_
