// Layout: where memory with gaps is. Packing: a stream's copies between a request's memory and the
// program's memory. They pack or unpack memory with gaps, or combine contributions into a result.
#ifndef LANYARD_GPU_PACKING_H_
#define LANYARD_GPU_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/combine.h"
#include "gpu/layout_loop.h"
#include "transport/base/device_memory.h"
#include "transport/base/status.h"

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

// The bytes that a datatype with gaps covers, in order. It represents the type map of one or more
// elements of an MPI datatype as loops over runs of bytes. A vector of a million blocks is one loop
// and takes as much memory as a vector of two. Only irregular blocks are stored one by one.
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

// How a stream combines the contributions of several processes once all have arrived.
struct Combination {
  Element element = Element::kInt8;
  Operation operation = Operation::kSum;
  uint64_t count = 0;           // elements in each part
  std::vector<uint64_t> parts;  // in the order of combination; addresses, 0: no place yet

  // How many parts have no address.
  uint64_t unplaced() const;
  // Gives each part without an address a place, `stride` bytes apart, starting at `memory`.
  void place(std::byte* memory, uint64_t stride);
  // Combines into `out` on the calling thread. Requires host memory.
  void run(void* out) const;
};

// Bytes of one element in memory.
size_t size_of(Element element);
// Whether the operation is defined for the element (gpu/combine.h).
bool is_defined(Operation operation, Element element);
// Whether devices support the element.
bool is_for_devices(Element element);

// All memory is on one device, or on the host. Owns the packed memory.
struct Packing {
  std::shared_ptr<const Layout> layout;
  void* memory = nullptr;             // where the layout begins; null with MPI_BOTTOM
  std::shared_ptr<std::byte> packed;  // layout->bytes() long
  // Instead of a layout, for a receive that combines rather than unpacks. `packed` then owns the
  // contributions, and the result goes to `memory`.
  std::shared_ptr<const Combination> combination;
  int device = DeviceMemory::kHost;
  // The layout's loops, or the addresses of the combination's parts, in memory of the device.
  std::shared_ptr<std::byte> loops;
  uint32_t unit = 1;  // bytes copied at a time (gpu/device/kernel_arguments.h)

  // Run on the calling thread. Require host memory.
  void pack(uint64_t bytes) const { layout->pack(memory, packed.get(), bytes); }
  void unpack(uint64_t bytes) const {
    if (combination != nullptr)
      combination->run(memory);
    else
      layout->unpack(packed.get(), memory, bytes);
  }
};

// Makes a packing that combines parts in host memory into `memory`. Parts without an address are
// contributions of other processes. They get places `stride` bytes apart (a multiple of 64) in
// memory that the packing owns. kExhausted: no memory.
Result<std::shared_ptr<Packing>> make_host_combining(Combination combination, uint64_t stride, void* memory);

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_PACKING_H_
