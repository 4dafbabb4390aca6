// Work: one operation in libfabric's hands, with all memory that its descriptors point to.
#ifndef LANYARD_TRANSPORT_CXI_WORK_H_
#define LANYARD_TRANSPORT_CXI_WORK_H_

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include <cstddef>
#include <cstdint>

#include "transport/base/status.h"
#include "transport/cxi/fabric.h"
#include "transport/nic/nic.h"

namespace lanyard::ofi {

class Work;

// A prepared operation (N14). Its descriptors are the same each time, so a free Work that is
// filled in for it stays so.
struct Prepared {
  nic::Op op;
  Work* ready = nullptr;   // free Works filled in for it, linked by Work::next_free
  uint32_t in_flight = 0;  // its Works that are not free
};

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
  void describe_write(const Fabric& fabric, const nic::Op& op, std::byte* local);
  void describe_atomic(const Fabric& fabric, const nic::Op& op, std::byte* local);

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

#endif  // LANYARD_TRANSPORT_CXI_WORK_H_
