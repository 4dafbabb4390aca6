#include "gpu/packing.h"

#include <cstdlib>
#include <utility>

namespace lanyard::gpu {

Result<std::shared_ptr<Packing>> make_host_combining(Combination combination, uint64_t stride, void* memory) {
  constexpr size_t kLine = 64;
  auto packing = std::make_shared<Packing>();
  packing->packed = {static_cast<std::byte*>(std::aligned_alloc(kLine, combination.unplaced() * stride)), std::free};
  if (packing->packed == nullptr)
    return Status(Code::kExhausted,
                  "no memory for the " + std::to_string(combination.unplaced() * stride) + " bytes of others");
  combination.place(packing->packed.get(), stride);
  packing->combination = std::make_shared<Combination>(std::move(combination));
  packing->memory = memory;
  return packing;
}

}  // namespace lanyard::gpu
