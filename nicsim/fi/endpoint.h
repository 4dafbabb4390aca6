// The endpoint: starts operations on the domain's NIC. It has an address, a limit of operations in
// flight, a completion queue, counters, and an address vector.
#ifndef LANYARD_NICSIM_FI_ENDPOINT_H_
#define LANYARD_NICSIM_FI_ENDPOINT_H_

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "nicsim/fi/domain.h"

namespace lanyard::nicsim::fi {

class AddressVector;
class CompletionQueue;
class Counter;

class Endpoint : public fid_ep {
 public:
  Endpoint(Domain& domain, const fi_info& info);

  Domain& domain() { return domain_; }
  uint64_t caps() const { return caps_; }
  size_t slots() const { return slots_; }

  // As fi_ep_bind() and fi_enable(). bind() returns -FI_EOPBADSTATE once enabled; enable() needs an
  // address vector and a queue.
  int bind(struct fid& fid, uint64_t flags);
  int enable();
  bool enabled() const { return enabled_.load(std::memory_order_acquire); }
  // -FI_EBUSY while regions are bound.
  int close();

  // ---- Requires enabled()
  AddressVector& vector() { return *vector_; }
  CompletionQueue* queue() { return queue_; }
  // For immediate operations; may be null. No operation counts as a read, but deferred
  // atomics require a read counter.
  Counter* write_counter() { return write_counter_; }
  bool counts_reads() const { return read_counter_ != nullptr; }
  // True if success makes a completion entry.
  bool reports(uint64_t flags) const { return !selective_ || (flags & FI_COMPLETION) != 0; }

  size_t slots_held = 0;        // by requests; guarded by the domain's events lock
  std::atomic<int> regions{0};  // bound regions

 private:
  Domain& domain_;
  const uint64_t caps_;
  const size_t slots_;
  AddressVector* vector_ = nullptr;
  CompletionQueue* queue_ = nullptr;
  Counter* write_counter_ = nullptr;
  Counter* read_counter_ = nullptr;
  bool selective_ = false;
  std::atomic<bool> enabled_{false};
};

// As fi_ops_domain::endpoint. Closed by fi_close().
int open_endpoint(struct fid_domain* domain, struct fi_info* info, struct fid_ep** endpoint, void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_ENDPOINT_H_
