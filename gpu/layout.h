// Layout: the bytes that a datatype with gaps covers, in order, and copies between them
// and packed memory.
//
// It represents the type map of one or more elements of an MPI datatype as loops over runs of
// bytes. A vector of a million blocks is one loop and takes as much memory as a vector of two. Only
// irregular blocks are stored one by one.
#ifndef LANYARD_GPU_LAYOUT_H_
#define LANYARD_GPU_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/layout_loop.h"

namespace lanyard::gpu {

// A layout under construction. offset, count and stride are as in LayoutLoop.
struct Shape {
  int64_t offset = 0;
  uint64_t count = 1;
  int64_t stride = 0;
  uint64_t length = 0;  // of a run of bytes; 0 if there are parts, or if the shape is empty
  std::vector<Shape> parts;

  bool empty() const { return length == 0 && parts.empty(); }
  bool is_run() const { return parts.empty() && count == 1; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

// Repeats the shape `count` times, `stride` bytes apart. Merges runs that become contiguous.
Shape repeat(Shape shape, uint64_t count, int64_t stride);
// Appends the shape, shifted by `offset` bytes. Merges runs that touch, and turns equal shapes at
// equal distances into one loop.
void append(std::vector<Shape>& parts, Shape shape, int64_t offset);
// One shape of all the parts, in order.
Shape sequence(std::vector<Shape> parts);

// Immutable: any thread may use it at any time.
class Layout {
 public:
  // Limits for shapes made from user input: the most loops, and the deepest nesting. The caller
  // must check them. Copies recurse.
  static constexpr size_t kMostLoops = size_t{1} << 22;
  static constexpr int kDeepest = 200;

  // Requires: the shape is not empty.
  explicit Layout(const Shape& shape);

  uint64_t bytes() const { return loops_.front().bytes * loops_.front().count; }
  // All bytes lie within [lowest, highest), relative to the address that the layout is used with.
  // Both may be negative.
  int64_t lowest() const { return lowest_; }
  int64_t highest() const { return highest_; }
  // The outermost loop first. Each loop comes before its parts.
  std::span<const LayoutLoop> loops() const { return loops_; }

  // Copy the first `bytes` bytes of the layout, at most bytes(). `memory` may be null if the
  // offsets are addresses. Bytes outside the layout are neither read nor written.
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
