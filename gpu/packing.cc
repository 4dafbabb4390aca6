#include "gpu/packing.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "transport/base/check.h"

namespace lanyard::gpu {

// ---- Layouts

namespace {

int64_t times(uint64_t count, int64_t stride) { return static_cast<int64_t>(count) * stride; }

bool same_once(const Shape& a, const Shape& b) { return a.length == b.length && a.parts == b.parts; }

uint64_t bytes_once(const Shape& shape) {
  uint64_t bytes = shape.length;
  for (const Shape& part : shape.parts)
    bytes += part.count * bytes_once(part);
  return bytes;
}

struct Range {
  int64_t lowest;
  int64_t highest;
};

Range range_of(const Shape& shape) {
  Range range{0, static_cast<int64_t>(shape.length)};
  for (size_t i = 0; i < shape.parts.size(); ++i) {
    const Range part = range_of(shape.parts[i]);
    range = i == 0 ? part : Range{std::min(range.lowest, part.lowest), std::max(range.highest, part.highest)};
  }
  const int64_t last = times(shape.count - 1, shape.stride);
  return {shape.offset + range.lowest + std::min<int64_t>(last, 0),
          shape.offset + range.highest + std::max<int64_t>(last, 0)};
}

enum class Way { kPack, kUnpack };

// One copy. Addresses are integers: with MPI_BOTTOM the base is null and offsets are addresses.
template <Way way>
class Copy {
 public:
  Copy(std::span<const LayoutLoop> loops, uint64_t packed, uint64_t bytes)
      : loops_(loops), packed_(packed), left_(bytes) {}

  void run(const LayoutLoop& loop, uint64_t memory) {
    memory += static_cast<uint64_t>(loop.offset);
    if (loop.parts == 0)
      return copy_runs(loop, memory);
    for (uint64_t i = 0; i < loop.count && left_ > 0; ++i, memory += static_cast<uint64_t>(loop.stride))
      for (uint32_t part = 0; part < loop.parts && left_ > 0; ++part)
        run(loops_[loop.first + part], memory);
  }

 private:
  // Copies runs of `length` bytes, a constant for the compiler, or of `bytes` bytes if it is 0.
  template <size_t length>
  void copy_equal(uint64_t memory, int64_t stride, uint64_t count, size_t bytes) {
    for (uint64_t i = 0; i < count; ++i, memory += static_cast<uint64_t>(stride))
      copy(memory, length != 0 ? length : bytes);
  }

  void copy_runs(const LayoutLoop& loop, uint64_t memory) {
    const uint64_t whole = std::min(loop.count, left_ / loop.bytes);
    left_ -= whole * loop.bytes;
    switch (loop.bytes) {
      case 4: copy_equal<4>(memory, loop.stride, whole, 4); break;
      case 8: copy_equal<8>(memory, loop.stride, whole, 8); break;
      case 16: copy_equal<16>(memory, loop.stride, whole, 16); break;
      default: copy_equal<0>(memory, loop.stride, whole, loop.bytes); break;
    }
    if (whole == loop.count)
      return;
    copy(memory + static_cast<uint64_t>(times(whole, loop.stride)), left_);
    left_ = 0;
  }

  void copy(uint64_t memory, size_t bytes) {
    void* const there = reinterpret_cast<void*>(memory);
    void* const here = reinterpret_cast<void*>(packed_);
    if constexpr (way == Way::kPack)
      std::memcpy(here, there, bytes);
    else
      std::memcpy(there, here, bytes);
    packed_ += bytes;
  }

  std::span<const LayoutLoop> loops_;
  uint64_t packed_;
  uint64_t left_;
};

}  // namespace

Shape repeat(Shape shape, uint64_t count, int64_t stride) {
  if (count == 0 || shape.empty())
    return {};
  if (count == 1)
    return shape;
  if (shape.is_run() && static_cast<int64_t>(shape.length) == stride) {
    shape.length *= count;
    return shape;
  }
  if (shape.count == 1 || times(shape.count, shape.stride) == stride) {
    shape.stride = shape.count == 1 ? stride : shape.stride;
    shape.count *= count;
    return shape;
  }
  Shape around;
  around.offset = std::exchange(shape.offset, 0);
  around.count = count;
  around.stride = stride;
  around.parts.push_back(std::move(shape));
  return around;
}

void append(std::vector<Shape>& parts, Shape shape, int64_t offset) {
  if (shape.empty())
    return;
  shape.offset += offset;
  if (!parts.empty()) {
    Shape& last = parts.back();
    if (last.is_run() && shape.is_run() && last.offset + static_cast<int64_t>(last.length) == shape.offset) {
      last.length += shape.length;
      return;
    }
    const bool goes_on = last.count == 1 || last.offset + times(last.count, last.stride) == shape.offset;
    if (shape.count == 1 && goes_on && same_once(last, shape)) {
      if (last.count++ == 1)
        last.stride = shape.offset - last.offset;
      return;
    }
  }
  parts.push_back(std::move(shape));
}

Shape sequence(std::vector<Shape> parts) {
  if (parts.empty())
    return {};
  if (parts.size() == 1)
    return std::move(parts.front());
  Shape shape;
  shape.parts = std::move(parts);
  return shape;
}

Layout::Layout(const Shape& shape) {
  LANYARD_CHECK(!shape.empty(), "a layout needs a shape that is not empty");
  const Range range = range_of(shape);
  lowest_ = range.lowest;
  highest_ = range.highest;
  loops_.resize(1);
  add(shape, 0, 0);
}

void Layout::add(const Shape& shape, size_t place, uint64_t packed) {
  const size_t first = loops_.size();
  loops_[place] = {.offset = shape.offset,
                   .count = shape.count,
                   .stride = shape.stride,
                   .bytes = bytes_once(shape),
                   .packed = packed,
                   .first = static_cast<uint32_t>(first),
                   .parts = static_cast<uint32_t>(shape.parts.size())};
  loops_.resize(first + shape.parts.size());
  uint64_t before = 0;
  for (size_t i = 0; i < shape.parts.size(); ++i) {
    add(shape.parts[i], first + i, before);
    before += loops_[first + i].count * loops_[first + i].bytes;
  }
}

void Layout::pack(const void* memory, std::byte* packed, uint64_t bytes) const {
  Copy<Way::kPack>(loops_, reinterpret_cast<uint64_t>(packed), std::min(bytes, this->bytes()))
      .run(loops_.front(), reinterpret_cast<uint64_t>(memory));
}

void Layout::unpack(const std::byte* packed, void* memory, uint64_t bytes) const {
  Copy<Way::kUnpack>(loops_, reinterpret_cast<uint64_t>(packed), std::min(bytes, this->bytes()))
      .run(loops_.front(), reinterpret_cast<uint64_t>(memory));
}

// ---- Combinations and packings

uint64_t Combination::unplaced() const { return static_cast<uint64_t>(std::ranges::count(parts, uint64_t{0})); }

void Combination::place(std::byte* memory, uint64_t stride) {
  for (uint64_t& part : parts)
    if (part == 0) {
      part = reinterpret_cast<uint64_t>(memory);
      memory += stride;
    }
}

void Combination::run(void* out) const {
  (void)combine({reinterpret_cast<uint64_t>(out), reinterpret_cast<uint64_t>(parts.data()), parts.size(), count,
                 element, operation},
                0, 1);
}

size_t size_of(Element element) {
  using combining::Complex, combining::Pair;
  static constexpr size_t kSizes[] = {
#define LANYARD_ELEMENT(element, defined, ...) sizeof(__VA_ARGS__),
      LANYARD_ELEMENTS(LANYARD_ELEMENT) LANYARD_HOST_ELEMENTS(LANYARD_ELEMENT)
#undef LANYARD_ELEMENT
  };
  return kSizes[static_cast<size_t>(element)];
}

bool is_defined(Operation operation, Element element) {
  return combine({.out = 0, .parts = 0, .part_count = 1, .count = 0, .element = element, .operation = operation}, 0, 1);
}

bool is_for_devices(Element element) { return element < Element::kLongDouble; }

Result<std::shared_ptr<Packing>> make_host_combining(Combination combination, uint64_t stride, void* memory) {
  constexpr size_t kLine = 64;
  auto packing = std::make_shared<Packing>();
  packing->packed = {static_cast<std::byte*>(std::aligned_alloc(kLine, combination.unplaced() * stride)), std::free};
  if (packing->packed == nullptr)
    return Status(Code::kExhausted,
                  "no memory for " + std::to_string(combination.unplaced() * stride) + " bytes of contributions");
  combination.place(packing->packed.get(), stride);
  packing->combination = std::make_shared<Combination>(std::move(combination));
  packing->memory = memory;
  return packing;
}

}  // namespace lanyard::gpu
