#include "api/staging.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "gpu/packing.h"

namespace lanyard::api {

namespace {

// Fresh pages cost nothing until they are used.
Result<std::shared_ptr<gpu::Packing>> host_packing(std::shared_ptr<const gpu::Layout> layout, void* memory) {
  auto packing = std::make_shared<gpu::Packing>();
  packing->packed = {static_cast<std::byte*>(std::calloc(layout->bytes(), 1)), std::free};
  if (packing->packed == nullptr)
    return Status(Code::kExhausted, "no memory for the " + std::to_string(layout->bytes()) +
                                        " bytes that a request with gaps is packed into");
  packing->layout = std::move(layout);
  packing->memory = memory;
  return packing;
}

}  // namespace

Status give_packing(Context& context, RequestRecord& record) {
  core::Transfer& transfer = record.core->transfer;
  if (record.layout == nullptr || transfer.packing != nullptr || transfer.peer == core::kNobody)
    return {};
  const gpu::Layout& layout = *record.layout;
  const auto begin = reinterpret_cast<uintptr_t>(record.transfer.buffer) + static_cast<uintptr_t>(layout.lowest());
  int on = DeviceMemory::kHost;
  if (context.gpus() != nullptr) {
    const Result<int> device = context.gpus()->memory().device_of(
        reinterpret_cast<const void*>(begin), static_cast<uint64_t>(layout.highest() - layout.lowest()));
    if (!device.ok())
      return device.status();
    on = device.value();
  }
  Result<std::shared_ptr<gpu::Packing>> packing =
      on == DeviceMemory::kHost ? host_packing(record.layout, record.transfer.buffer)
                                : context.gpus()->make_packing(record.layout, record.transfer.buffer, on);
  if (!packing.ok())
    return packing.status();
  transfer.buffer = packing.value()->packed.get();
  transfer.packing = std::move(packing.value());
  return {};
}

}  // namespace lanyard::api
