// OfiRegion: registered memory, and the keys that say more than which it is.
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

// Keys are the driver's own, so none is ever given twice (N8). They have 4 bytes, as the CXI provider wants them.
// Bits 0 and 1 are 01 where the memory does not begin at a multiple of 8, so that atomics into it are wrong. The
// complement of a key, for one, does not say so.
class KeyMaker {
 public:
  // `given`: the number of the last key. The first keys are left out: the CXI provider makes "optimized" regions of
  // client keys below 100, which are few and have neither events nor a fence.
  explicit KeyMaker(uint32_t given = 128) : generation_(given) {}

  // kExhausted once all have been given; a second use would let what is late into memory that is not its own.
  Result<nic::RemoteKey> next(const void* base);
  // Whether atomics under this key are misaligned wherever their offset is aligned.
  static bool misaligned(nic::RemoteKey key) { return (key.value & 3) == 1; }

 private:
  uint32_t generation_;  // of the last key
};

// Whose memory it is, as libfabric wants to know it (fi_mr(3)).
struct MemoryKind {
  fi_hmem_iface iface = FI_HMEM_SYSTEM;
  int device = 0;  // the ordinal

  // kInvalidArgument for a kind of device that libfabric has no name for.
  static Result<MemoryKind> of_device(const DeviceMemory& memory, int device);
};

struct MemoryRange {
  void* base = nullptr;
  uint64_t bytes = 0;
  MemoryKind kind = {};
};

// What fi_mr_regattr() is asked. `piece` outlives the result.
fi_mr_attr region_attributes(const iovec& piece, uint64_t key, MemoryKind kind);

// Threads: one caller at a time, but for is_open(), base(), bytes() and key(), which may run beside
// anything that does not open or close this very region.
class OfiRegion {
 public:
  // Registers the memory under `key`; `remote_write` is null or an open counter. Requires
  // !is_open().
  Status open(const Fabric& fabric, const MemoryRange& memory, nic::RemoteKey key, OfiCounter* remote_write);
  // The counter is the caller's to let go of.
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
