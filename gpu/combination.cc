#include "gpu/combination.h"

#include <algorithm>

namespace lanyard::gpu {

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
  using namespace combining;
  switch (element) {
    case Element::kInt8:
    case Element::kUint8: return 1;
    case Element::kInt16:
    case Element::kUint16: return 2;
    case Element::kInt32:
    case Element::kUint32: return 4;
    case Element::kInt64:
    case Element::kUint64: return 8;
    case Element::kFloat: return sizeof(float);
    case Element::kDouble: return sizeof(double);
    case Element::kFloatComplex: return sizeof(Complex<float>);
    case Element::kDoubleComplex: return sizeof(Complex<double>);
    case Element::kBool: return sizeof(bool);
    case Element::kFloatInt32: return sizeof(Pair<float, int32_t>);
    case Element::kDoubleInt32: return sizeof(Pair<double, int32_t>);
    case Element::kInt16Int32: return sizeof(Pair<int16_t, int32_t>);
    case Element::kInt32Int32: return sizeof(Pair<int32_t, int32_t>);
    case Element::kInt64Int32: return sizeof(Pair<int64_t, int32_t>);
    case Element::kFloatFloat: return sizeof(Pair<float, float>);
    case Element::kDoubleDouble: return sizeof(Pair<double, double>);
    case Element::kLongDouble: return sizeof(long double);
    case Element::kLongDoubleComplex: return sizeof(Complex<long double>);
    case Element::kLongDoubleInt32: return sizeof(Pair<long double, int32_t>);
  }
  return 0;
}

bool is_defined(Operation operation, Element element) {
  return combine({.out = 0, .parts = 0, .part_count = 1, .count = 0, .element = element, .operation = operation}, 0, 1);
}

bool is_for_devices(Element element) { return element < Element::kLongDouble; }

}  // namespace lanyard::gpu
