// Work: one operation on its way through libfabric, with everything that libfabric's descriptors
// point to.
#ifndef LANYARD_TRANSPORT_CXI_WORK_H_
#define LANYARD_TRANSPORT_CXI_WORK_H_

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include <cstddef>
#include <cstdint>

#include "transport/base/status.h"
#include "transport/cxi/fabric.h"
#include "transport/cxi/fid.h"
#include "transport/nic/nic.h"

namespace lanyard::ofi {

// Some providers keep pointers to the descriptors until the operation is done, so a Work stays
// where it is and as it is from post() or start() until the driver has seen its completion.
// Threads: those of the driver.
class Work {
  // What op_context points to begins with its fi_context2.
  struct Descriptor : fi_deferred_work {
    Work* owner = nullptr;
  };

 public:
  enum class State : uint8_t {
    kFree,
    kHeld,     // with the driver: not due, or the provider had no room
    kDoomed,   // with the driver: the provider refuses it, so it fails when it is due
    kWaiting,  // with the provider, for its trigger or its completion
  };

  Work() { work_.owner = this; }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // The Work whose operation a completion's op_context names.
  static Work* of(void* op_context) {
    return static_cast<Descriptor*>(
               reinterpret_cast<fi_deferred_work*>(static_cast<fi_context2*>(op_context)))
        ->owner;
  }

  // Whether the operation brings something back.
  static bool fetches(const nic::Op& op) {
    return op.kind == nic::OpKind::kAtomic &&
           (op.atomic == nic::AtomicKind::kFetchSum || op.atomic == nic::AtomicKind::kCompareSwap);
  }

  // For providers that do not report deferred work: gives it a counter of its own to complete into.
  Status open_done(fid_domain* domain);

  // Fills the descriptors in for `op`, whose local addresses are given. Requires a peer that
  // exists.
  void describe(const Fabric& fabric, const nic::Op& op, std::byte* local, std::byte* fetch);
  // Hands it to the deferred-work queue, to add to `completion` (may be null) when it is done.
  // kAgain: come back.
  Status post(const Fabric& fabric, fid_cntr* trigger, uint64_t threshold, fid_cntr* completion);
  // Runs it now; the completion queue will report it. kAgain: come back.
  Status start(const Fabric& fabric);

  // Of posted work with a counter of its own: whether it has succeeded, and the provider looks at
  // it no more.
  bool is_done() const;
  // The same work has failed instead: adds to its completion counter all the same, so that its
  // chain fires.
  void finish_failed();

 private:
  Descriptor work_{};
  fi_deferred_work chain_{};
  union {
    fi_op_rma write_;
    fi_op_atomic atomic_;
    fi_op_fetch_atomic fetch_;
    fi_op_compare_atomic compare_swap_;
  };
  fi_op_cntr chain_add_{};
  iovec source_{};
  fi_rma_iov target_{};
  fi_ioc operand_{};
  fi_ioc result_{};
  fi_ioc compare_operand_{};
  fi_rma_ioc atomic_target_{};
  uint64_t compare_ = 0;
  uint64_t nothing_ = 0;  // what is written for no bytes
  Fid<fid_cntr> done_;

  void describe_write(const Fabric& fabric, const nic::Op& op, std::byte* local);
  void describe_atomic(const Fabric& fabric, const nic::Op& op, std::byte* local, std::byte* fetch);

 public:
  // ---- The driver's own notes
  nic::Op op;
  nic::CounterId trigger;  // none: issued
  uint64_t threshold = 0;
  State state = State::kFree;
  Code doom = Code::kFailed;  // kDoomed: why
  Work* next_free = nullptr;
  bool deferred() const { return trigger.valid(); }
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_WORK_H_
