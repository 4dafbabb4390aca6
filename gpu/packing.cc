#include "gpu/packing.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

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
