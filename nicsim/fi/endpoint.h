// The endpoint: starts operations on the domain's NIC, immediate or deferred. It has an address, a
// limit of operations in flight, a completion queue, counters, and an address vector.
#ifndef LANYARD_NICSIM_FI_ENDPOINT_H_
#define LANYARD_NICSIM_FI_ENDPOINT_H_

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "nicsim/fi/counter.h"
#include "nicsim/fi/domain.h"
#include "nicsim/fi/queue.h"

namespace lanyard::nicsim::fi {

// Its users are the bound regions.
class Endpoint : public Object<fid_ep> {
 public:
  Endpoint(Domain& domain, const fi_info& info);
  ~Endpoint() { domain_->forget(*this); }

  Domain& domain() { return *domain_; }
  uint64_t caps() const { return caps_; }
  size_t slots() const { return slots_; }

  // As fi_ep_bind() and fi_enable(). bind() returns -FI_EOPBADSTATE once enabled; enable() needs an
  // address vector and a queue.
  int bind(struct fid& fid, uint64_t flags);
  int enable();
  bool enabled() const { return enabled_.load(std::memory_order_acquire); }

  // ---- Requires enabled()
  AddressVector& vector() { return *vector_; }
  CompletionQueue* queue() { return queue_.get(); }
  // For immediate operations; may be null. No operation counts as a read, but deferred
  // atomics require a read counter.
  Counter* write_counter() { return write_counter_.get(); }
  bool counts_reads() const { return read_counter_ != nullptr; }
  // True if success makes a completion entry.
  bool reports(uint64_t flags) const { return !selective_ || (flags & FI_COMPLETION) != 0; }

  size_t slots_held = 0;  // by requests; guarded by the domain's events lock

 private:
  const Used<Domain> domain_;
  const uint64_t caps_;
  const size_t slots_;
  Used<AddressVector> vector_;
  Used<CompletionQueue> queue_;
  Used<Counter> write_counter_, read_counter_;
  bool selective_ = false;
  std::atomic<bool> enabled_{false};
};

// FI_QUEUE_WORK. Copies the descriptor, as CXI does. -FI_EINVAL if CXI refuses it; -FI_ENOSYS if
// this kind of work is not simulated. -FI_EAGAIN while the endpoint has no free transmit slot;
// -FI_ENOSPC if no entry is free and the pool does not stall.
int queue_work(Domain& domain, const struct fi_deferred_work& work);
// FI_FLUSH_WORK: cancels every waiting entry of the domain, waits for operations in
// flight, and pauses as CXI does.
int flush_work(Domain& domain);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_ENDPOINT_H_
