#include "transport/cxi/ofi_region.h"

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

#include "transport/cxi/ofi_status.h"

namespace lanyard::ofi {

namespace {

constexpr unsigned kFlagBits = 3;
constexpr unsigned kGenerationBits = 29;  // with the flags, what 4 bytes hold
// The CXI provider makes "optimized" regions of client keys below 100: few, and without events or a
// fence.
constexpr uint64_t kFirstGeneration = 128;

}  // namespace

KeyMaker::KeyMaker(size_t key_bytes)
    : generation_(kFirstGeneration),
      limit_(uint64_t{1} << std::min<size_t>(kGenerationBits, 8 * key_bytes - kFlagBits)) {
  if (key_bytes >= sizeof(uint64_t))
    salt_ = uint64_t{std::random_device{}()} << (kFlagBits + kGenerationBits);
}

Result<nic::RemoteKey> KeyMaker::next(const void* base) {
  if (generation_ + 1 >= limit_)
    return Status(Code::kExhausted, "all " + std::to_string(limit_ - kFirstGeneration - 1) +
                                        " memory keys of this process have been used, and none is used twice");
  ++generation_;
  const uint64_t flags = reinterpret_cast<uintptr_t>(base) % sizeof(uint64_t) == 0 ? 0 : 1;
  return nic::RemoteKey{salt_ | generation_ << kFlagBits | flags << 1};
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
    attributes.device.reserved = static_cast<uint64_t>(kind.device);  // ROCm's devices have no field of their own
  return attributes;
}

Status OfiRegion::open(const Fabric& fabric, const MemoryRange& range, nic::RemoteKey key, OfiCounter* remote_write) {
  const bool has_word = !fabric.provider().empty_writes;
  Fid<fid_mr> memory;
  if (range.bytes > 0 || !has_word) {
    Result<Fid<fid_mr>> made = enroll(fabric, range, key.value, remote_write);
    if (!made.ok())
      return made.status();
    memory = std::move(made.value());
  }
  if (has_word) {
    Result<Fid<fid_mr>> made = enroll(fabric, {&word_, sizeof word_}, KeyMaker::beside(key).value, remote_write);
    if (!made.ok())
      return made.status();
    beside_ = std::move(made.value());
  }
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
  beside_.reset();
  remote_write_ = nullptr;
}

// The order that the CXI provider wants: endpoint, then counter, then enable; only then is the key
// good.
Result<Fid<fid_mr>> OfiRegion::enroll(const Fabric& fabric, const MemoryRange& memory, uint64_t key,
                                      const OfiCounter* remote_write) {
  const iovec piece{memory.base, memory.bytes};
  const fi_mr_attr attributes = region_attributes(piece, key, memory.kind);
  const bool binds_endpoint = (fabric.info().domain_attr->mr_mode & FI_MR_ENDPOINT) != 0;
  fid_mr* opened = nullptr;
  LANYARD_RETURN_IF_ERROR(
      ofi_status(fi_mr_regattr(fabric.domain(), &attributes, remote_write != nullptr ? FI_RMA_EVENT : 0, &opened),
                 "fi_mr_regattr"));
  Fid<fid_mr> region(opened);
  if (binds_endpoint)
    LANYARD_RETURN_IF_ERROR(ofi_status(fi_mr_bind(opened, &fabric.endpoint()->fid, 0), "fi_mr_bind(endpoint)"));
  if (remote_write != nullptr)
    LANYARD_RETURN_IF_ERROR(
        ofi_status(fi_mr_bind(opened, &remote_write->fid()->fid, FI_REMOTE_WRITE), "fi_mr_bind(counter)"));
  if (binds_endpoint)
    LANYARD_RETURN_IF_ERROR(ofi_status(fi_mr_enable(opened), "fi_mr_enable"));
  if (fi_mr_key(opened) != key)
    return Status(Code::kUnsupported, "the provider gives keys of its own");
  return region;
}

}  // namespace lanyard::ofi
