// What OfiNic is made of: counters, regions and operations of nic.h on those of libfabric.
#ifndef LANYARD_TRANSPORT_CXI_OBJECTS_H_
#define LANYARD_TRANSPORT_CXI_OBJECTS_H_

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/base/device_memory.h"
#include "transport/base/status.h"
#include "transport/cxi/fabric.h"
#include "transport/nic/nic.h"

namespace lanyard::ofi {

// A counter of nic.h on a libfabric counter. It holds 48 bits of success and 7 bits of failure.
//
// Threads: one caller at a time, except is_open(), which may run beside any call.
class OfiCounter {
 public:
  // Opens the counter at {0, 0}. Requires !is_open().
  Status open(fid_domain* domain);
  void close();
  bool is_open() const { return open_.load(std::memory_order_acquire); }

  fid_cntr* fid() const { return fid_.get(); }
  nic::CounterValue read() const;
  uint64_t reached() const { return read().reached(); }
  // Wraps like a 48-bit register; the caller checks the range.
  void add(uint64_t success);
  // Stops at kMaxFailure.
  void add_error(uint32_t failures);
  void reset();

  // Entries, operations and regions that name it.
  uint32_t uses = 0;

 private:
  Fid<fid_cntr> fid_;
  std::atomic<bool> open_{false};
};

// Makes the keys of regions. The driver chooses the keys, so none is ever reused (N8). They have 4
// bytes, as the CXI provider requires. Bits 0 and 1 are 01 if the memory is not aligned to 8 bytes,
// so that atomics can be refused. Other values say nothing.
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

// Registered memory.
//
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

class Work;

// A prepared operation (N14). Its descriptors are the same each time, so a free Work that is
// filled in for it stays so.
struct Prepared {
  nic::Op op;
  Work* ready = nullptr;   // free Works filled in for it, linked by Work::next_free
  uint32_t in_flight = 0;  // its Works that are not free
};

// One operation in libfabric's hands, with all memory that its descriptors point to.
// libfabric may keep pointers to the descriptors until the operation is done. So a Work neither
// moves nor changes from post() or start() until the driver has seen its completion.
//
// Threads: the one that drives.
class Work {
 public:
  // What op_context points to: one use of a Work. An event may still come for a Work that a flush
  // has freed. It begins with the descriptor, because some providers need its fi_context2 there.
  struct Use : fi_deferred_work {
    Work* work = nullptr;
    bool abandoned = false;
    uint64_t op_context = 0;  // these two describe the abandoned operation
    uint32_t peer = 0;
  };
  enum class State : uint8_t {
    kFree,
    kHeld,     // with the driver: the provider had no room
    kRefused,  // with the driver: the provider refused it; it fails when it is due
    kWaiting,  // with the provider, for its trigger or its completion
  };

  Work() {
    for (Use& use : uses_)
      use.work = this;
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // The use that a completion's op_context names.
  static Use& use_of(void* op_context) {
    return *static_cast<Use*>(reinterpret_cast<fi_deferred_work*>(static_cast<fi_context2*>(op_context)));
  }

  // Call it first. Fills in what is the same for every operation.
  void prepare(const Fabric& fabric);

  // Fills in the rest of the descriptors. `local`: the local address. `completion` counts the end;
  // may be null. Requires an existing peer.
  void describe(const Fabric& fabric, const nic::Op& op, std::byte* local, fid_cntr* completion);
  // Posts it to the deferred-work queue. kAgain: no room now.
  Code post(const Fabric& fabric, fid_cntr* trigger, uint64_t at) {
    use_->threshold = at;
    use_->triggering_cntr = trigger;
    const int queued = fi_control(&fabric.domain()->fid, FI_QUEUE_WORK, use_);
    return queued == 0 ? Code::kOk : note(queued);
  }
  // Runs it now. The completion queue will report it. kAgain: no room now.
  Code start(const Fabric& fabric);

  // The provider's error, if it refused the operation because the peer is unreachable, else 0.
  int found_unreachable() const { return found_unreachable_; }
  // Abandons the current use: a late event then names an old Use. Call describe()
  // before using the Work again.
  void abandon();

 private:
  // This many flushes in a row may abandon a Work before an old event could be taken for a new one.
  static constexpr size_t kUses = 4;

  Use uses_[kUses]{};
  Use* use_ = uses_;  // the current one
  int found_unreachable_ = 0;
  fi_op_rma write_{};
  fi_op_atomic atomic_{};
  iovec source_{};
  fi_rma_iov target_{};
  fi_ioc operand_{};
  fi_rma_ioc atomic_target_{};

  Code note(int64_t returned);
  void name_contexts();

 public:
  // ---- The driver's state
  nic::Op op;
  nic::CounterId trigger;  // invalid: issued, not deferred
  uint64_t threshold = 0;
  State state = State::kFree;
  Code refusal = Code::kFailed;  // kRefused: why
  bool at_once = false;          // deferred, but started without an entry because none was free
  Prepared* home = nullptr;      // its prepared operation, which holds what it names
  Work* next_free = nullptr;
  bool deferred() const { return trigger.valid(); }
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_OBJECTS_H_
