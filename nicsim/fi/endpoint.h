// The endpoint: where operations begin. It is a name and a share of the domain's NIC: the limit of
// operations under way, the queue for their events, counters, and the vector that its fi_addr_t are
// places in.
#ifndef LANYARD_NICSIM_FI_ENDPOINT_H_
#define LANYARD_NICSIM_FI_ENDPOINT_H_

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

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
  uint64_t op_flags() const { return op_flags_; }
  uint64_t message_order() const { return message_order_; }
  uint32_t traffic_class() const { return traffic_class_; }
  size_t slots() const { return slots_; }
  uint16_t number() const { return number_; }

  // As fi_ep_bind() and fi_enable(). Needs a vector and a queue.
  int bind(struct fid& fid, uint64_t flags);
  int enable();
  bool enabled() const { return enabled_.load(std::memory_order_acquire); }
  // -FI_EBUSY while regions are bound.
  int close();

  // ---- Once enabled
  AddressVector& vector() { return *vector_; }
  CompletionQueue* queue() { return queue_; }
  // Of immediate operations; may be null.
  Counter* write_counter() { return write_counter_; }
  Counter* read_counter() { return read_counter_; }
  // Whether success makes an entry in the queue.
  bool reports(uint64_t flags) const { return !selective_ || (flags & FI_COMPLETION) != 0; }

  // Hands an operation to the NIC, or holds it back until one comes that is not followed by `more`. Errors as
  // Nic::issue().
  Status issue(const nic::Op& op, bool more);

  size_t slots_held = 0;        // by requests; the domain's events lock guards it
  std::atomic<int> regions{0};  // bound

 private:
  Domain& domain_;
  const uint64_t caps_;
  const uint64_t op_flags_;
  const uint64_t message_order_;
  const uint32_t traffic_class_;
  const size_t slots_;
  const uint16_t number_;
  AddressVector* vector_ = nullptr;
  CompletionQueue* queue_ = nullptr;
  Counter* write_counter_ = nullptr;
  Counter* read_counter_ = nullptr;
  bool selective_ = false;
  std::atomic<bool> enabled_{false};
  std::mutex held_mutex_;
  std::deque<nic::Op> held_;
};

// As struct fi_ops_domain's endpoint. Closed by fi_close().
int open_endpoint(struct fid_domain* domain, struct fi_info* info, struct fid_ep** endpoint, void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_ENDPOINT_H_
