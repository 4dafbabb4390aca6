#include "transport/cxi/ofi_region.h"

#include <string>
#include <string_view>

#include "transport/cxi/ofi_status.h"

namespace lanyard::ofi {

namespace {

constexpr unsigned kFlagBits = 2;
constexpr uint32_t kLastGeneration = UINT32_MAX >> kFlagBits;

}  // namespace

Result<nic::RemoteKey> KeyMaker::next(const void* base) {
  if (generation_ == kLastGeneration)
    return Status(Code::kExhausted, "this process has used all of its memory keys, and a key is never reused");
  ++generation_;
  const uint32_t flags = reinterpret_cast<uintptr_t>(base) % sizeof(uint64_t) == 0 ? 0 : 1;
  return nic::RemoteKey{generation_ << kFlagBits | flags};
}

Result<MemoryKind> MemoryKind::of_device(const DeviceMemory& memory, int device) {
  const std::string_view kind = memory.kind();
  if (kind == "cuda")
    return MemoryKind{FI_HMEM_CUDA, device};
  if (kind == "hip")
    return MemoryKind{FI_HMEM_ROCR, device};
  return Status(Code::kInvalidArgument, "libfabric knows no device memory of kind \"" + std::string(kind) + "\"");
}

fi_mr_attr region_attributes(const iovec& piece, uint64_t key, MemoryKind kind) {
  fi_mr_attr attributes{};
  attributes.mr_iov = &piece;
  attributes.iov_count = 1;
  attributes.access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  attributes.requested_key = key;
  attributes.iface = kind.iface;
  if (kind.iface == FI_HMEM_CUDA)
    attributes.device.cuda = kind.device;
  else if (kind.iface != FI_HMEM_SYSTEM)
    attributes.device.reserved = static_cast<uint64_t>(kind.device);  // ROCm has no own field
  return attributes;
}

// In the order that the CXI provider requires: endpoint, counter, enable.
// Only then is the key valid.
Status OfiRegion::open(const Fabric& fabric, const MemoryRange& range, nic::RemoteKey key, OfiCounter* remote_write) {
  const iovec piece{range.base, range.bytes};
  const fi_mr_attr attributes = region_attributes(piece, key.value, range.kind);
  fid_mr* opened = nullptr;
  LANYARD_RETURN_IF_ERROR(
      ofi_status(fi_mr_regattr(fabric.domain(), &attributes, remote_write != nullptr ? FI_RMA_EVENT : 0, &opened),
                 "fi_mr_regattr"));
  Fid<fid_mr> memory(opened);
  LANYARD_RETURN_IF_ERROR(ofi_status(fi_mr_bind(opened, &fabric.endpoint()->fid, 0), "fi_mr_bind(endpoint)"));
  if (remote_write != nullptr)
    LANYARD_RETURN_IF_ERROR(
        ofi_status(fi_mr_bind(opened, &remote_write->fid()->fid, FI_REMOTE_WRITE), "fi_mr_bind(counter)"));
  LANYARD_RETURN_IF_ERROR(ofi_status(fi_mr_enable(opened), "fi_mr_enable"));
  if (fi_mr_key(opened) != key.value)
    return Status(Code::kUnsupported, "the provider does not use the requested key");
  memory_ = std::move(memory);
  base_ = static_cast<std::byte*>(range.base);
  bytes_ = range.bytes;
  key_ = key;
  remote_write_ = remote_write;
  uses = 0;
  open_.store(true, std::memory_order_release);
  return {};
}

void OfiRegion::close() {
  open_.store(false, std::memory_order_release);
  memory_.reset();
  remote_write_ = nullptr;
}

}  // namespace lanyard::ofi
