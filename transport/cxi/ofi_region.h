// OfiRegion: registered memory. KeyMaker: its keys.
#ifndef LANYARD_TRANSPORT_CXI_OFI_REGION_H_
#define LANYARD_TRANSPORT_CXI_OFI_REGION_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/base/device_memory.h"
#include "transport/base/status.h"
#include "transport/cxi/fabric.h"
#include "transport/cxi/ofi_counter.h"
#include "transport/nic/nic.h"

namespace lanyard::ofi {

// The driver chooses the keys, so none is ever reused (N8). They have 4 bytes, as the CXI provider
// requires. Bits 0 and 1 are 01 if the memory is not aligned to 8 bytes, so that atomics can be
// refused. Other values say nothing.
class KeyMaker {
 public:
  // `given`: the number of the last key. Skips the first keys, because the CXI provider makes
  // "optimized" regions of keys below 100. These are few and have neither events nor a fence.
  explicit KeyMaker(uint32_t given = 128) : generation_(given) {}

  // kExhausted after the last key. Reuse would let late messages into memory of another region.
  Result<nic::RemoteKey> next(const void* base);
  // True if this key tells that atomics would be misaligned, even at an aligned offset.
  static bool misaligned(nic::RemoteKey key) { return (key.value & 3) == 1; }

 private:
  uint32_t generation_;  // of the last key
};

// The kind of memory, in libfabric's terms (fi_mr(3)).
struct MemoryKind {
  fi_hmem_iface iface = FI_HMEM_SYSTEM;
  int device = 0;  // the device's ordinal

  // kInvalidArgument if libfabric has no name for this kind of device.
  static Result<MemoryKind> of_device(const DeviceMemory& memory, int device);
};

struct MemoryRange {
  void* base = nullptr;
  uint64_t bytes = 0;
  MemoryKind kind = {};
};

// The arguments of fi_mr_regattr(). `piece` must outlive the result.
fi_mr_attr region_attributes(const iovec& piece, uint64_t key, MemoryKind kind);

// Threads: one caller at a time, except is_open(), base(), bytes() and key(). These may run beside
// any call that does not open or close this region.
class OfiRegion {
 public:
  // Registers the memory under `key`. `remote_write` is null or an open
  // counter. Requires !is_open().
  Status open(const Fabric& fabric, const MemoryRange& memory, nic::RemoteKey key, OfiCounter* remote_write);
  // The caller updates the counter's uses.
  void close();

  bool is_open() const { return open_.load(std::memory_order_acquire); }
  std::byte* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  nic::RemoteKey key() const { return key_; }
  OfiCounter* remote_write() const { return remote_write_; }

  // Entries and operations of this NIC that name it.
  uint32_t uses = 0;

 private:
  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
  nic::RemoteKey key_;
  OfiCounter* remote_write_ = nullptr;
  Fid<fid_mr> memory_;
  std::atomic<bool> open_{false};
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_OFI_REGION_H_
