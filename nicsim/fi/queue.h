// The completion queue: events that the NIC has written, and the completion entries made from them.
//
// As on CXI, an event has no effect until the queue is read. Only then does its operation release
// its transmit slot and make an entry, if the user wants one.
#ifndef LANYARD_NICSIM_FI_QUEUE_H_
#define LANYARD_NICSIM_FI_QUEUE_H_

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <deque>

#include "nicsim/fi/domain.h"
#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

class CompletionQueue : public fid_cq {
 public:
  CompletionQueue(Domain& domain, enum fi_cq_format format) : fid_cq(), domain_(domain), format_(format) {}

  Domain& domain() { return domain_; }

  // As the functions of fi_ops_cq.
  ssize_t read(void* buffer, size_t count);
  ssize_t read_error(struct fi_cq_err_entry& entry);

  // ---- Requires the domain's events lock
  // An operation has ended.
  void arrived(const Request& request, Code code) { events_.push_back({request, code}); }
  // Turns the events into entries and releases their transmit slots.
  void read_events();
  void forget(const Endpoint& endpoint);

  std::atomic<int> endpoints{0};  // bound endpoints

 private:
  struct Event {
    Request request;
    Code code = Code::kOk;
  };

  size_t entry_bytes() const;

  Domain& domain_;
  const enum fi_cq_format format_;
  std::deque<Event> events_;
  std::deque<Event> entries_;
};

// As fi_ops_domain::cq_open. fi_close() returns -FI_EBUSY while endpoints are bound.
int open_queue(struct fid_domain* domain, struct fi_cq_attr* attributes, struct fid_cq** queue, void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_QUEUE_H_
