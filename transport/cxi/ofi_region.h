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
#include "transport/cxi/fid.h"
#include "transport/cxi/ofi_counter.h"
#include "transport/nic/nic.h"

namespace lanyard::ofi {

// Keys are the driver's own, so none is ever given twice (N8). The low bits of one say
//   bit 0        0: the region's memory; 1: the word beside it that stands for writes of no bytes
//   bits 1, 2    01: the memory does not begin at a multiple of 8, so that atomics into it are
//   wrong;
//                the complement of a key, for one, says nothing of the kind
class KeyMaker {
 public:
  // Keys of so many bytes. Where there is room, those of different NICs differ.
  explicit KeyMaker(size_t key_bytes);

  // kExhausted once all have been given; a second use would let what is late into memory that is not its own.
  Result<nic::RemoteKey> next(const void* base);
  static nic::RemoteKey beside(nic::RemoteKey key) { return {key.value | 1}; }
  // Whether atomics under this key are misaligned wherever their offset is aligned.
  static bool misaligned(nic::RemoteKey key) { return (key.value >> 1 & 3) == 1; }

 private:
  uint64_t salt_ = 0;
  uint64_t generation_;  // given last
  uint64_t limit_;
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
  static Result<Fid<fid_mr>> enroll(const Fabric& fabric, const MemoryRange& memory, uint64_t key,
                                    const OfiCounter* remote_write);

  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
  nic::RemoteKey key_;
  OfiCounter* remote_write_ = nullptr;
  Fid<fid_mr> memory_;
  Fid<fid_mr> beside_;
  uint64_t word_ = 0;  // what lies beside
  std::atomic<bool> open_{false};
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_OFI_REGION_H_
