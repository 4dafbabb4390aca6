// Work: one operation on its way through libfabric, with everything that libfabric's descriptors
// point to.
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

// An operation that is posted again and again. What libfabric's descriptors say is the same each time: Works that have
// been filled in for it stay so when they come back.
struct Prepared {
  nic::Op op;
  Work* ready = nullptr;   // that are free, by Work::next_free
  uint32_t under_way = 0;  // that are not
};

// libfabric may keep pointers to the descriptors until the operation is done. So a Work stays where it is and as it is
// from post() or start() until the driver has seen its completion. Threads: those of the driver.
class Work {
 public:
  // What op_context points to: not the Work but one use of it, because a flush gives a Work back of which an event may
  // yet come. It begins with the descriptor, whose fi_context2 some providers want there.
  struct Use : fi_deferred_work {
    Work* work = nullptr;
    bool given_up = false;
    uint64_t op_context = 0;  // these two: of the operation that was given up
    uint32_t peer = 0;
  };
  enum class State : uint8_t {
    kFree,
    kHeld,     // with the driver: the provider had no room
    kDoomed,   // with the driver: the provider refuses it, so it fails when it is due
    kWaiting,  // with the provider, for its trigger or its completion
  };

  Work() {
    for (Use& use : uses_)
      use.work = this;
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Which operation a completion's op_context names.
  static Use& use_of(void* op_context) {
    return *static_cast<Use*>(reinterpret_cast<fi_deferred_work*>(static_cast<fi_context2*>(op_context)));
  }

  // Before anything else: fills in what is the same for every operation.
  void prepare(const Fabric& fabric);

  // Fills the rest of the descriptors in for `op`, whose local addresses are given, and which adds to `completion` (may
  // be null) when it is done. Requires a peer that exists.
  void describe(const Fabric& fabric, const nic::Op& op, std::byte* local, fid_cntr* completion);
  // Hands it to the deferred-work queue. kAgain: come back.
  Code post(const Fabric& fabric, fid_cntr* trigger, uint64_t at) {
    use_->threshold = at;
    use_->triggering_cntr = trigger;
    const int queued = fi_control(&fabric.domain()->fid, FI_QUEUE_WORK, use_);
    return queued == 0 ? Code::kOk : note(queued);
  }
  // Runs it now; the completion queue will report it. kAgain: come back.
  Code start(const Fabric& fabric);

  // Where the provider has refused it because its peer is not there, its error; else 0.
  int found_unreachable() const { return found_unreachable_; }
  // Nobody waits for its event any more; should it come, it names a Use that has been given up. To be described again.
  void give_up();

 private:
  // So many flushes in a row may give a Work up before its oldest event could be taken for another's.
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
  // ---- The driver's own notes
  nic::Op op;
  nic::CounterId trigger;  // none: issued
  uint64_t threshold = 0;
  State state = State::kFree;
  Code doom = Code::kFailed;  // kDoomed: why
  bool at_once = false;       // deferred, but run without an entry: there was none when it was due
  Prepared* home = nullptr;   // whose descriptors these are, and which holds what they name; else it does so itself
  Work* next_free = nullptr;
  bool deferred() const { return trigger.valid(); }
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_WORK_H_
